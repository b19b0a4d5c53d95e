"""Check every point before the engine sees it.

The engine's Python binding checks little: it stores NaN and zero vectors, applies part of a batch
that holds a vector of the wrong size, and panics on a ragged multivector, after which the shard
can no longer be opened. So nothing reaches it that has not passed here. Only NumPy is needed.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lmk_integrations.errors import StoreError
from lmk_integrations.qdrant.edge.payload import prepare_payload

DENSE = "dense"
MULTI = "multivector"
SPARSE = "sparse"

# Qdrant's MAX_MULTIVECTOR_FLATTENED_LEN: a server refuses more, so a store must not hold more.
MAX_MULTIVECTOR_ELEMENTS = 1 << 20
MAX_POINT_ID = (1 << 64) - 1
_MAX_SPARSE_INDEX = (1 << 32) - 1
_FLOAT16_MAX = 65504.0
# Below this squared length the engine takes a vector for zero and stores it as it is.
_TINY_SQUARED_LENGTH = float(np.finfo(np.float32).eps)

FloatArray = npt.NDArray[np.float32]


@dataclass(frozen=True)
class VectorField:
    """One named vector of a collection.

    kind: DENSE, MULTI or SPARSE. size: floats per row, 0 for sparse. cosine: distance is cosine.
    datatype: storage type in lower case, such as ``"float32"``. idf: sparse with the IDF modifier.
    """

    name: str
    kind: str
    size: int = 0
    cosine: bool = False
    datatype: str = "float32"
    idf: bool = False


@dataclass(frozen=True)
class SparseArray:
    """A sparse vector: ascending unique uint32 `indices` and float32 `values` of equal length."""

    indices: npt.NDArray[np.uint32]
    values: FloatArray


PreparedVector = FloatArray | SparseArray


@dataclass(frozen=True)
class PreparedPoint:
    """A point that is safe to hand to the engine. id: an int or a canonical UUID string."""

    id: int | str
    vectors: dict[str, PreparedVector]
    payload: dict[str, Any]


def prepare_point(
    point_id: Any, vector: Any, payload: Any, fields: Mapping[str, VectorField]
) -> PreparedPoint:
    """Check one point and bring it into the form that is stored.

    vector: one vector for the unnamed field ``""``, or a mapping from name to vector. Arrays and
        nested sequences of numbers are accepted alike; None stands for no vectors.

    Raises StoreError naming the point, the vector and the remedy.
    """
    clean_id = prepare_id(point_id)
    named = vector if isinstance(vector, Mapping) else ({} if vector is None else {"": vector})
    vectors = {}
    for name, value in named.items():
        field = fields.get(name)
        if field is None:
            known = ", ".join(repr(known) for known in sorted(fields)) or "none"
            raise StoreError(
                f"Point {clean_id}: the collection has no vector named {name!r} (it has {known}). "
                "Use one of those names, or create the collection with this vector."
            )
        vectors[name] = prepare_vector(value, field, f"Point {clean_id}, vector {name!r}")
    return PreparedPoint(clean_id, vectors, prepare_payload(payload, f"Point {clean_id}"))


def prepare_id(value: Any) -> int | str:
    """A point id as QdrantClient gives it back: an int, or a UUID as a canonical string.

    Raises StoreError for anything but an unsigned 64-bit integer or a UUID.
    """
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        if 0 <= int(value) <= MAX_POINT_ID:
            return int(value)
    elif isinstance(value, str):
        try:
            return str(uuid.UUID(value))
        except ValueError:
            pass
    raise StoreError(
        f"Point id {value!r} is neither an unsigned 64-bit integer nor a UUID. "
        "Derive one from any text with uuid.uuid5."
    )


def prepare_vector(value: Any, field: VectorField, where: str) -> PreparedVector:
    """Check one vector against its field. `where` begins every error message.

    Returns (size,) float32 for dense, (rows, size) float32 for multivectors, else a SparseArray.
    """
    if field.kind == SPARSE:
        return prepare_sparse(value, where)
    array = as_float_array(value, where)
    if field.kind == DENSE:
        if array.ndim != 1:
            raise StoreError(
                f"{where}: expected one row of {field.size} numbers, got {array.ndim}"
                " dimensions. Pass a flat list or a one-dimensional array."
            )
    elif array.ndim != 2 or array.shape[0] == 0:
        raise StoreError(
            f"{where}: expected one or more rows of {field.size} numbers, got shape "
            f"{array.shape}. Leave the vector out of points that have no rows."
        )
    check_size(array, field, where)
    if array.ndim == 2 and array.size >= MAX_MULTIVECTOR_ELEMENTS:
        raise StoreError(
            f"{where}: {array.shape[0]} rows of {field.size} are {array.size} numbers, Qdrant "
            f"takes fewer than {MAX_MULTIVECTOR_ELEMENTS}. Split the text into smaller sections."
        )
    _check_datatype(array, field, where)
    return _for_cosine(array, where) if field.cosine else array


def check_size(array: FloatArray, field: VectorField, where: str) -> None:
    """Raise StoreError unless the rows of `array` have the size of the field."""
    if array.shape[-1] != field.size:
        raise StoreError(
            f"{where}: has {array.shape[-1]} dimensions, the collection expects {field.size}. "
            "Embed with the model the collection was made for, or use another collection."
        )


def as_float_array(value: Any, where: str) -> FloatArray:
    """`value` as finite float32. Raises StoreError for ragged, non-numeric or non-finite input."""
    try:
        wide = np.asarray(value)
        if wide.dtype.kind not in "fiu" or wide.ndim == 0:
            raise ValueError("it does not hold numbers only, or its rows differ in length")
        with np.errstate(over="ignore"):
            array = np.ascontiguousarray(wide, dtype=np.float32)
    except (ValueError, TypeError) as error:
        kind = type(value).__name__
        raise StoreError(f"{where}: {kind} is not a rectangular array of numbers ({error}).") from (
            error
        )
    if not np.isfinite(array).all():
        raise StoreError(
            f"{where}: holds NaN or infinite values. Check the model's output for this text."
        )
    return array


def prepare_sparse(value: Any, where: str) -> SparseArray:
    """Check a sparse vector (anything with `indices` and `values`) and sort it by index."""
    if isinstance(value, Mapping) and {"indices", "values"} <= value.keys():
        raw_indices, raw_values = value["indices"], value["values"]
    elif hasattr(value, "indices") and hasattr(value, "values"):
        raw_indices, raw_values = value.indices, value.values
    else:
        raise StoreError(
            f"{where}: is a sparse vector, got {type(value).__name__}. "
            "Pass models.SparseVector(indices=..., values=...)."
        )
    wide = np.asarray(raw_indices)
    if wide.size == 0:
        wide = wide.astype(np.int64)
    if wide.dtype.kind not in "iu" or wide.ndim != 1:
        raise StoreError(f"{where}: sparse indices must be a flat list of integers.")
    values = as_float_array(raw_values, where) if len(raw_values) else np.zeros(0, np.float32)
    if values.shape != wide.shape:
        raise StoreError(
            f"{where}: {wide.size} sparse indices but {values.size} values. They go in pairs."
        )
    if wide.size and (wide.min() < 0 or wide.max() > _MAX_SPARSE_INDEX):
        raise StoreError(f"{where}: sparse indices must lie between 0 and {_MAX_SPARSE_INDEX}.")
    order = np.argsort(wide, kind="stable")
    indices = wide[order].astype(np.uint32)
    if (indices[1:] == indices[:-1]).any():
        raise StoreError(
            f"{where}: sparse indices must be unique. Add up the values of equal ones."
        )
    return SparseArray(indices, np.ascontiguousarray(values[order]))


def _check_datatype(array: FloatArray, field: VectorField, where: str) -> None:
    if field.datatype == "float16" and array.size and np.abs(array).max() > _FLOAT16_MAX:
        raise StoreError(f"{where}: holds values beyond ±{_FLOAT16_MAX:.0f}, the range of float16.")
    if field.datatype == "uint8" and array.size and (array.min() < 0 or array.max() > 255):
        raise StoreError(f"{where}: is stored as uint8 and takes values from 0 to 255 only.")


def _for_cosine(array: FloatArray, where: str) -> FloatArray:
    """Refuse zero rows; scale rows so short that the engine would leave them unnormalised."""
    squared = np.einsum("...i,...i->...", array, array, dtype=np.float64)
    zero = np.flatnonzero(squared == 0.0)
    if zero.size:
        row = f" (row {int(zero[0])})" if array.ndim == 2 else ""
        raise StoreError(
            f"{where}: is all zeros{row}, which has no direction to compare by cosine. "
            "Leave the vector out of this point, or check the model's output for this text."
        )
    tiny = squared < _TINY_SQUARED_LENGTH
    if not np.any(tiny):
        return array
    lengths = np.where(tiny, np.sqrt(squared), 1.0)[..., np.newaxis]
    return (array / lengths).astype(np.float32)
