"""Filters written as plain mappings."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from typing import Any

from qdrant_client import models

from lmk_integrations.errors import ConfigError

_RANGES = {"gt", "gte", "lt", "lte"}
# What Qdrant reads as a path into nested values; any other key is quoted and taken as it is.
_PATH = re.compile(r"[A-Za-z0-9_-]+(\[\d*\])*(\.[A-Za-z0-9_-]+(\[\d*\])*)*")
# Beyond this a number is no longer exact as the float that ranges are made of.
_EXACT = 1 << 53

Condition = models.FieldCondition | models.IsEmptyCondition | models.Filter


def as_filter(wanted: models.Filter | Mapping[str, Any] | None) -> models.Filter | None:
    """A Qdrant filter, or a mapping of metadata keys to what they must be.

    ``{"source": "a.pdf", "page": {"gte": 3}, "lang": ["en", "de"]}``: a value must be equal, a
    list holds the values allowed, a mapping holds bounds (gt, gte, lt, lte) that are numbers or
    dates, and None asks for documents without that key. All must hold. ``"a.b"`` looks into the
    mapping ``a``. Raises ConfigError for anything else.
    """
    if wanted is None or isinstance(wanted, models.Filter):
        return wanted
    if not isinstance(wanted, Mapping):
        raise ConfigError(f"filter={wanted!r} is neither a models.Filter nor a mapping")
    must: list[Any] = [_condition(key, value) for key, value in wanted.items()]
    return models.Filter(must=must) if must else None


def _condition(key: str, value: Any) -> Condition:
    path = _path(key)
    if value is None:
        return models.IsEmptyCondition(is_empty=models.PayloadField(key=path))
    if isinstance(value, Mapping):
        return _bounds(key, path, value)
    if isinstance(value, list | tuple | set | frozenset):
        if all(isinstance(item, str) for item in value):
            return models.FieldCondition(key=path, match=models.MatchAny(any=list(value)))
        return models.Filter(should=[_condition(key, item) for item in value])
    if isinstance(value, bool | str):
        return models.FieldCondition(key=path, match=models.MatchValue(value=value))
    if isinstance(value, float) or (isinstance(value, int) and abs(value) < _EXACT):
        # As a range, so that 3 finds 3.0 and the other way round.
        return models.FieldCondition(key=path, range=models.Range(gte=value, lte=value))
    if isinstance(value, int):
        return models.FieldCondition(key=path, match=models.MatchValue(value=value))
    raise ConfigError(
        f"filter on {key!r}: {value!r} must be a string, number, boolean, list, bounds or None"
    )


def _bounds(key: str, path: str, bounds: Mapping[str, Any]) -> models.FieldCondition:
    complaint = f"filter on {key!r}: {dict(bounds)!r} must hold "
    if not bounds or not set(bounds) <= _RANGES:
        raise ConfigError(f"{complaint}bounds named gt, gte, lt, lte")
    values = list(bounds.values())
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        return models.FieldCondition(key=path, range=models.Range(**bounds))
    if all(isinstance(value, str | datetime.date) for value in values):
        try:
            return models.FieldCondition(key=path, range=models.DatetimeRange(**bounds))
        except ValueError as error:
            raise ConfigError(f"{complaint}dates in ISO 8601") from error
    raise ConfigError(f"{complaint}numbers, or dates")


def _path(key: Any) -> str:
    if not isinstance(key, str) or not key:
        raise ConfigError(f"filter key {key!r} must be the name of a metadata key")
    if _PATH.fullmatch(key) or '"' in key:
        return f"metadata.{key}"
    return f'metadata."{key}"'
