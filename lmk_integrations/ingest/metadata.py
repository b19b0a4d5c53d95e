"""Metadata of any origin -> JSON values that every store keeps as they are."""

from __future__ import annotations

import datetime
import decimal
import enum
import json
import math
import os
import uuid
from collections.abc import Mapping
from typing import Any

import numpy as np

from lmk_integrations.errors import DocumentError

MAX_BYTES = 1 << 20
"""Metadata is repeated in every section: more than this is a document of its own."""

_MAX_DEPTH = 32
_MIN_INT, _MAX_INT = -(1 << 63), (1 << 63) - 1


def json_metadata(metadata: Mapping[Any, Any]) -> tuple[dict[str, Any], int]:
    """The same facts as JSON values, and what they weigh in bytes.

    Dates become ISO 8601 text; paths, UUIDs, decimals and integers beyond 64 bits text; NumPy
    scalars numbers; tuples, sets and arrays lists; NaN and infinity None, as JSON has neither.
    Raises DocumentError, reason "metadata", naming the key of anything else.
    """
    if not isinstance(metadata, Mapping):
        raise DocumentError(
            f"metadata must be a mapping, got {type(metadata).__name__}", reason="metadata"
        )
    cleaned: dict[str, Any] = _mapping(metadata, "metadata", 1)
    size = len(json.dumps(cleaned, ensure_ascii=False).encode())
    if size > MAX_BYTES:
        raise DocumentError(
            f"metadata of {size:,} bytes is over the {MAX_BYTES:,} that are repeated in every "
            "section; keep less of it",
            reason="metadata",
        )
    return cleaned, size


def clean_text(text: str) -> str:
    """The text without lone surrogates, which UTF-8 cannot hold."""
    return text if text.isascii() else text.encode("utf-8", "ignore").decode("utf-8")


def _mapping(values: Mapping[Any, Any], where: str, depth: int) -> dict[str, Any]:
    if depth > _MAX_DEPTH:
        raise DocumentError(f"{where} is nested deeper than {_MAX_DEPTH} levels", "metadata")
    return {
        clean_text(str(key)): _value(value, f"{where}[{key!r}]", depth)
        for key, value in values.items()
    }


def _value(value: Any, where: str, depth: int) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, enum.Enum):
        value = value.value
    if isinstance(value, Mapping):
        return _mapping(value, where, depth + 1)
    if isinstance(value, set | frozenset):
        value = sorted(value, key=repr)  # in the same order in every process
    if isinstance(value, list | tuple):
        if depth >= _MAX_DEPTH:
            raise DocumentError(f"{where} is nested deeper than {_MAX_DEPTH} levels", "metadata")
        return [_value(item, where, depth + 1) for item in value]
    return _scalar(value, where)


def _scalar(value: Any, where: str) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value) if _MIN_INT <= value <= _MAX_INT else str(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, str | os.PathLike | uuid.UUID | decimal.Decimal):
        return clean_text(str(value))
    raise DocumentError(
        f"{where} is a {type(value).__name__}, which JSON cannot hold; convert it to text, "
        "numbers, lists or mappings",
        reason="metadata",
    )
