"""A server in trouble: what is outlasted, what ends the run, and what is there afterwards.

Each test runs over REST and over gRPC.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from qdrant_server import Fault, Server, serve
from stored_points import dump
from word_encoder import WordEncoder, assert_same, corpus, prose

from lmk_integrations import Document, LandmarkIndex, StoreError, connect
from lmk_integrations.core.sections import max_section_rows
from lmk_integrations.errors import StoreUnreachableError

SHAPE = {"small": 20, "long": 1, "sections": 70}
pytestmark = pytest.mark.usefixtures("quick")


def changed() -> list[Document]:
    """The corpus with some texts changed, some metadata changed, and some left alone."""
    documents = corpus(**SHAPE)
    documents[3] = Document(prose(77, 90), id=documents[3].id)
    documents[5] = Document(documents[5].text, id=documents[5].id, metadata={"new": True})
    return documents


def fill(client: Any, encoder: WordEncoder | None = None) -> LandmarkIndex:
    """An index of the corpus, then of its changes."""
    index = LandmarkIndex(client, "c", encoder or WordEncoder())
    assert index.ingest(corpus(**SHAPE)).new == 21
    assert index.ingest(changed()).updated == 2
    return index


@pytest.fixture(scope="module", params=["rest", "grpc"])
def protocol(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture(scope="module")
def expected(protocol: Any) -> dict[str, Any]:
    """The points that a server without fault ends up with."""
    with serve(protocol) as server:
        client = server.client()
        fill(client)
        client.close()
        return dump(server.store)


@pytest.fixture
def server(protocol: Any) -> Iterator[Server]:
    with serve(protocol) as made:
        yield made


@pytest.fixture
def client(server: Server) -> Iterator[Any]:
    made = server.client(timeout_s=20)
    yield made
    made.close()


OPS = (
    "collection_exists",
    "create_collection",
    "get_collection",
    "create_index",
    "retrieve",
    "scroll",
    "count",
    "upsert",
    "overwrite_payload",
    "delete",
)
PASSING = {
    "hung up on before it is done": {"kind": "drop"},
    "hung up on when it is done": {"kind": "cut"},
    "internal error": {"kind": "answer", "status": 500},
    "starting": {"kind": "answer", "status": 503},
    "too many requests": {"kind": "answer", "status": 429},
    "slow": {"kind": "answer", "status": 504},
}


@pytest.mark.parametrize("name", PASSING)
def test_what_passes_is_outlasted(
    server: Server, client: Any, expected: dict[str, Any], name: str
) -> None:
    """Every kind of request fails twice in a row, and the result is that of a quiet run."""
    server.faults.plan += [Fault(op=op, times=2, **PASSING[name]) for op in OPS]
    fill(client)
    assert {op for op, _ in server.faults.requests} == {*OPS}
    assert_same(dump(server.store), expected)


def test_trouble_now_and_then_ends_nothing(
    server: Server, client: Any, expected: dict[str, Any]
) -> None:
    """What is bounded is the number of failures in a row, not of those in a long run."""
    server.faults.plan += [Fault("drop", "upsert", after=n, times=4) for n in range(3)]
    fill(client)
    assert server.faults.count("upsert") > 3 * 4
    assert_same(dump(server.store), expected)


def test_a_stall_is_cut_short(server: Server, expected: dict[str, Any]) -> None:
    """A request that takes longer than the timeout is sent again, in smaller pieces."""
    server.faults.plan.append(Fault("stall", "upsert", times=2, seconds=2))
    client = server.client(timeout_s=1)
    fill(client)
    client.close()
    sizes = [size for op, size in server.faults.requests if op == "upsert"]
    assert sizes[2] < 0.7 * sizes[1] < 0.7 * 0.7 * sizes[0]
    assert_same(dump(server.store), expected)


@pytest.mark.slow
def test_a_stall_of_30_seconds(server: Server, expected: dict[str, Any]) -> None:
    """The same with the times of life."""
    server.faults.plan.append(Fault("stall", "upsert", after=1, seconds=30))
    client = server.client(timeout_s=5)
    fill(client)
    client.close()
    assert_same(dump(server.store), expected)


def test_accepted_is_not_stored(server: Server, client: Any, expected: dict[str, Any]) -> None:
    """A write that ends in WAIT_TIMEOUT is sent again, in smaller pieces, until it is applied."""
    server.faults.plan += [
        Fault("wait_timeout", op, times=2) for op in ("upsert", "delete", "overwrite_payload")
    ]
    fill(client)
    assert_same(dump(server.store), expected)
    server.faults.plan[:] = [Fault("wait_timeout", "upsert", times=99)]
    with pytest.raises(StoreUnreachableError, match=r"in 5 attempts: .*'wait_timeout'.*resume"):
        LandmarkIndex(client, "d", WordEncoder()).ingest(corpus(**SHAPE))


def test_retry_after_is_waited_for(server: Server, client: Any) -> None:
    """As long as the server wants."""
    server.faults.plan.append(Fault("answer", "upsert", status=429, retry_after="1"))
    started = time.monotonic()
    LandmarkIndex(client, "c", WordEncoder()).ingest(corpus(1, 0))
    assert time.monotonic() - started >= 1


@pytest.mark.parametrize("status", [400, 413])
def test_too_large_is_halved(
    server: Server, client: Any, expected: dict[str, Any], status: int
) -> None:
    """Down to what the server takes, which is remembered: Qdrant says 400, proxies 413."""
    whole = server.faults.max_bytes = 60_000
    server.faults.too_large_status = status
    index = fill(client)
    sizes = [size for op, size in server.faults.requests if op == "upsert"]
    assert 1 <= sum(size > whole for size in sizes) <= 8  # of the two ingests together
    assert_same(dump(server.store), expected)
    server.faults.max_bytes = 2_000
    with pytest.raises(StoreError, match=r"refused point .* of 'huge'.*section_tokens") as raised:
        index.ingest([Document(prose(5, 30), id="huge")])
    assert not isinstance(raised.value, StoreUnreachableError)


def test_bodies_stay_under_16_mb() -> None:
    """The largest section that a point can hold goes over REST, and nothing of it is lost."""
    rows = max_section_rows(384)
    with serve("rest") as server:
        client = server.client(timeout_s=60)
        index = LandmarkIndex(client, "c", WordEncoder(384), section_tokens=4 * rows)
        index.ingest([Document(prose(1, 4 * rows), id="a")])
        sizes = [size for op, size in server.faults.requests if op == "upsert"]
        assert 8_000_000 < max(sizes) < 16_000_000
        stored = dump(server.store)
    whole = LandmarkIndex(connect(":memory:"), "c", WordEncoder(384), section_tokens=4 * rows)
    whole.ingest([Document(prose(1, 4 * rows), id="a")])
    for point_id, (_, vectors) in dump(whole.client).items():
        for name in {"lmk", "landmarks"} & vectors.keys():
            np.testing.assert_allclose(stored[point_id][1][name], vectors[name], atol=1e-7)
            assert name == "lmk" or len(vectors[name]) == rows


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_a_refusal_is_shown_as_it_came(server: Server, client: Any, status: int) -> None:
    """At once, and with the server's words: asking again would not help."""
    words = "Wrong input: Vector dimension error: expected dim: 8, got 3"
    server.faults.plan.append(Fault("answer", "upsert", status=status, message=words, times=99))
    with pytest.raises(StoreError, match=f"refused: .*{words}$") as raised:
        LandmarkIndex(client, "c", WordEncoder()).ingest(corpus(**SHAPE))
    assert not isinstance(raised.value, StoreUnreachableError)
    assert server.faults.count("upsert") == 1


def test_an_outage_ends_the_run_and_the_next_one_resumes(
    server: Server, client: Any, expected: dict[str, Any]
) -> None:
    """After a bounded number of attempts; what was stored is not encoded again."""

    def stop(op: str) -> None:
        if op == "upsert" and server.faults.count("upsert") == 1:
            server.faults.plan.append(Fault("drop", times=10**6))

    server.faults.on_request = stop
    with pytest.raises(StoreUnreachableError, match=r"in 5 attempts: .*run again to resume"):
        fill(client)
    stored = sum(p["lmk"]["kind"] == "section" for p, _ in dump(server.store).values())
    assert stored > 0
    server.faults.on_request = None
    server.faults.mend()
    encoder = WordEncoder()
    index = LandmarkIndex(client, "c", encoder)
    report = index.ingest(corpus(**SHAPE))
    assert len(encoder.sections) == index.info()["sections"] - stored
    assert report.new == 21
    assert index.ingest(changed()).updated == 2
    assert_same(dump(server.store), expected)


def test_nobody_listens(server: Server, client: Any, expected: dict[str, Any]) -> None:
    """A port that is closed, and opened again."""
    index = LandmarkIndex(client, "c", WordEncoder())
    server.stop()
    with pytest.raises(StoreUnreachableError, match="run again to resume"):
        index.ingest(corpus(**SHAPE))
    server.start()
    wait_for(client)
    fill(client)
    assert_same(dump(server.store), expected)


def wait_for(client: Any) -> None:
    """gRPC looks again a while after a failure."""
    deadline = time.monotonic() + 30
    while True:
        try:
            client.get_collections()
            return
        except Exception:
            assert time.monotonic() < deadline
            time.sleep(0.1)


# -- acknowledged, but lost ------------------------------------------------------------------


def test_lost_sections_are_noticed_before_the_head(
    server: Server, client: Any, expected: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No document counts as stored that is not; the next run stores what was lost, alone."""
    monkeypatch.setattr("lmk_integrations.qdrant.heads._LOOKS", (0.0, 0.1))
    server.faults.plan.append(Fault("lose", "upsert"))
    index = LandmarkIndex(client, "c", WordEncoder())
    with pytest.raises(StoreUnreachableError, match=r"acknowledged \d+ sections.*but has \d+"):
        index.ingest(corpus(**SHAPE))
    whole = index.count()
    assert index.ingest(corpus(**SHAPE)).unchanged == whole
    assert index.ingest(changed()).updated == 2
    assert_same(dump(server.store), expected)


def test_lost_heads_are_noticed(
    server: Server, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An old version goes only when the new one's head is there."""
    monkeypatch.setattr("lmk_integrations.qdrant.heads._LOOKS", (0.0, 0.1))
    index = LandmarkIndex(client, "c", WordEncoder())
    index.ingest([Document("An old text.", id="a")])
    server.faults.plan.append(Fault("lose", "upsert", after=1))
    with pytest.raises(StoreUnreachableError, match="acknowledged 1 heads of 'a'"):
        index.ingest([Document("A new text.", id="a")])
    assert index.get("a")["a"].text == "An old text."
    index.ingest([Document("A new text.", id="a")])
    assert index.get("a")["a"].text == "A new text."
    assert index.info()["points"] == 2


def test_a_lost_deletion_is_done_again(server: Server, client: Any) -> None:
    """Sections of an old version that a server kept go in the next run."""
    index = LandmarkIndex(client, "c", WordEncoder())
    index.ingest([Document(prose(1, 90), id="a")])
    server.faults.plan.append(Fault("lose", "delete"))
    index.ingest([Document(prose(2, 90), id="a")])
    assert index.count("a") == 6
    index.ingest([Document(prose(2, 90), id="a")])
    assert index.count("a") == 3


def test_a_replica_that_is_behind_is_waited_for(
    server: Server, client: Any, expected: dict[str, Any]
) -> None:
    """A count that is too small for a moment ends nothing."""
    counts = server.behind.count
    behind = iter([0, 0])

    def late(name: str, condition: Any, exact: bool) -> Any:
        found = counts(name, condition, exact)
        return found.model_copy(update={"count": next(behind, found.count)})

    server.behind.count = late  # type: ignore[method-assign]
    LandmarkIndex(client, "c", WordEncoder()).ingest(corpus(3, 0))
    assert next(behind, None) is None
