"""BM25 as sparse vectors, computed here for every kind of store and without any download.

The term weights are the document's half of BM25; the store supplies the other half, the inverse
document frequency, through the IDF modifier of the sparse vector.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import qdrant_edge as qe
from qdrant_client.http import models

from lmk_integrations.errors import ConfigError

# A tokenizer, without stop words or stemming, in place of a language.
NO_LANGUAGE = "none"
MULTILINGUAL = "multilingual"

LANGUAGES = tuple(sorted(name.lower() for name in dir(qe.Language) if not name.startswith("_")))

_TOKENIZERS = {
    "word": qe.TokenizerType.Word,
    "whitespace": qe.TokenizerType.Whitespace,
    "prefix": qe.TokenizerType.Prefix,
    "multilingual": qe.TokenizerType.Multilingual,
}
# Written without spaces: the word tokenizer would make one token of a whole sentence.
_UNSPACED_LANGUAGES = frozenset({"chinese", "japanese"})
# Changes when the same settings begin to give other vectors.
_VERSION = 1


class Bm25Encoder:
    """Text to sparse BM25 vectors. Immutable, thread-safe, cheap to make.

    Collections keep `to_dict()` in their metadata, so that queries are encoded as documents were.
    """

    def __init__(
        self,
        language: str = "english",
        *,
        avg_len: float = 256.0,
        k: float = 1.2,
        b: float = 0.75,
        tokenizer: str | None = None,
    ) -> None:
        """Choose how text becomes terms.

        language: stop words and stemmer, one of LANGUAGES; ``"none"`` for neither;
            ``"multilingual"`` for neither and a tokenizer that splits unspaced scripts too.
        avg_len: expected document length in terms. k, b: BM25's saturation and length weight.
        tokenizer: ``"word"``, ``"whitespace"``, ``"prefix"`` or ``"multilingual"``; None chooses
            by language.

        Raises ConfigError naming the setting, its value and what is possible.
        """
        if language not in (*LANGUAGES, NO_LANGUAGE, MULTILINGUAL):
            raise ConfigError(
                f"BM25 does not know the language {language!r}. Choose one of "
                f"{', '.join((*LANGUAGES, NO_LANGUAGE, MULTILINGUAL))}."
            )
        if tokenizer is None:
            unspaced = language == MULTILINGUAL or language in _UNSPACED_LANGUAGES
            tokenizer = "multilingual" if unspaced else "word"
        if tokenizer not in _TOKENIZERS:
            raise ConfigError(
                f"BM25 does not know the tokenizer {tokenizer!r}. Choose one of "
                f"{', '.join(_TOKENIZERS)}."
            )
        self._settings = {
            "language": language,
            "avg_len": float(avg_len),
            "k": float(k),
            "b": float(b),
            "tokenizer": tokenizer,
        }
        neutral = language in (NO_LANGUAGE, MULTILINGUAL)
        try:
            config = qe.Bm25Config(
                k=float(k),
                b=float(b),
                avg_len=float(avg_len),
                tokenizer=_TOKENIZERS[tokenizer],
                language=None if neutral else language,
                stopwords=qe.StopwordsSet() if neutral else None,
                stemmer=qe.DisabledStemmer() if neutral else None,
            )
            self._model = qe.Bm25(config)
        except ValueError as error:
            raise ConfigError(f"BM25 settings do not fit: {error}") from error

    @property
    def language(self) -> str:
        """The language, ``"none"`` or ``"multilingual"``."""
        return str(self._settings["language"])

    def encode_document(self, text: str) -> models.SparseVector:
        """Term weights of a text to be stored.

        A text without terms (empty, or stop words only) gives a vector without entries: leave it
        out of the point, so that the point is not counted as a document in IDF.
        """
        return _to_model(self._model.embed_document(_clean(text)))

    def encode_query(self, text: str) -> models.SparseVector:
        """The distinct terms of a query, each with weight 1. Without entries, it finds nothing."""
        return _to_model(self._model.embed_query(_clean(text)))

    def to_dict(self) -> dict[str, Any]:
        """The settings as plain JSON; `from_dict` makes an equal encoder of them."""
        return {**self._settings, "version": _VERSION}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Bm25Encoder:
        """An encoder from `to_dict()`. Raises ConfigError for unknown settings or versions."""
        settings = dict(data)
        version = settings.pop("version", None)
        if version != _VERSION:
            raise ConfigError(
                f"The BM25 settings have version {version!r}, this release knows {_VERSION}. "
                "Upgrade lmk-integrations, or ingest into a new collection."
            )
        try:
            return cls(**settings)
        except TypeError as error:
            raise ConfigError(f"The BM25 settings do not fit: {error}") from error

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Bm25Encoder) and self._settings == other._settings

    def __hash__(self) -> int:
        return hash(tuple(self._settings.items()))

    def __repr__(self) -> str:
        return f"Bm25Encoder({', '.join(f'{key}={v!r}' for key, v in self._settings.items())})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (Bm25Encoder.from_dict, (self.to_dict(),))


def _clean(text: str) -> str:
    # A lone surrogate is in no word, and the engine takes only what UTF-8 can hold.
    return text if text.isascii() else text.encode("utf-8", "ignore").decode("utf-8")


def _to_model(vector: qe.SparseVector) -> models.SparseVector:
    return models.SparseVector.model_construct(
        indices=list(vector.indices), values=list(vector.values)
    )
