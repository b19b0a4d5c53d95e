"""Write what a model directory says of itself: the counterpart of `model_files`."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmk_integrations.core.pooling import POOLINGS, Pooling
from lmk_integrations.encoder.landmark_files import OWN_STYLE, LandmarkStyle
from lmk_integrations.encoder.model_files import LMK_CONFIG
from lmk_integrations.encoder.settings import check_choice, check_range
from lmk_integrations.errors import ConfigError, ModelError

_VERSION = 1
_TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "tekken.json",
    "*.model",
)
_ST_POOLINGS = {"mean": "mean", "cls": "cls", "last": "lasttoken"}
_ST = "sentence_transformers."


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedSettings:
    """What goes with the weights of a model.

    hidden: width of the states that are pooled. granularity: tokens per landmark at use.
    trained_granularities: those seen in training. max_tokens: positions of one window.
    pool_prompt: whether a prompt's tokens count in a mean. dense: folders of Dense modules, in
        order, relative to the model directory. landmarks: how they stand.
    """

    pooling: Pooling
    hidden: int
    granularity: int
    max_tokens: int
    trained_granularities: tuple[int, ...] = ()
    query_prompt: str = ""
    document_prompt: str = ""
    lower_case: bool = False
    pool_prompt: bool = True
    dense: tuple[str, ...] = ()
    landmarks: LandmarkStyle = OWN_STYLE

    def __post_init__(self) -> None:
        check_choice("pooling", self.pooling, POOLINGS)
        check_range("max_tokens", self.max_tokens, 8, 1 << 22)
        if not isinstance(self.granularity, int):  # one per sentence: this reader's choice
            raise ConfigError(
                f"granularity={self.granularity!r} cannot be saved with a model; save a number of "
                "tokens and pass granularity='sentence' when opening it"
            )
        for value in (self.granularity, *self.trained_granularities):
            check_range("granularity", value, 1, 4096)


def write_settings(directory: Path, settings: SavedSettings) -> None:
    """Write lmk_config.json, and the files that sentence-transformers looks for.

    With the pooling "mean", "cls" or "last" the directory is also a plain sentence-transformers
    model. With "lmk" its modules.json names no pooling: opened without this package it gives an
    error, and not vectors that would be wrong.
    """
    lmk: dict[str, Any] = {
        "version": _VERSION,
        "pooling": settings.pooling,
        "granularity": settings.granularity,
        "max_tokens": settings.max_tokens,
        "query_prompt": settings.query_prompt,
        "document_prompt": settings.document_prompt,
        "trained_granularities": list(settings.trained_granularities),
    }
    if settings.landmarks != OWN_STYLE:  # an older version could not open it
        lmk["landmarks"] = settings.landmarks.to_dict()
    _write(directory / LMK_CONFIG, lmk)
    modules = [("0", "", f"{_ST}base.modules.transformer.Transformer")]
    st_pooling = _ST_POOLINGS.get(settings.pooling)
    if st_pooling is not None:
        modules.append(("1", "1_Pooling", f"{_ST}sentence_transformer.modules.pooling.Pooling"))
        pooling = {
            "embedding_dimension": settings.hidden,
            "pooling_mode": st_pooling,
            "include_prompt": settings.pool_prompt,
        }
        (directory / "1_Pooling").mkdir(exist_ok=True)
        _write(directory / "1_Pooling" / "config.json", pooling)
    # The names are the places that the modules have in `lmk_integrations.sentence_transformers`.
    for place, folder in enumerate(settings.dense, 2):
        modules.append((str(place), folder, f"{_ST}base.modules.dense.Dense"))
    last = str(2 + len(settings.dense))
    modules.append((last, f"{last}_Normalize", f"{_ST}base.modules.normalize.Normalize"))
    listed = [
        {"idx": number, "name": name, "path": path, "type": kind}
        for number, (name, path, kind) in enumerate(modules)
    ]
    _write(directory / "modules.json", listed)
    window = {"max_seq_length": settings.max_tokens, "do_lower_case": settings.lower_case}
    _write(directory / "sentence_bert_config.json", window)
    prompts = {"query": settings.query_prompt, "document": settings.document_prompt}
    _write(directory / "config_sentence_transformers.json", {"prompts": prompts})


def copy_tokenizer(source: Path, directory: Path) -> None:
    """Copy a tokenizer's files as they are, but with no padding or truncation baked in.

    Raises ModelError where ``source`` holds none.
    """
    found = [path for name in _TOKENIZER_FILES for path in sorted(source.glob(name))]
    if not found:
        raise ModelError(f"{source} holds no tokenizer.json, nor another vocabulary")
    for path in found:
        target = directory / path.name
        if path.name != "tokenizer.json":
            if path.resolve() != target.resolve():
                shutil.copyfile(path, target)
            continue
        tokenizer = json.loads(path.read_text(encoding="utf-8"))
        tokenizer["padding"] = tokenizer["truncation"] = None
        target.write_text(json.dumps(tokenizer, ensure_ascii=False), encoding="utf-8")


def copy_dense(folders: Sequence[Path], directory: Path) -> tuple[str, ...]:
    """Copy the folders of Dense modules, config and weights, and return their new names."""
    names = []
    for place, folder in enumerate(folders, 2):
        name = f"{place}_Dense"
        (directory / name).mkdir(exist_ok=True)
        for file in ("config.json", "model.safetensors"):
            if (folder / file).resolve() != (directory / name / file).resolve():
                shutil.copyfile(folder / file, directory / name / file)
        names.append(name)
    return tuple(names)


def _write(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
