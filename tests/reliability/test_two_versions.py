"""Two ingests that store different versions of one document on a server at the same time.

Between any two requests of the one the other may come, with all of its requests or with some.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from typing import Any

import pytest
from qdrant_server import Server, serve
from turns import Turns
from word_encoder import WordEncoder, prose

import lmk_integrations.ingest.writer as writer_module
from lmk_integrations import Document, LandmarkIndex, StoreError, connect
from lmk_integrations.errors import StoreUnreachableError
from lmk_integrations.qdrant import verify

OLD, ONE, OTHER = (Document(prose(n, words), id="a") for n, words in ((1, 64), (2, 96), (3, 64)))
ONE_SHOWN_ELSE = Document(ONE.text, id="a", metadata={"n": 1}, title="One")
ALL = 1000  # requests: more than there are
# What is stored before, and what the two store.
CASES = {
    "both new": (None, ONE, OTHER),
    "two updates": (OLD, ONE, OTHER),
    "an update, and what was there": (OLD, ONE, OLD),
    "what was there, and an update": (OLD, OLD, ONE),
    "the same update": (OLD, ONE, ONE),
    "the same new one": (None, ONE, ONE),
    "one text, two metadata": (OLD, ONE, ONE_SHOWN_ELSE),
}


@pytest.fixture(autouse=True)
def single_points(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every point is a batch of its own, so that a run can stop between any two."""
    monkeypatch.setattr(writer_module, "MAX_BATCH_POINTS", 1)
    monkeypatch.setattr("lmk_integrations.qdrant.heads._LOOKS", (0.0, 0.01))


def torn(server: Server) -> str:
    """What is wrong with the document at this moment: once it is there, it stays whole."""
    if not server.store.collection_exists("c"):
        return ""
    records = [record.payload["lmk"] for record in server.store.scroll("c", limit=100)[0]]
    heads = [own for own in records if own["kind"] == "head"]
    if not heads:
        return ""
    there = {own.get("ordinal") for own in records if own.get("hash") == heads[0]["hash"]} - {None}
    absent = set(range(heads[0]["sections"])) - there
    return f"head of {heads[0]['hash'][:4]} without {len(absent)} sections" if absent else ""


def both(
    server: Server,
    clients: Sequence[Any],
    case: tuple[Document | None, ...],
    stops: tuple[int, int],
) -> list[int]:
    """Both ingests, stopped after so many requests each. Returns how many they made."""
    before, one, other = case
    assert one is not None
    assert other is not None
    server.store.delete_collection("c")
    index = LandmarkIndex(clients[2], "c", WordEncoder())
    # A collection is there: how it is made by two at once is another test's.
    index.ingest([before or OLD])
    if before is None:
        index.delete("a")
    found: list[str] = []

    def look() -> None:
        found.append(torn(server))

    turns = Turns(server, clients, (one, other), stops, look)
    reports = turns.run()
    where = f"stopped after {stops}"
    assert [what for what in found if what] == [], where
    assert verify(index).problems == [], where
    assert index.count() == 1, where
    # The one that stands has said that it is stored; whoever was overtaken has said so.
    stored = index.get("a")["a"]
    for number, document in enumerate((one, other)):
        told = [(item.name, item.reason) for item in reports[number].failed]
        assert told in ([], [("a", "overtaken")]), where
        stands = (stored.text, stored.title) == (document.text, document.title)
        assert not (told and stands), where
        assert reports[number].documents == 1, where
    standing = one if (stored.text, stored.title) == (one.text, one.title) else other
    assert any(not report.failed for report in reports.values()), where
    assert index.ingest([standing]).unchanged == 1, where
    return turns.made


@contextmanager
def serving(protocol: Any) -> Iterator[tuple[Server, list[Any]]]:
    """A server, and a client of it for each of the two, and one to look with."""
    with serve(protocol) as server:
        clients = [server.client() for _ in range(3)]
        yield server, clients
        for client in clients:
            client.close()


# Over gRPC it is quicker; the slow test is over REST.
@pytest.mark.parametrize(
    ("protocol", "name"), [*(("grpc", name) for name in CASES), ("rest", "two updates")]
)
def test_one_stops_and_the_other_comes_in_between(protocol: Any, name: str) -> None:
    """At every request: the document is whole at every moment, and is one of the two at the end."""
    with serving(protocol) as (server, clients):
        for stop in count(1):
            made, _ = both(server, clients, CASES[name], (stop, ALL))
            if stop > made:
                break
        assert stop > 5


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_both_stop(name: str) -> None:
    """At every pair of requests."""
    with serving("rest") as (server, clients):
        for first in count(1):
            for second in count(1):
                made = both(server, clients, CASES[name], (first, second))
                if second > made[1]:
                    break
            if first > made[0]:
                break


@pytest.mark.parametrize("name", CASES)
def test_one_breaks_off_and_the_other_comes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """At every write: what the one leaves behind goes with the other's, whoever was first."""
    before, one, other = CASES[name]
    for writes in range(9):
        index = LandmarkIndex(connect(":memory:"), "c", WordEncoder())
        index.ingest([before] if before is not None else [Document("x", id="x")])
        with monkeypatch.context() as patch:
            break_off(index.client, patch, writes)
            with suppress(StoreError):
                index.ingest([one])
        report = index.ingest([other])
        assert report.failed == []
        assert index.get("a")["a"].text == other.text
        assert verify(index).problems == [], writes


def break_off(client: Any, patch: pytest.MonkeyPatch, writes: int) -> None:
    """Let so many writes through, and no more."""
    done: list[str] = []
    for name in ("upsert", "delete", "overwrite_payload"):
        original = getattr(client, name)

        def breaking(*args: Any, _call: Any = original, **options: Any) -> Any:
            if len(done) >= writes:
                raise StoreError("the disk is full")
            done.append("")
            return _call(*args, **options)

        patch.setattr(client, name, breaking)


def test_a_server_that_knows_no_conditions() -> None:
    """Older than 1.16: a document may be torn. That is told of, and the next ingest mends it."""
    with serving("grpc") as (server, clients):
        conditional = server.behind.upsert
        server.behind.upsert = lambda name, points, *_: conditional(name, points)  # type: ignore[method-assign]
        told = 0
        for stop in range(1, 15):
            try:
                both(server, clients, CASES["two updates"], (stop, ALL))
                continue
            except (AssertionError, StoreUnreachableError):
                server.faults.on_request = None
            index = LandmarkIndex(clients[2], "c", WordEncoder())
            torn_now = torn(server)
            problems = verify(index).problems
            assert problems or not torn_now
            told += bool(torn_now)
            index.ingest([ONE])
            assert verify(index).problems == [], stop
            assert index.get("a")["a"].text == ONE.text
        assert told
