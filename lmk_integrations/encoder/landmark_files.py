"""Directories of sentence-transformers' landmark modules (its pull request 3642).

Their ``LandmarkTransformer`` saves three keys beside those of a Transformer, and a Pooling with
the mode "lmk" follows it. Only these files are read; the classes are never imported.

What is not repeated from them: cutting texts at max_seq_length; finding padding by its id, which
loses every landmark where PAD is the landmark; special tokens spelled out in a text; moving
unknown tokens at a text's ends out of its chunks; landmarks inside a prompt.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmk_integrations.encoder.json_files import read_json, whole_of
from lmk_integrations.errors import ModelError

LANDMARK_TRANSFORMER = "LandmarkTransformer"


@dataclass(frozen=True, slots=True)
class LandmarkStyle:
    """How a model's landmarks stand, where that is not this package's own way.

    token_id: the landmark; None takes the tokenizer's separator, else its end token.
    framed: as those modules have it: the special tokens behind a text stay, and count as
        landmarks where they have the landmark's id; white space around a text is not read; the
        tokens of a prompt count in the first chunk.
    """

    token_id: int | None = None
    framed: bool = False

    def to_dict(self) -> dict[str, Any]:
        """As JSON values, for lmk_config.json."""
        return {"token_id": self.token_id, "framed": self.framed}


OWN_STYLE = LandmarkStyle()
"""Landmarks as this package's own models have them."""


def saved_style(path: Path, lmk: Mapping[str, Any]) -> LandmarkStyle:
    """The style in an lmk_config.json; a ModelError where it is none."""
    saved = lmk.get("landmarks", {})
    known = isinstance(saved, dict) and not set(saved) - {"token_id", "framed"}
    if not known or not isinstance(saved.get("framed", False), bool):
        raise ModelError(f"{path}: landmarks must hold token_id and framed, not {saved!r}")
    return LandmarkStyle(whole_of(path, saved, "token_id", least=0), saved.get("framed", False))


def read_landmark_modules(transformer: Path, pooling: Path) -> tuple[LandmarkStyle, int]:
    """(style, tokens per landmark) of a LandmarkTransformer and its Pooling.

    ``train_landmark_interval`` is for training and changes no vector. Raises ModelError for what
    those modules would compute otherwise than landmark by landmark.
    """
    where = transformer / "sentence_bert_config.json"
    settings = read_json(where, dict)
    interval = whole_of(where, settings, "landmark_interval")
    if interval is None:
        raise ModelError(
            f"{where} lacks landmark_interval, the tokens per landmark: it was saved by another "
            f"{LANDMARK_TRANSFORMER} than that of sentence-transformers' pull request 3642"
        )
    landmark = whole_of(where, settings, "lmk_token_id", least=0)
    pooled_at = pooling / "config.json"
    pooled = read_json(pooled_at, dict).get("lmk_token_id")
    if pooled != landmark or landmark is None:
        raise ModelError(
            f"{pooled_at} pools the token lmk_token_id={pooled!r}, but {where} inserts "
            f"lmk_token_id={landmark!r}: such a model averages all tokens. Write the same id in "
            "both files if it was trained for landmarks"
        )
    return LandmarkStyle(landmark, framed=True), interval
