"""No malformed point reaches the engine, whatever it looks like."""

from __future__ import annotations

import datetime
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from qdrant_client import models as m

from lmk_integrations.errors import StoreError
from lmk_integrations.qdrant.edge import EdgeClient
from lmk_integrations.qdrant.edge.payload import MAX_DEPTH, prepare_payload
from lmk_integrations.qdrant.edge.validate import (
    DENSE,
    MAX_MULTIVECTOR_ELEMENTS,
    MULTI,
    SPARSE,
    SparseArray,
    VectorField,
    prepare_id,
    prepare_point,
    prepare_vector,
)

D = VectorField("d", DENSE, size=3, cosine=True)
DOT = VectorField("dot", DENSE, size=3)
R = VectorField("r", MULTI, size=3, cosine=True)
HALF = VectorField("half", MULTI, size=3, datatype="float16")
BYTE = VectorField("byte", DENSE, size=3, datatype="uint8")
S = VectorField("s", SPARSE, idf=True)
FIELDS = {field.name: field for field in (D, DOT, R, HALF, BYTE, S)}


def sparse(indices: Any, values: Any) -> Any:
    return SimpleNamespace(indices=indices, values=values)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        (D, [1.0, 2.0], "2 dimensions.*expects 3"),
        (D, [], "not a rectangular|dimensions"),
        (D, [[1.0, 2.0, 3.0]], "one row of 3"),
        (D, 5.0, "not a rectangular"),
        (D, None, "not a rectangular"),
        (D, "abc", "not a rectangular"),
        (D, [1.0, "x", 2.0], "not a rectangular"),
        (D, [1.0, None, 2.0], "not a rectangular"),
        (D, [True, False, True], "not a rectangular"),
        (D, [1.0, float("nan"), 2.0], "NaN or infinite"),
        (D, [1.0, float("inf"), 2.0], "NaN or infinite"),
        (D, [1e300, 0.0, 0.0], "NaN or infinite"),
        (D, [0.0, 0.0, 0.0], "all zeros, which has no direction"),
        (D, sparse([1], [1.0]), "not a rectangular"),
        (R, [1.0, 2.0, 3.0], "one or more rows of 3"),
        (R, [], "one or more rows|not a rectangular"),
        (R, np.zeros((0, 3)), r"one or more rows.*\(0, 3\)"),
        (R, [[1.0, 2.0, 3.0], [1.0, 2.0]], "rows differ|inhomogeneous"),
        (R, [[1.0, 2.0, 3.0], []], "rows differ|inhomogeneous"),
        (R, [[1.0, 2.0], [1.0, 2.0]], "2 dimensions.*expects 3"),
        (R, [[1.0, 2.0, 3.0], [0.0, 0.0, 0.0]], r"all zeros \(row 1\)"),
        (R, [[[1.0, 2.0, 3.0]]], "one or more rows"),
        (HALF, [[1.0, 2.0, 7e4]], "float16"),
        (BYTE, [1, 2, 256], "0 to 255"),
        (S, [1.0, 2.0], "is a sparse vector, got list"),
        (S, sparse([1, 2], [1.0]), "2 sparse indices but 1 values"),
        (S, sparse([], [1.0]), "0 sparse indices but 1 values"),
        (S, sparse([2, 2], [1.0, 1.0]), "must be unique"),
        (S, sparse([-1], [1.0]), "between 0 and 4294967295"),
        (S, sparse([2**32], [1.0]), "between 0 and 4294967295"),
        (S, sparse([1.5], [1.0]), "flat list of integers"),
        (S, sparse([1], [float("nan")]), "NaN or infinite"),
        (S, sparse([[1]], [[1.0]]), "flat list of integers"),
    ],
)
def test_a_bad_vector_is_named(field: VectorField, value: Any, message: str) -> None:
    """The error names point and vector, and says what is wrong."""
    with pytest.raises(StoreError, match=message) as error:
        prepare_point(8, {field.name: value}, None, FIELDS)
    assert str(error.value).startswith(f"Point 8, vector '{field.name}'")


def test_the_limit_of_multivectors_is_the_servers() -> None:
    """rows * size must stay below 2**20, so 4,096 rows of 256 are one too many."""
    field = VectorField("big", MULTI, size=256)
    rows = np.ones((MAX_MULTIVECTOR_ELEMENTS // 256, 256), np.float32)
    with pytest.raises(StoreError, match="smaller sections"):
        prepare_vector(rows, field, "here")
    assert prepare_vector(rows[1:], field, "here") is not None


def test_good_vectors_keep_their_values() -> None:
    """Lists, tuples, integers and arrays become float32; sparse vectors are sorted by index."""
    for value in ([1, 2, 3], (1.0, 2.0, 3.0), np.array([1, 2, 3], np.int8)):
        vector = prepare_vector(value, D, "here")
        assert isinstance(vector, np.ndarray)
        assert (vector.dtype, vector.tolist()) == (np.float32, [1.0, 2.0, 3.0])
    made = prepare_vector({"indices": [9, 0, 2**32 - 1], "values": [9, 0, 1]}, S, "here")
    assert isinstance(made, SparseArray)
    assert made.indices.tolist() == [0, 9, 2**32 - 1]
    assert made.values.tolist() == [0.0, 9.0, 1.0]


def test_short_vectors_are_scaled_for_cosine() -> None:
    """The engine leaves rows shorter than 3e-4 unnormalised; cosine does not depend on length."""
    vector = prepare_vector([3e-20, 4e-20, 0.0], D, "here")
    assert isinstance(vector, np.ndarray)
    assert vector.tolist() == pytest.approx([0.6, 0.8, 0.0])
    rows = prepare_vector([[3e-9, 4e-9, 0.0], [3.0, 4.0, 0.0]], R, "here")
    assert isinstance(rows, np.ndarray)
    assert rows[0].tolist() == pytest.approx([0.6, 0.8, 0.0])
    assert rows[1].tolist() == [3.0, 4.0, 0.0]
    dot = prepare_vector([3e-20, 0.0, 0.0], DOT, "here")
    assert isinstance(dot, np.ndarray)
    assert dot[0] == np.float32(3e-20)


@pytest.mark.parametrize("value", [-1, 2**64, 1.0, True, None, "", "5", "abc", b"x", object()])
def test_bad_ids_are_refused(value: Any) -> None:
    """Only unsigned 64-bit integers and UUIDs."""
    with pytest.raises(StoreError, match="neither an unsigned"):
        prepare_id(value)


def test_an_unknown_vector_name_lists_the_known_ones() -> None:
    """The remedy is in the message."""
    with pytest.raises(StoreError, match=r"no vector named 'x' .*'byte', 'd', 'dot'"):
        prepare_point(1, {"x": [1.0]}, None, FIELDS)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"a": float("nan")}, "payload.a: nan cannot be stored"),
        ({"a": [1, {"b": float("-inf")}]}, "payload.a.b: -inf cannot be stored"),
        ({"a": {1, 2}}, "payload.a: set cannot be stored"),
        ({"a": b"x"}, "payload.a: bytes cannot be stored"),
        ({"a": object()}, "payload.a: object cannot be stored"),
        ({1: 2}, "the key 1 is not a string"),
        ({"a": 2**64}, "does not fit in 64 bits"),
        ({"a": -(2**63) - 1}, "does not fit in 64 bits"),
        ({"a": "x\ud800"}, "lone surrogate at 1"),
        ({"\udc00": 1}, "lone surrogate"),
        ([1], "must be a mapping, got list"),
    ],
)
def test_bad_payloads_are_refused(value: Any, message: str) -> None:
    """The error gives the path to the value."""
    with pytest.raises(StoreError, match=message):
        prepare_payload(value, "Point 1")


def test_payload_values_become_json() -> None:
    """As QdrantClient sends them; and the result shares nothing with the input."""
    inner = [1]
    stored = prepare_payload(
        {
            "when": datetime.datetime(2024, 5, 1, 12, tzinfo=datetime.timezone.utc),
            "day": datetime.date(2024, 5, 1),
            "id": uuid.UUID(int=1),
            "np": np.float32(0.5),
            "n": np.int64(3),
            "flag": np.bool_(True),
            "pair": (1, 2),
            "inner": inner,
            "none": None,
        },
        "here",
    )
    inner.append(2)
    assert stored == {
        "when": "2024-05-01T12:00:00+00:00",
        "day": "2024-05-01",
        "id": "00000000-0000-0000-0000-000000000001",
        "np": 0.5,
        "n": 3,
        "flag": True,
        "pair": [1, 2],
        "inner": [1],
        "none": None,
    }
    assert stored["flag"] is True


def test_payload_depth_is_bounded() -> None:
    """Deep nesting, and a payload that holds itself, raise instead of overflowing the stack."""
    deep: dict[str, Any] = {}
    for _ in range(MAX_DEPTH):
        deep = {"a": deep}
    with pytest.raises(StoreError, match="nested deeper"):
        prepare_payload(deep, "here")
    prepare_payload(deep["a"], "here")
    loop: dict[str, Any] = {}
    loop["self"] = loop
    with pytest.raises(StoreError, match="nested deeper"):
        prepare_payload(loop, "here")


numbers = st.one_of(
    st.floats(width=32),
    st.floats(),
    st.integers(-(2**70), 2**70),
    st.none(),
    st.text(max_size=2),
    st.booleans(),
)
rows_like = st.one_of(
    st.lists(numbers, max_size=4),
    st.lists(st.lists(numbers, max_size=4), max_size=4),
    st.lists(st.lists(st.floats(-1, 1, width=32), min_size=2, max_size=3), max_size=3),
    numbers,
)
sparse_like = st.builds(sparse, st.lists(numbers, max_size=4), st.lists(numbers, max_size=4))
json_like = st.recursive(
    st.one_of(numbers, st.binary(max_size=2), st.just("\ud800"), st.dates()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.one_of(st.text(), st.integers()), inner)
    ),
    max_leaves=6,
)
good_row = st.lists(st.floats(0.5, 1, width=32), min_size=3, max_size=3)
good = {
    "d": good_row,
    "dot": good_row,
    "r": st.lists(good_row, min_size=1, max_size=4),
    "s": st.builds(sparse, st.just([1, 5]), st.just([0.5, 2.0])),
}


def mostly(good_values: Any, bad_values: Any) -> Any:
    """Three in four good, so that whole batches get through and single faults are tried too."""
    return st.integers(0, 3).flatmap(lambda n: bad_values if n == 0 else good_values)


junk = st.one_of(rows_like, sparse_like)
points_like = st.builds(
    SimpleNamespace,
    id=mostly(st.integers(0, 20), st.one_of(st.uuids(), numbers)),
    vector=mostly(
        st.fixed_dictionaries({}, optional=good),
        st.one_of(
            rows_like,
            st.fixed_dictionaries({}, optional={k: mostly(v, junk) for k, v in good.items()}),
            st.dictionaries(st.sampled_from(["d", "none"]), junk, max_size=2),
        ),
    ),
    payload=mostly(
        st.none(), st.one_of(json_like, st.dictionaries(st.text(max_size=3), json_like))
    ),
)


@pytest.fixture(scope="module")
def open_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EdgeClient]:
    path: Path = tmp_path_factory.mktemp("validate") / "s"
    with EdgeClient(path) as client:
        client.create_collection(
            "c",
            {
                "d": m.VectorParams(size=3, distance=m.Distance.COSINE),
                "dot": m.VectorParams(size=3, distance=m.Distance.DOT),
                "r": m.VectorParams(
                    size=3,
                    distance=m.Distance.COSINE,
                    multivector_config=m.MultiVectorConfig(
                        comparator=m.MultiVectorComparator.MAX_SIM
                    ),
                ),
            },
            {"s": m.SparseVectorParams(modifier=m.Modifier.IDF)},
        )
        yield client


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(batch=st.lists(points_like, min_size=1, max_size=3))
def test_random_points_are_stored_or_refused(open_store: EdgeClient, batch: list[Any]) -> None:
    """Either the call raises StoreError and nothing changes, or all points are there."""
    before = open_store.count("c").count
    refusal = None
    try:
        open_store.upsert("c", batch)
    except StoreError as error:
        refusal = str(error)
    if refusal is None:
        ids = [prepare_id(point.id) for point in batch]
        assert [record.id for record in open_store.retrieve("c", ids)] == ids
    else:
        # A refusal of ours, not of the engine, which might have written a part.
        assert "Upserting into" not in refusal
        assert open_store.count("c").count == before


def test_the_store_still_opens_after_all_that(open_store: EdgeClient) -> None:
    """The log replays: a copy taken without closing, as after a crash, opens and counts alike."""
    assert open_store.count("c").count > 0, "some of the random points should have been good"
    copy = open_store.path.parent / "copy"
    shutil.copytree(open_store.path, copy, ignore=shutil.ignore_patterns("store.lock"))
    with EdgeClient(copy) as client:
        assert client.count("c").count == open_store.count("c").count
