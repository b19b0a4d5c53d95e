"""Filters written as plain mappings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from qdrant_client import models

from lmk_integrations.errors import ConfigError

_RANGES = {"gt", "gte", "lt", "lte"}


def as_filter(wanted: models.Filter | Mapping[str, Any] | None) -> models.Filter | None:
    """A Qdrant filter, or a mapping of metadata keys to what they must be.

    ``{"source": "a.pdf", "page": {"gte": 3}, "lang": ["en", "de"]}``: a value must be equal, a
    list holds the values allowed, a mapping holds bounds (gt, gte, lt, lte). All must hold.
    Raises ConfigError for anything else.
    """
    if wanted is None or isinstance(wanted, models.Filter):
        return wanted
    if not isinstance(wanted, Mapping):
        raise ConfigError(f"filter={wanted!r} is neither a models.Filter nor a mapping")
    return models.Filter(must=[_condition(key, value) for key, value in wanted.items()])


def _condition(key: str, value: Any) -> models.FieldCondition:
    path = f"metadata.{key}"
    if isinstance(value, Mapping):
        if not value or not set(value) <= _RANGES:
            raise ConfigError(
                f"filter on {key!r}: {dict(value)!r} must hold bounds named gt, gte, lt, lte"
            )
        return models.FieldCondition(key=path, range=models.Range(**value))
    if isinstance(value, list | tuple | set | frozenset):
        return models.FieldCondition(key=path, match=models.MatchAny(any=list(value)))
    if isinstance(value, float) and not value.is_integer():
        return models.FieldCondition(key=path, range=models.Range(gte=value, lte=value))
    if isinstance(value, bool | int | str | float):
        exact = int(value) if isinstance(value, float) else value
        return models.FieldCondition(key=path, match=models.MatchValue(value=exact))
    raise ConfigError(
        f"filter on {key!r}: {value!r} must be a string, number, boolean, list or bounds"
    )
