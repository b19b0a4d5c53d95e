"""Filters written as plain mappings."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from typing import Any

from qdrant_client import models

from lmk_integrations.errors import ConfigError, DocumentError
from lmk_integrations.ingest.metadata import json_metadata
from lmk_integrations.qdrant.schema import RECORD

_RANGES = {"gt", "gte", "lt", "lte"}
# What Qdrant reads as a path into nested values; any other key is quoted and taken as it is.
_STEP = r'(?:[A-Za-z0-9_-]+|"[^"]+")(?:\[\d*\])*'
_PATH = re.compile(rf"{_STEP}(?:\.{_STEP})*")
_PREFIX = "metadata."
# Sections show their own facts under these keys; what the user had there is kept in the record.
_COVERED = {"section", "start", "end"}
_GIVEN = f"{RECORD}.given."
# Beyond this a number is no longer exact as the float that ranges are made of.
_EXACT = 1 << 53

Condition = models.FieldCondition | models.IsEmptyCondition | models.Filter


def as_filter(wanted: models.Filter | Mapping[str, Any] | None) -> models.Filter | None:
    """A Qdrant filter, or a mapping of metadata keys to what they must be.

    ``{"source": "a.pdf", "page": {"gte": 3}, "lang": ["en", "de"]}``: a value must be equal, a
    list holds the values allowed, a mapping holds bounds (gt, gte, lt, lte) that are numbers or
    dates, and None asks for documents without that key. All must hold. ``"a.b"`` looks into the
    mapping ``a``; ``'"a.b"'``, in double quotes, is a key with a dot. Where a document came with
    metadata named section, start, end or doc_id, these are what is compared, not ours; of doc_id
    either. Raises ConfigError for anything else.
    """
    if wanted is None or isinstance(wanted, models.Filter):
        return wanted
    if not isinstance(wanted, Mapping):
        raise ConfigError(f"filter={wanted!r} is neither a models.Filter nor a mapping")
    must: list[Any] = [_condition(key, value) for key, value in wanted.items()]
    return models.Filter(must=must) if must else None


def path_of(key: Any) -> str:
    """Where a metadata key lies in a payload. Raises ConfigError for what cannot be one."""
    if not isinstance(key, str) or not key:
        raise ConfigError(f"filter key {key!r} must be the name of a metadata key")
    if _PATH.fullmatch(key):
        return f"{_PREFIX}{key}"
    if '"' in key:
        raise ConfigError(
            f"filter key {key!r}: Qdrant finds no key with a double quote in it; quotes go around "
            "a key, or a step of a path, that is not letters, digits, - and _"
        )
    return f'{_PREFIX}"{key}"'


def _condition(key: str, value: Any) -> Condition:
    path = path_of(key)
    shown = _at(key, path, value)
    root = key.split(".")[0]
    if value is None or root not in {*_COVERED, "doc_id"}:
        return shown
    given = _at(key, f"{_GIVEN}{path.removeprefix(_PREFIX)}", value)
    if root == "doc_id":
        return models.Filter(should=[given, shown])
    none = models.IsEmptyCondition(is_empty=models.PayloadField(key=f"{_GIVEN}{root}"))
    return models.Filter(should=[given, models.Filter(must=[none, shown])])


def _at(key: str, path: str, value: Any) -> Condition:
    if value is None:
        return models.IsEmptyCondition(is_empty=models.PayloadField(key=path))
    if isinstance(value, Mapping):
        return _bounds(key, path, value)
    if isinstance(value, list | tuple | set | frozenset):
        if all(isinstance(item, str) for item in value):
            return models.FieldCondition(key=path, match=models.MatchAny(any=list(value)))
        return models.Filter(should=[_at(key, path, item) for item in value])
    value = _stored(key, value)
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
    bounds = {
        name: value if isinstance(value, datetime.date) else _stored(key, value)
        for name, value in bounds.items()
    }
    values = list(bounds.values())
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        return models.FieldCondition(key=path, range=models.Range(**bounds))
    if all(isinstance(value, str | datetime.date) for value in values):
        try:
            return models.FieldCondition(key=path, range=models.DatetimeRange(**bounds))
        except ValueError as error:
            raise ConfigError(f"{complaint}dates in ISO 8601") from error
    raise ConfigError(f"{complaint}numbers, or dates")


def _stored(key: str, value: Any) -> Any:
    """A value in the form that metadata of its kind is stored in."""
    if isinstance(value, bool | float | str):  # NaN too: it is equal to nothing
        return value
    try:
        return json_metadata({key: value})[0][key]
    except DocumentError:
        return value  # it will be refused
