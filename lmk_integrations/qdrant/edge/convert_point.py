"""Points to the engine's types, and the engine's answers to the qdrant_client models."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from typing import Any

import qdrant_edge as qe
from qdrant_client.http import models

from lmk_integrations.errors import StoreError
from lmk_integrations.qdrant.edge.validate import PreparedPoint, PreparedVector, SparseArray


def to_edge_vector(vector: PreparedVector) -> Any:
    """A checked vector in the form the binding reads fastest.

    The binding walks Python sequences and knows no NumPy buffers; rows of array.array cost about
    two thirds of the time of nested lists and hold no Python object per number.
    """
    if isinstance(vector, SparseArray):
        return qe.SparseVector(vector.indices.tolist(), vector.values.tolist())
    if vector.ndim == 1:
        return array("f", vector.tobytes())
    return [array("f", row.tobytes()) for row in vector]


def to_edge_point(point: PreparedPoint) -> qe.Point:
    """A checked point as the engine's Point."""
    vectors: Any = {name: to_edge_vector(vector) for name, vector in point.vectors.items()}
    return qe.Point(point.id, vectors, point.payload)


def iter_points(points: Any) -> Iterator[tuple[Any, Any, Any]]:
    """(id, vector, payload) of each point in what QdrantClient.upsert accepts.

    That is a models.Batch, or an iterable of PointStruct or of anything else with the attributes
    `id`, `vector` and `payload`, whose vectors may be NumPy arrays.
    """
    if isinstance(points, models.Batch):
        yield from _iter_batch(points)
        return
    if isinstance(points, (str, bytes, dict)) or not isinstance(points, Iterable):
        raise StoreError(
            f"Points must be a list of PointStruct or a Batch, got {type(points).__name__}."
        )
    for point in points:
        if not (hasattr(point, "id") and hasattr(point, "vector")):
            raise StoreError(
                f"A point must be a models.PointStruct, got {type(point).__name__}. "
                "Vectors without ids cannot be stored."
            )
        yield point.id, point.vector, getattr(point, "payload", None)


def _iter_batch(batch: models.Batch) -> Iterator[tuple[Any, Any, Any]]:
    vectors: Any = batch.vectors
    payloads = batch.payloads if batch.payloads is not None else [None] * len(batch.ids)
    lengths = {len(payloads)}
    lengths.update(map(len, vectors.values()) if isinstance(vectors, dict) else [len(vectors)])
    if lengths != {len(batch.ids)}:
        raise StoreError(
            f"The batch has {len(batch.ids)} ids, but vectors or payloads number {sorted(lengths)}."
        )
    for index, point_id in enumerate(batch.ids):
        if isinstance(vectors, dict):
            vector: Any = {name: rows[index] for name, rows in vectors.items()}
        else:
            vector = vectors[index]
        yield point_id, vector, payloads[index]


def to_record(record: Any) -> models.Record:
    """The engine's Record as models.Record."""
    # model_construct: the engine's answer needs no checking, and checking each float of a
    # landmark matrix would take longer than the search.
    return models.Record.model_construct(
        id=to_client_id(record.id),
        payload=record.payload,
        vector=_to_client_vectors(record.vector),
        shard_key=None,
        order_value=record.order_value,
    )


def to_scored_point(point: Any) -> models.ScoredPoint:
    """The engine's ScoredPoint as models.ScoredPoint."""
    return models.ScoredPoint.model_construct(
        id=to_client_id(point.id),
        version=point.version,
        score=point.score,
        payload=point.payload,
        vector=_to_client_vectors(point.vector),
        shard_key=None,
        order_value=point.order_value,
    )


def to_client_id(value: Any) -> int | str:
    """QdrantClient gives integers as int and UUIDs as str; the engine gives uuid.UUID."""
    return value if isinstance(value, int) else str(value)


def _to_client_vectors(vectors: Any) -> Any:
    if isinstance(vectors, dict):
        return {name: _to_client_vector(vector) for name, vector in vectors.items()}
    return _to_client_vector(vectors)


def _to_client_vector(vector: Any) -> Any:
    if isinstance(vector, qe.SparseVector):
        return models.SparseVector.model_construct(
            indices=list(vector.indices), values=list(vector.values)
        )
    return vector
