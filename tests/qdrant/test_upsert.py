"""Points made of arrays arrive as the same points made of lists would."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from qdrant_client import grpc, models
from qdrant_client.conversions.conversion import RestToGrpc
from store_backends import BACKENDS, open_backend

from lmk_integrations.core.pooling import l2_normalize
from lmk_integrations.errors import StoreError
from lmk_integrations.ingest.records import Facts, HeadRecord, SectionRecord, Version
from lmk_integrations.qdrant.bm25 import Bm25Encoder
from lmk_integrations.qdrant.edge.payload import MAX_DEPTH, prepare_payload
from lmk_integrations.qdrant.points import head_point, section_point
from lmk_integrations.qdrant.schema import LANDMARKS, CollectionIdentity, create_collection
from lmk_integrations.qdrant.upsert import array_point, grpc_point, upsert
from lmk_integrations.records import Mark

DIM = 12
BM25 = Bm25Encoder()


@pytest.fixture(params=BACKENDS)
def client(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    with open_backend(request.param, tmp_path) as opened:
        yield opened


def section(number: int, rows: int) -> SectionRecord:
    rng = np.random.default_rng(number)
    ends = np.arange(1, max(rows, 1) + 1) * 10
    return SectionRecord(
        version=Version(f"d{number}", "hash", "recipe"),
        facts=Facts("Title", "a.txt", {"n": number, "at": [1, 2.5, None, "x"]}, "facts"),
        ordinal=number,
        text=f"The keeper of lighthouse {number} wrote a na\u00efve letter.",
        start=0,
        end=int(ends[-1]),
        heading="Part",
        page="7",
        marks=(Mark(3, "page", "8"),),
        vector=l2_normalize(rng.standard_normal(DIM).astype(np.float32)),
        landmarks=rng.standard_normal((rows, DIM)).astype(np.float32),
        weights=np.ones(rows, np.float32),
        spans=np.stack([ends - 10, ends], axis=1),
        chunk_tokens=np.full(len(ends), 8),
        n_tokens=8 * len(ends),
        pooled_norm=1.5,
    )


def head(number: int) -> HeadRecord:
    vector = l2_normalize(np.random.default_rng(number).standard_normal(DIM).astype(np.float32))
    return HeadRecord(
        version=Version(f"d{number}", "hash", "recipe"),
        facts=Facts("Title", None, {}, "facts"),
        n_sections=1,
        n_tokens=8,
        n_unk=0,
        vector=vector,
        stale=False,
    )


def in_lists(point: models.PointStruct) -> models.PointStruct:
    """The point as qdrant_client's own model, checked by it."""
    named: Any = point.vector
    vectors = {n: v.tolist() if isinstance(v, np.ndarray) else v for n, v in named.items()}
    return models.PointStruct(id=point.id, vector=vectors, payload=point.payload)


def everything(client: Any, name: str) -> dict[Any, Any]:
    records, _ = client.scroll(name, limit=100, with_payload=True, with_vectors=True)
    return {record.id: (record.payload, record.vector) for record in records}


def test_arrays_store_what_lists_store(client: Any) -> None:
    """Sections with many landmarks, one, none, and heads: payloads and vectors to the last bit.

    But rows of landmarks, which are stored in float16, leave as JSON with seven digits.
    """
    points = [section_point(section(i, rows), BM25) for i, rows in enumerate((5, 1, 0, 40))]
    points += [head_point(head(i)) for i in range(4)]
    identity = CollectionIdentity(space={"dim": DIM}, model="m", recipe={}, bm25=BM25.to_dict())
    for name in ("arrays", "lists"):
        create_collection(client, name, identity)
    assert upsert(client, "arrays", points).status == models.UpdateStatus.COMPLETED
    client.upsert("lists", points=[in_lists(point) for point in points], wait=True)
    arrays, lists = everything(client, "arrays"), everything(client, "lists")
    assert len(arrays) == len(points)
    for key, (payload, vectors) in lists.items():
        assert arrays[key][0] == payload
        assert arrays[key][1].keys() == vectors.keys()
        for name, vector in vectors.items():
            if name == LANDMARKS:
                np.testing.assert_allclose(arrays[key][1][name], vector, atol=1e-7)
            else:
                assert arrays[key][1][name] == vector


def test_the_vectors_of_a_section_stay_arrays() -> None:
    """No number of a section's landmarks becomes an object of its own on the way to the store."""
    point = section_point(section(1, 6), BM25)
    assert isinstance(point.vector["landmarks"], np.ndarray)  # type: ignore[call-overload,index]
    assert isinstance(point.vector["lmk"], np.ndarray)  # type: ignore[call-overload,index]


floats = st.floats(width=32, allow_nan=False)
arrays = npst.arrays(np.float32, npst.array_shapes(max_dims=2, max_side=300), elements=floats)


@given(st.dictionaries(st.text(max_size=5), arrays, max_size=4), st.booleans())
@settings(max_examples=60, deadline=None)
def test_bytes_on_the_wire_are_those_of_lists(vectors: dict[str, Any], sparse: bool) -> None:
    """Messages with arrays copied in are equal to those qdrant_client makes of lists."""
    if sparse:
        vectors["s\u00e9parse"] = models.SparseVector(indices=[3, 70000], values=[0.5, -1.0])
    point = array_point("6f0c2f9e-5d0f-5f4b-9a55-1f1c6e2b7d10", vectors, {"a": [1, None, {"b": 2}]})
    message = grpc_point(point)
    assert message == RestToGrpc.convert_point_struct(in_lists(point))
    assert grpc.PointStruct.FromString(message.SerializeToString()) == message


numbers = st.lists(st.integers(-(1 << 63), (1 << 64) - 1) | st.floats(allow_nan=False), max_size=6)


@given(numbers | st.lists(st.integers(0, 9), max_size=6) | st.lists(floats, max_size=6))
@settings(max_examples=100, deadline=None)
def test_lists_of_numbers_are_kept(values: list[Any]) -> None:
    """Alike or mixed, what a payload's list holds keeps its values and types; the list is new."""
    if any(isinstance(v, float) and not np.isfinite(v) for v in values):
        return
    kept = prepare_payload({"a": values}, "Point 1")["a"]
    assert kept == values
    assert [type(v) for v in kept] == [type(v) for v in values]
    assert kept is not values


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1, 1 << 64], "does not fit in 64 bits"),
        ([1, -(1 << 63) - 1], "does not fit in 64 bits"),
        ([1.0, float("nan")], "nan cannot be stored"),
        ([1.0, float("-inf")], "-inf cannot be stored"),
    ],
)
def test_a_list_of_numbers_is_checked(values: list[Any], message: str) -> None:
    """One number that JSON cannot hold refuses the list."""
    with pytest.raises(StoreError, match=message):
        prepare_payload({"a": values}, "Point 1")


def test_numbers_at_the_deepest_level_are_refused_as_before() -> None:
    """A list's items are one level below it, whatever they are."""

    def nested(depth: int, leaf: Any) -> Any:
        return leaf if depth == 0 else [nested(depth - 1, leaf)]

    for leaf in (1, "x"):
        assert prepare_payload({"a": nested(MAX_DEPTH - 2, leaf)}, "Point 1")
        with pytest.raises(StoreError, match="nested deeper"):
            prepare_payload({"a": nested(MAX_DEPTH - 1, leaf)}, "Point 1")
