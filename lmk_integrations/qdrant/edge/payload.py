"""Payloads: what JSON can hold, and nothing that the engine would change behind one's back."""

from __future__ import annotations

import datetime
import math
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lmk_integrations.errors import StoreError

MAX_DEPTH = 64
_MIN_INT = -(1 << 63)
_MAX_INT = (1 << 64) - 1
_SCALARS = frozenset({str, int, float, bool, type(None)})


def prepare_payload(payload: Any, where: str) -> dict[str, Any]:
    """A deep copy of `payload` in plain JSON types.

    Dates become ISO 8601 strings, UUIDs strings, NumPy scalars numbers and tuples lists, as
    QdrantClient sends them. None is an empty payload. `where` begins every error message.

    Raises StoreError naming the key for anything else: NaN, sets, bytes, non-string keys,
    integers beyond 64 bits, lone surrogates, or nesting deeper than MAX_DEPTH.
    """
    if payload is None:
        return {}
    if not isinstance(payload, Mapping):
        raise StoreError(f"{where}: the payload must be a mapping, got {type(payload).__name__}.")
    copied: dict[str, Any] = _copy(payload, where, "payload", 1)
    return copied


def _copy(value: Any, where: str, key: str, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise StoreError(f"{where}: the payload is nested deeper than {MAX_DEPTH} levels.")
    if type(value) in _SCALARS:
        return _scalar(value, where, key)
    if isinstance(value, Mapping):
        copied = {}
        for name, item in value.items():
            if not isinstance(name, str):
                raise StoreError(f"{where}, {key}: the key {name!r} is not a string.")
            copied[_text(name, where, key)] = _copy(item, where, f"{key}.{name}", depth + 1)
        return copied
    if isinstance(value, (list, tuple)):
        if depth < MAX_DEPTH and _are_plain_numbers(value):
            return list(value)
        return [_copy(item, where, key, depth + 1) for item in value]
    return _scalar(value, where, key)


def _are_plain_numbers(values: Sequence[Any]) -> bool:
    """Whether a list can be stored as it is; quick, for a section has a few per landmark."""
    kinds = set(map(type, values))
    if kinds == {int}:
        return bool(min(values) >= _MIN_INT and max(values) <= _MAX_INT)
    return kinds == {float} and all(map(math.isfinite, values))


def _scalar(value: Any, where: str, key: str) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _text(value, where, key)
    if isinstance(value, int):
        if not _MIN_INT <= value <= _MAX_INT:
            raise StoreError(f"{where}, {key}: the integer {value} does not fit in 64 bits.")
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise StoreError(f"{where}, {key}: {value} cannot be stored as JSON. Use None.")
        return float(value)
    if isinstance(value, (datetime.datetime, datetime.date)):
        return value.isoformat()
    if isinstance(value, uuid.UUID):
        return str(value)
    raise StoreError(
        f"{where}, {key}: {type(value).__name__} cannot be stored as JSON. "
        "Convert it to text, numbers, lists or mappings."
    )


def _text(value: str, where: str, key: str) -> str:
    if not value.isascii():
        try:
            value.encode("utf-8")
        except UnicodeEncodeError as error:
            raise StoreError(
                f"{where}, {key}: the text holds a lone surrogate at {error.start}. Re-read it "
                "with the right encoding, or drop the character."
            ) from error
    return str(value)
