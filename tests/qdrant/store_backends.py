"""The kinds of store that the contract covers, and data to compare them on."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from qdrant_client import models as m
from qdrant_server import serve

from lmk_integrations.qdrant.connect import connect

SERVER_URL = os.environ.get("QDRANT_URL")
BACKENDS = ["memory", "edge", "rest", "grpc", *(["server"] if SERVER_URL else [])]
DIM = 6


@contextmanager
def open_backend(kind: str, directory: Path) -> Iterator[Any]:
    """A client of one kind. Collections made on a server are removed afterwards."""
    client: Any
    if kind in ("rest", "grpc"):
        with serve(kind) as server:
            client = server.client()
            yield client
            client.close()
        return
    if kind == "server":
        assert SERVER_URL is not None
        client = connect(SERVER_URL)
        before = {item.name for item in client.get_collections().collections}
        yield client
        for item in client.get_collections().collections:
            if item.name not in before:
                client.delete_collection(item.name)
    else:
        client = connect(":memory:" if kind == "memory" else directory / "store")
        yield client
    client.close()


def create(client: Any, name: str, **options: Any) -> None:
    """A collection with every kind of vector that this package stores."""
    maxsim = m.MultiVectorConfig(comparator=m.MultiVectorComparator.MAX_SIM)
    client.create_collection(
        name,
        vectors_config={
            "dense": m.VectorParams(size=DIM, distance=m.Distance.COSINE),
            "other": m.VectorParams(size=DIM, distance=m.Distance.DOT),
            "euclid": m.VectorParams(size=DIM, distance=m.Distance.EUCLID),
            "rows": m.VectorParams(
                size=DIM,
                distance=m.Distance.COSINE,
                multivector_config=maxsim,
                hnsw_config=m.HnswConfigDiff(m=0),
            ),
        },
        sparse_vectors_config={
            "sparse": m.SparseVectorParams(modifier=m.Modifier.IDF),
            "plain": m.SparseVectorParams(),
        },
        **options,
    )


def point_id(index: int) -> int | str:
    return index if index % 3 else str(uuid.UUID(int=1000 + index))


def sparse(rng: np.random.Generator) -> m.SparseVector:
    indices = rng.choice(30, size=int(rng.integers(2, 9)), replace=False)
    return m.SparseVector(
        indices=indices.tolist(), values=(rng.random(indices.size) + 0.1).tolist()
    )


def payload(index: int) -> dict[str, Any]:
    """Every type that a filter can test, with gaps."""
    data: dict[str, Any] = {
        "kind": ["red", "green", "blue"][index % 3],
        "number": index - 20,
        "price": index / 7,
        "flag": index % 2 == 0,
        "tags": ["a", "b", "c", "d"][: index % 5],
        "place": {"lon": -10.0 + index, "lat": 40.0 + index / 4},
        "time": f"2024-{index % 12 + 1:02d}-01T0{index % 10}:00:00Z",
        "text": f"number {index} holds {'quick brown' if index % 4 else 'lazy'} words",
        "items": [{"size": index % 4, "color": "x"}, {"size": index % 6, "color": "y"}],
        "deep": {"a": {"b": index % 5}},
        "uid": str(uuid.UUID(int=index % 4)),
    }
    if index % 7 == 0:
        data["number"] = None
    if index % 5 == 0:
        del data["kind"]
    if index % 11 == 0:
        data["tags"] = [1, 2, index]
    return data


def points(count: int = 60, seed: int = 7) -> list[m.PointStruct]:
    """Random points; some lack a dense or a sparse vector."""
    rng = np.random.default_rng(seed)
    made = []
    for index in range(count):
        vectors: dict[str, Any] = {
            name: rng.standard_normal(DIM).tolist() for name in ("dense", "other", "euclid")
        }
        vectors["rows"] = rng.standard_normal((int(rng.integers(1, 5)), DIM)).tolist()
        vectors["sparse"], vectors["plain"] = sparse(rng), sparse(rng)
        for name, every in (("dense", 10), ("rows", 9), ("sparse", 4)):
            if index % every == 3:
                del vectors[name]
        made.append(m.PointStruct(id=point_id(index), vector=vectors, payload=payload(index)))
    return made


def dense_query(seed: int) -> list[float]:
    return np.random.default_rng(seed).standard_normal(DIM).tolist()


def rows_query(seed: int, rows: int = 3) -> list[list[float]]:
    return np.random.default_rng(seed).standard_normal((rows, DIM)).tolist()


def sparse_query(seed: int) -> m.SparseVector:
    return sparse(np.random.default_rng(seed))
