"""Writing points whose vectors are arrays, in the form that each kind of client takes fastest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from qdrant_client import QdrantClient, grpc, models
from qdrant_client.conversions.conversion import GrpcToRest, RestToGrpc

from lmk_integrations.qdrant.client import StoreClient
from lmk_integrations.qdrant.edge import EdgeClient

_ROW_DIGITS = 7
_TIMEOUT_S = 60  # of a gRPC client that was opened without one, as qdrant_client has it
_LENGTH_DELIMITED = 2  # protobuf's wire type of strings, messages and packed numbers
_NUMBERS = grpc.DenseVector.DESCRIPTOR.fields_by_name["data"].number
_ROWS = grpc.MultiDenseVector.DESCRIPTOR.fields_by_name["vectors"].number


def array_point(
    point_id: int | str, vectors: Mapping[str, Any], payload: Mapping[str, Any]
) -> models.PointStruct:
    """A point for `upsert`: unchecked, its vectors arrays (or sparse) where the model has lists.

    Checking a section's numbers one by one takes longer than sending them.
    """
    return models.PointStruct.model_construct(
        id=point_id, vector=dict(vectors), payload=dict(payload)
    )


def upsert(
    client: StoreClient,
    collection: str,
    points: Sequence[models.PointStruct],
    condition: models.Filter | None = None,
) -> models.UpdateResult:
    """Write points made by `array_point`; returns when they are readable, if the status says so.

    condition: which of the points that are there already may be replaced.

    The embedded engine reads the arrays' rows, gRPC sends their bytes; REST and local clients get
    lists.
    """
    if isinstance(client, EdgeClient):
        return client.upsert(collection, points, update_filter=condition)
    if isinstance(client, QdrantClient) and client.init_options.get("prefer_grpc"):
        return _upsert_grpc(client, collection, points, condition)
    return client.upsert(
        collection,
        points=[_with_lists(point) for point in points],
        wait=True,
        update_filter=condition,
    )


def _with_lists(point: models.PointStruct) -> models.PointStruct:
    named: Any = point.vector
    vectors = {
        name: _numbers(vector) if isinstance(vector, np.ndarray) else vector
        for name, vector in named.items()
    }
    return models.PointStruct.model_construct(id=point.id, vector=vectors, payload=point.payload)


def _numbers(vector: NDArray[np.float32]) -> Any:
    if vector.ndim == 1:
        return vector.tolist()
    # Rows are stored in float16. As JSON all digits of a number take 21 bytes, these take 11: the
    # largest section there can be stays under 16 MB.
    return np.round(vector.astype(np.float64), _ROW_DIGITS).tolist()


def _upsert_grpc(
    client: QdrantClient,
    collection: str,
    points: Sequence[models.PointStruct],
    condition: models.Filter | None,
) -> models.UpdateResult:
    # client.upsert takes lists, whose numbers it reads one by one; messages are deprecated there.
    answer = client.grpc_points.Upsert(
        grpc.UpsertPoints(
            collection_name=collection,
            wait=True,
            points=[grpc_point(point) for point in points],
            update_filter=None if condition is None else RestToGrpc.convert_filter(condition),
        ),
        timeout=client.init_options.get("timeout") or _TIMEOUT_S,
    )
    return GrpcToRest.convert_update_result(answer.result)


def grpc_point(point: models.PointStruct) -> grpc.PointStruct:
    """A point of `array_point` as gRPC's message, the bytes of arrays copied into it."""
    named: Any = point.vector
    dense = {name: v for name, v in named.items() if isinstance(v, np.ndarray)}
    others = {name: v for name, v in named.items() if name not in dense}
    message = RestToGrpc.convert_point_struct(
        models.PointStruct.model_construct(id=point.id, vector=others, payload=point.payload)
    )
    for name, array in dense.items():
        target = message.vectors.vectors.vectors[name]
        if array.ndim == 1:
            target.dense.MergeFromString(_dense(array))
        else:
            rows = (_field(_ROWS, _dense(row)) for row in array)
            target.multi_dense.MergeFromString(b"".join(rows))
    return message


def _dense(row: NDArray[np.float32]) -> bytes:
    """(n,) numbers as a DenseVector is written on the wire."""
    return _field(_NUMBERS, row.astype("<f4", copy=False).tobytes())


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | _LENGTH_DELIMITED) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    """A whole number, seven bits a byte, the low ones first."""
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)
