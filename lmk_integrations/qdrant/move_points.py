"""One point: as it is written again, and whether two of them are the same."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from qdrant_client import models

Floats = NDArray[np.float32]

_COARSE = 0.03


def as_point(record: models.Record, halves: Collection[str] = ()) -> models.PointStruct:
    """A point to write, from a point read.

    halves: names of vectors that both places keep by direction, in float16.
    """
    vectors: Any = record.vector or {}
    if halves and isinstance(vectors, Mapping):
        vectors = {
            name: keep_halves(np.asarray(vector, np.float32)).tolist() if name in halves else vector
            for name, vector in vectors.items()
        }
    # Unchecked: checking a million numbers takes longer than sending them, and they come from a
    # store, not from a person.
    return models.PointStruct.model_construct(id=record.id, vector=vectors, payload=record.payload)


def half_precision(params: models.CollectionParams) -> set[str]:
    """Names of the vectors that are kept by direction, in float16."""
    named = params.vectors if isinstance(params.vectors, Mapping) else {}
    return {
        name
        for name, vector in named.items()
        if vector.datatype == models.Datatype.FLOAT16 and vector.distance == models.Distance.COSINE
    }


def keep_halves(vectors: Floats) -> Floats:
    """Vectors of length one that are rounded to these float16 values, (..., dim).

    Qdrant scales to length one and then rounds, so that a row is not exactly one long when it is
    read. Scaled again it could be rounded to other values, and drift with every copy. Here each
    value moves within what is rounded to it, all by the same share, until the row is one long.
    A row for which there is no such share stays as it is.
    """
    size = np.abs(vectors).astype(np.float64)
    below = np.nextafter(size.astype(np.float16), np.float16(0))
    room = np.spacing(below).astype(np.float64) / 2
    a = (room**2).sum(-1)
    b = (size * room).sum(-1)
    c = (size**2).sum(-1) - 1
    with np.errstate(invalid="ignore", divide="ignore"):
        share = (np.sqrt(b**2 - a * c) - b) / a
    share = np.where(np.abs(share) < 0.99, share, 0.0)[..., np.newaxis]  # NaN: no, too
    moved: Floats = np.copysign(size + share * room, vectors).astype(np.float32)
    return moved


def same_payload(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal, but for the last digit of fractions.

    Engines do not read back every fraction to the last bit.
    """
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same_payload(one[k], other[k]) for k in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same_payload, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-12)
    return bool(one == other)


def eight_bits(params: models.CollectionParams) -> set[str]:
    """Names of the vectors that are kept by direction, in turbo8."""
    named = params.vectors if isinstance(params.vectors, Mapping) else {}
    # By value: an older qdrant-client has no such member.
    return {
        name for name, vector in named.items() if vector.datatype and vector.datatype == "turbo8"
    }


def same_vectors(one: models.Record, other: models.Record, coarse: Collection[str] = ()) -> bool:
    """Whether two points have the same vectors, but for what storing them rounds off.

    coarse: names of vectors that either place keeps in turbo8.
    """
    left, right = (_plain(record.vector) for record in (one, other))
    return left.keys() == right.keys() and all(
        left[key].shape == right[key].shape and _close(left[key], right[key], key in coarse)
        for key in left
    )


def _close(one: Any, other: Any, coarse: bool) -> bool:
    if coarse:  # measured: rows of 1 to 1,024 numbers are at most 0.012 away from what was given
        return bool((np.linalg.norm(one - other, axis=-1) < _COARSE).all())
    return np.allclose(one, other, atol=2e-3)


def _plain(vectors: Any) -> dict[str, Any]:
    named = vectors if isinstance(vectors, dict) else {"": vectors or []}
    found: dict[str, Any] = {}
    for name, vector in named.items():
        if isinstance(vector, models.SparseVector):
            order = np.argsort(np.asarray(vector.indices))
            found[f"{name} indices"] = np.asarray(vector.indices, np.float64)[order]
            found[name] = np.asarray(vector.values, np.float64)[order]
        else:
            found[name] = np.asarray(vector, np.float64)
    return found
