"""Payload index schemas, to the engine and back."""

from __future__ import annotations

from typing import Any

import qdrant_edge as qe
from qdrant_client.http import models

from lmk_integrations.errors import StoreError

# Parameters whose values are the engine's own enums or classes; the rest are plain values.
_PLAIN = (
    "is_tenant",
    "is_principal",
    "lookup",
    "range",
    "on_disk",
    "enable_hnsw",
    "prefix",
    "nested",
    "min_token_len",
    "max_token_len",
    "lowercase",
    "ascii_folding",
    "phrase_matching",
)


def to_edge_schema(schema: Any) -> Any:
    """A PayloadSchemaType (or its name), or one of the *IndexParams, as the engine takes it."""
    if isinstance(schema, (str, models.PayloadSchemaType)):
        name = str(getattr(schema, "value", schema)).capitalize()
        member = getattr(qe.PayloadSchemaType, name, None)
        if member is not None:
            return member
    elif type(schema).__name__.endswith("IndexParams"):
        return _parameters(schema)
    raise StoreError(
        f"{schema!r} is no payload schema. Use models.PayloadSchemaType or its index parameters."
    )


def from_edge_schema(index: Any) -> models.PayloadIndexInfo:
    """What the engine says of an index, as models.PayloadIndexInfo (its parameters aside)."""
    kind = str(index.data_type).rpartition(".")[2].lower()
    return models.PayloadIndexInfo(
        data_type=models.PayloadSchemaType(kind), params=None, points=index.points
    )


def _parameters(schema: Any) -> Any:
    kind = type(schema).__name__
    build = getattr(qe, kind, None)
    if build is None:
        raise StoreError(f"The embedded engine does not know the payload index {kind}.")
    given = {key: value for key, value in schema if value is not None and key != "type"}
    plain = {key: value for key, value in given.items() if key in _PLAIN}
    special = {key: _special(key, value) for key, value in given.items() if key not in _PLAIN}
    return build(**plain, **special)


def _special(key: str, value: Any) -> Any:
    if key == "memory":
        return getattr(qe.Memory, value.value.capitalize())
    if key == "tokenizer":
        return getattr(qe.TokenizerType, value.value.capitalize())
    if key == "scoring":
        return value if isinstance(value, bool) else qe.TextScoringParams()
    if key == "stopwords":
        return _stopwords(value)
    if key == "stemmer":
        if type(value).__name__ == "SnowballParams":
            language = value.language.value.capitalize()
            return qe.SnowballParams(getattr(qe.SnowballLanguage, language))
        return qe.DisabledStemmer()
    raise StoreError(f"The embedded engine does not know the index parameter {key!r}.")


def _stopwords(value: Any) -> Any:
    if type(value).__name__ != "StopwordsSet":
        return getattr(qe.Language, value.value.capitalize())
    languages = {getattr(qe.Language, item.value.capitalize()) for item in value.languages or []}
    return qe.StopwordsSet(languages=languages or None, custom=set(value.custom or []) or None)
