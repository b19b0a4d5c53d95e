"""Nothing that reaches the engine makes a shard unopenable: calls of every kind, any values."""

from __future__ import annotations

import shutil
import uuid
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from qdrant_client import models as m

from lmk_integrations.errors import LMKError
from lmk_integrations.qdrant.edge import EdgeClient

DIM = 3
FIELDS = ["v", "l", "s", "", "none"]

floats = st.floats(allow_nan=True, allow_infinity=True) | st.floats(-1, 1, width=32)
numbers = st.sampled_from([0.0, -0.0, 1e-45, 1e-300, 3e38, 1e39, 1e308]) | floats
rows = st.lists(numbers, max_size=DIM + 1) | st.lists(numbers, min_size=DIM, max_size=DIM)
ragged = st.lists(rows, max_size=5)
arrays = st.builds(
    lambda n, d, kind: np.ones((n, d), kind),
    st.integers(0, 3),
    st.integers(0, DIM + 1),
    st.sampled_from(["float16", "float64", "int8", "bool", "complex64", "U1"]),
)
too_many = st.integers(0, 1).map(
    lambda extra: [
        SimpleNamespace(id=1, vector={"l": np.ones(((1 << 20) // DIM + extra, DIM))}, payload={})
    ]
)
sparse = st.builds(
    lambda indices, values: SimpleNamespace(indices=indices, values=values),
    st.lists(st.integers(-1, 1 << 33) | st.integers(0, 9), max_size=4),
    st.lists(numbers, max_size=4),
)
vector = st.one_of(rows, ragged, arrays, sparse, st.none(), st.text(max_size=2))
good = {
    "v": st.lists(st.floats(0.5, 1, width=32), min_size=DIM, max_size=DIM),
    "l": st.lists(st.lists(st.floats(0.5, 1, width=32), min_size=DIM, max_size=DIM), min_size=1),
    "s": st.just(SimpleNamespace(indices=[3, 5], values=[1.0, 0.5])),
}
vectors = st.one_of(
    st.fixed_dictionaries({}, optional=good),
    st.dictionaries(st.sampled_from(FIELDS), vector, max_size=3),
    vector,
)
known_ids = st.integers(0, 30)
odd_ids = st.one_of(
    st.integers(-(2**65), 2**65),
    st.uuids(),
    st.uuids().map(str),
    st.sampled_from(
        ["", "\0", "a" * 36, str(uuid.UUID(int=0)).upper(), True, None, 1.5, np.int8(3)]
    ),
    st.text(max_size=3),
)
ids = known_ids | odd_ids
any_text = st.text(st.characters(exclude_categories=()), max_size=6)
json_like = st.recursive(
    st.one_of(any_text, numbers, st.integers(), st.booleans(), st.none(), st.binary(max_size=2)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(any_text, inner, max_size=3),
    max_leaves=8,
)


def deep(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"a": value}
    return value


payload = st.one_of(
    st.dictionaries(any_text, json_like, max_size=3),
    st.integers(0, 5000).map(deep),
    st.integers(0, 100_000).map(lambda n: {"huge": "\u20ac" * n}),
    st.integers(0, 3_000).map(lambda n: {str(i): i for i in range(n)}),
    st.none(),
)
keys = st.sampled_from(["i", "a.b", "a[]", "a[0].b", "", ".", "a..b", "[", "\0"]) | any_text
points = st.lists(
    st.builds(SimpleNamespace, id=ids, vector=vectors, payload=payload), min_size=1, max_size=3
)
condition = st.builds(
    lambda key, value: m.Filter(must=[m.FieldCondition(key=key, match=m.MatchValue(value=value))]),
    keys,
    st.integers(-(2**63), 2**63 - 1) | any_text | st.booleans(),
)
# A point that is whole but for its landmarks: once rows of unlike lengths are in the engine's log,
# the shard cannot be opened again.
uneven = st.builds(
    lambda number, rest: [
        SimpleNamespace(id=number, vector={"l": [[0.5] * DIM, *rest]}, payload={})
    ],
    known_ids,
    st.lists(st.sampled_from([[0.5] * (DIM - 1), [0.5] * (DIM + 1)]), min_size=1, max_size=3),
)
schema = st.sampled_from(list(m.PayloadSchemaType))


class Call:
    """A call of a method of a client, with these arguments."""

    def __init__(self, name: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
        self.name, self.arguments, self.options = name, arguments, options

    def __call__(self, client: EdgeClient) -> Any:
        return getattr(client, self.name)("c", *self.arguments, **self.options)

    def __repr__(self) -> str:
        return f"{self.name}{self.arguments!r} {self.options}"[:2000]


def call(name: str, *arguments: Any, **options: Any) -> st.SearchStrategy[Call]:
    """A call of this method with any of these arguments."""
    return st.builds(Call, st.just(name), st.tuples(*arguments), st.fixed_dictionaries(options))


calls = st.one_of(
    call("upsert", points),
    call("upsert", points),
    call("upsert", uneven),
    call("upsert", too_many),
    call("delete", st.lists(ids, max_size=3)),
    call("delete", condition),
    call("set_payload", payload, st.lists(ids, max_size=3)),
    call("set_payload", payload, st.lists(known_ids, max_size=3), keys),
    call("overwrite_payload", payload, condition),
    call("delete_payload", st.lists(keys, max_size=2), st.lists(ids, max_size=3)),
    call("clear_payload", st.lists(ids, max_size=3)),
    call("update_vectors", points),
    call("delete_vectors", st.lists(st.sampled_from(FIELDS)), st.lists(ids, max_size=3)),
    call("create_payload_index", keys, schema),
    call("delete_payload_index", keys),
    call("query_points", vector, using=st.sampled_from(FIELDS)),
    call("scroll", condition),
    call("retrieve", st.lists(ids, max_size=3)),
    call("flush"),
    call("optimize"),
)  # fmt: skip


KNOWN_POISON = Call(
    "upsert",
    ([SimpleNamespace(id=1, vector={"l": [[0.5] * DIM, [0.5] * (DIM - 1)]}, payload={})],),
    {},
)


def create(client: EdgeClient) -> None:
    cosine = {"size": DIM, "distance": m.Distance.COSINE}
    many = m.MultiVectorConfig(comparator=m.MultiVectorComparator.MAX_SIM)
    client.create_collection(
        "c",
        {
            "v": m.VectorParams(**cosine),
            "l": m.VectorParams(**cosine, multivector_config=many, datatype=m.Datatype.FLOAT16),
        },
        {"s": m.SparseVectorParams(modifier=m.Modifier.IDF)},
        optimizers_config=m.OptimizersConfigDiff(indexing_threshold=1),
    )


def check_reopens(client: EdgeClient, copy: Path) -> None:
    """As after a crash now: a copy, taken without closing, opens and holds the same."""
    ignored = shutil.ignore_patterns("store.lock", "store.holder.json")
    shutil.copytree(client.path, copy, ignore=ignored)
    try:
        with EdgeClient(copy) as reopened:
            held = client.scroll("c", limit=10_000, with_vectors=True)[0]
            assert reopened.scroll("c", limit=10_000, with_vectors=True)[0] == held
            assert reopened.count("c").count == len(held)
    finally:
        shutil.rmtree(copy)


def fuzz(place: Path, examples: int, each: int) -> None:
    """So many lists of calls; after each so many of them the store must open elsewhere."""
    with EdgeClient(place / "s") as client:
        create(client)
        seen = 0
        refusals: Counter[str] = Counter()

        @settings(
            max_examples=examples,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        @example([KNOWN_POISON])
        @given(st.lists(calls, min_size=1, max_size=6))
        def run(chosen: list[Call]) -> None:
            nonlocal seen
            for one in chosen:
                try:
                    one(client)
                except LMKError as error:
                    refusals[type(error).__name__] += 1
                    panicked = "inside the engine" in str(error)
                    if panicked:
                        raise RuntimeError(f"{one} made the engine panic") from error
            seen += 1
            if seen % each == 0:
                check_reopens(client, place / "copy")

        run()
        check_reopens(client, place / "copy")
    with EdgeClient(place / "s") as client:
        client.count("c")


def test_any_calls_leave_a_store_that_opens(tmp_path: Path) -> None:
    """Refused by name, or done; never a panic, never a store that is lost."""
    fuzz(tmp_path, examples=60, each=30)


@pytest.mark.slow
def test_very_many_calls_leave_a_store_that_opens(tmp_path: Path) -> None:
    """The same at depth."""
    fuzz(tmp_path, examples=10_000, each=100)
