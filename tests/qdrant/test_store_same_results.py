"""Every kind of store gives the same answers on the same data.

`QdrantClient(":memory:")` is written in Python, apart from the engine, so agreement is evidence.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from qdrant_client import models as m
from store_backends import BACKENDS, create, open_backend, point_id, points
from store_questions import DENSE, FILTERS, QUERIES, ROWS, near

from lmk_integrations.qdrant.edge import EdgeClient

N = 60


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    with ExitStack() as stack:
        opened = {}
        for kind in BACKENDS:
            client = stack.enter_context(open_backend(kind, tmp_path_factory.mktemp(kind)))
            fill(client, kind)
            if kind == "edge":
                # What a later process reads is what counts.
                client.close()
                client = stack.enter_context(EdgeClient(client.path))
            opened[kind] = client
        yield opened


def fill(client: Any, kind: str) -> None:
    create(client, "same")
    client.upsert("same", points(N))
    # Replaced and deleted points must leave no trace, in IDF least of all.
    client.upsert("same", points(N + 8, seed=8)[N - 4 :])
    client.delete("same", [point_id(index) for index in range(N, N + 8, 2)])
    if kind != "memory":
        client.create_payload_index("same", "number", m.PayloadSchemaType.INTEGER)
        client.create_payload_index("same", "kind", m.PayloadSchemaType.KEYWORD)


@pytest.mark.parametrize("name", FILTERS)
def test_every_filter_selects_the_same_points(stores: dict[str, Any], name: str) -> None:
    """A filter means the same everywhere, in scroll and in count."""
    found = {}
    for kind, client in stores.items():
        records, following = client.scroll("same", FILTERS[name], limit=100)
        assert following is None
        assert client.count("same", FILTERS[name]).count == len(records)
        found[kind] = [record.id for record in records]
    assert all(ids == found["memory"] for ids in found.values()), found


@pytest.mark.parametrize("name", QUERIES)
def test_every_query_ranks_the_same(stores: dict[str, Any], name: str) -> None:
    """Ids, their order and their scores agree, with equal scores in either order."""
    arguments = {"limit": 40, **QUERIES[name]}
    answers = {kind: client.query_points("same", **arguments) for kind, client in stores.items()}
    expected = answers["memory"].points
    assert expected, "a comparison of nothing proves nothing"
    for kind, answer in answers.items():
        assert_same_ranking(answer.points, expected, kind, first_page="offset" not in arguments)


def assert_same_ranking(
    got: list[Any], expected: list[Any], kind: str, first_page: bool = True
) -> None:
    assert len(got) == len(expected), kind
    scores = [point.score for point in expected]
    assert [point.score for point in got] == pytest.approx(scores, rel=2e-5, abs=2e-5), kind
    # Within a run of equal scores the order is open; at a cut-off, so is the choice.
    for first, last in runs_of_equal_scores(scores):
        if last < len(scores) and (first or first_page):
            ids = {point.id for point in expected[first:last]}
            assert {point.id for point in got[first:last]} == ids, (kind, first)
    assert [point.order_value for point in got] == [point.order_value for point in expected]


def runs_of_equal_scores(scores: list[float]) -> Iterator[tuple[int, int]]:
    first = 0
    for index in range(1, len(scores) + 1):
        if index == len(scores) or not math.isclose(
            scores[index], scores[first], rel_tol=1e-5, abs_tol=1e-6
        ):
            yield first, index
            first = index


def test_groups_are_the_same(stores: dict[str, Any]) -> None:
    """query_points_groups, which the engine lacks, agrees with the client that has it."""
    for arguments in (
        {"query": DENSE, "using": "dense", "group_by": "kind", "limit": 3, "group_size": 4},
        {"query": DENSE, "using": "dense", "group_by": "deep.a.b", "limit": 2, "group_size": 2},
        {"query": ROWS, "using": "rows", "group_by": "tags", "limit": 10, "group_size": 30},
        {
            "query": ROWS,
            "using": "rows",
            "prefetch": [near("dense", 60)],
            "group_by": "number",
            "limit": 50,
            "group_size": 1,
            "with_payload": ["flag"],
            "with_vectors": ["other"],
        },
    ):
        answers = {
            kind: client.query_points_groups("same", **arguments) for kind, client in stores.items()
        }
        for answer in answers.values():
            assert len(answer.groups) == len(answers["memory"].groups) > 1
            for got, expected in zip(answer.groups, answers["memory"].groups, strict=True):
                assert got.id == expected.id
                assert [hit.id for hit in got.hits] == [hit.id for hit in expected.hits]
                assert [hit.payload for hit in got.hits] == [hit.payload for hit in expected.hits]
                assert [bool(h.vector) for h in got.hits] == [bool(h.vector) for h in expected.hits]


SELECTORS: dict[str, dict[str, Any]] = {
    "all": {"with_payload": True, "with_vectors": True},
    "none": {"with_payload": False, "with_vectors": False},
    "lists": {
        "with_payload": ["kind", "deep.a", "items[].size"],
        "with_vectors": ["rows", "plain"],
    },
    "include": {"with_payload": m.PayloadSelectorInclude(include=["flag"])},
    "exclude": {"with_payload": m.PayloadSelectorExclude(exclude=["items", "deep.a", "text"])},
    "empty lists": {"with_payload": [], "with_vectors": []},
}


@pytest.mark.parametrize("name", SELECTORS)
def test_payloads_and_vectors_come_back_the_same(stores: dict[str, Any], name: str) -> None:
    """retrieve, scroll and query give back what was stored, in the parts asked for."""
    ids = [point_id(index) for index in (9, 4, 3, 0, 55, 4)] + [12345]
    for ask in (
        lambda client: client.retrieve("same", ids, **SELECTORS[name]),
        lambda client: client.scroll("same", limit=50, **SELECTORS[name])[0],
        lambda client: client.query_points("same", DENSE, using="dense", **SELECTORS[name]).points,
    ):
        answers = {kind: ask(client) for kind, client in stores.items()}
        for kind, answer in answers.items():
            assert len(answer) == len(answers["memory"]) > 3
            for got, expected in zip(answer, answers["memory"], strict=True):
                assert got.id == expected.id
                if kind in ("rest", "grpc"):  # nothing asked for comes as {} or as None there
                    assert (got.payload or None) == (expected.payload or None)
                    assert_same_vectors(got.vector or None, expected.vector or None)
                else:
                    assert got.payload == expected.payload
                    assert_same_vectors(got.vector, expected.vector)


def assert_same_vectors(got: Any, expected: Any) -> None:
    if not isinstance(expected, dict):
        assert got == expected
        return
    assert got.keys() == expected.keys()
    for name, vector in expected.items():
        if isinstance(vector, m.SparseVector):
            assert got[name].indices == vector.indices
            assert got[name].values == pytest.approx(vector.values)
        elif isinstance(vector[0], list):
            assert len(got[name]) == len(vector)
            for row, expected_row in zip(got[name], vector, strict=True):
                assert row == pytest.approx(expected_row, abs=1e-6)
        else:
            assert got[name] == pytest.approx(vector, abs=1e-6)


def test_pages_of_scroll_are_the_same(stores: dict[str, Any]) -> None:
    """Paging by offset visits every point once, in the same order everywhere."""
    visited = {}
    for kind, client in stores.items():
        ids, offset = [], None
        while True:
            records, offset = client.scroll("same", limit=7, offset=offset)
            ids += [record.id for record in records]
            if offset is None:
                break
        visited[kind] = ids
    assert all(ids == visited["memory"] for ids in visited.values())
    assert len(visited["memory"]) == len(set(visited["memory"])) == N + 4


def test_scroll_in_payload_order_is_the_same(stores: dict[str, Any]) -> None:
    """order_by sorts by an indexed field and leaves out points without it."""
    order = m.OrderBy(key="number", direction=m.Direction.DESC, start_from=10)
    answers = {
        kind: [
            (record.id, record.order_value)
            for record in client.scroll("same", limit=100, order_by=order)[0]
        ]
        for kind, client in stores.items()
    }
    assert all(answer == answers["memory"] for answer in answers.values())
    assert answers["memory"][0][1] == 10


def test_facets_are_the_same(stores: dict[str, Any]) -> None:
    """Values of an indexed field are counted alike."""
    answers = {
        kind: {hit.value: hit.count for hit in client.facet("same", "kind", exact=True).hits}
        for kind, client in stores.items()
    }
    assert all(answer == answers["memory"] for answer in answers.values())
    assert len(answers["memory"]) == 3
