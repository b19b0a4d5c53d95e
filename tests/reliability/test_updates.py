"""An update never loses the old version: the new one is whole before the old one goes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from qdrant_server import Fault, serve
from word_encoder import WordEncoder, prose

import lmk_integrations.ingest.writer as writer_module
from lmk_integrations import Document, LandmarkIndex, connect
from lmk_integrations.errors import StoreError, StoreUnreachableError

OLD, NEW = prose(1, 5 * 32), prose(2, 7 * 32)
N_OLD, N_NEW = 5, 7
WRITES = N_NEW + 2  # the sections, the head, and the deletion of the old ones


@pytest.fixture(autouse=True)
def single_points(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every point is a batch of its own, so that a run can break off between any two."""
    monkeypatch.setattr(writer_module, "MAX_BATCH_POINTS", 1)


class Local:
    """A store of this process, whose writes fail after so many."""

    def __init__(self, client: Any, patch: pytest.MonkeyPatch) -> None:
        self.client, self._patch = client, patch

    def break_after(self, writes: int) -> None:
        done: list[str] = []
        for name in ("upsert", "delete"):
            original = getattr(self.client, name)

            def breaking(*args: Any, _call: Any = original, **options: Any) -> Any:
                if len(done) >= writes:
                    raise StoreError("the disk is full")
                done.append("")
                return _call(*args, **options)

            self._patch.setattr(self.client, name, breaking)

    def mend(self) -> None:
        self._patch.undo()


class Remote:
    """A server, which is gone after so many writes."""

    def __init__(self, server: Any) -> None:
        self.client, self._server = server.client(timeout_s=5), server

    def break_after(self, writes: int) -> None:
        seen: list[str] = []

        def watch(op: str) -> None:
            seen.append(op)
            if sum(name in ("upsert", "delete") for name in seen) == writes:
                gone()

        def gone() -> None:
            self._server.faults.plan.append(Fault("drop", times=10**6))

        self._server.faults.on_request = watch
        if writes == 0:
            self._server.faults.plan += [
                Fault("drop", op, times=10**6) for op in ("upsert", "delete")
            ]

    def mend(self) -> None:
        self._server.faults.on_request = None
        self._server.faults.mend()


@pytest.fixture(params=["memory", "edge", "rest"])
def store(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick: None
) -> Iterator[Any]:
    if request.param == "rest":
        with serve("rest") as server:
            yield Remote(server)
        return
    client = connect(":memory:" if request.param == "memory" else tmp_path / "s")
    with monkeypatch.context() as patch:
        yield Local(client, patch)
    client.close()


def texts(index: LandmarkIndex) -> set[str]:
    """What a search for a document can show."""
    found = index.scan(None, ["page_content", "lmk.hash", "lmk.ordinal"])
    return {str((record.payload or {})["page_content"]) for record in found}


def pieces(text: str) -> list[str]:
    words = text.split()
    return [" ".join(words[i : i + 32]) for i in range(0, len(words), 32)]


def holds(index: LandmarkIndex, text: str) -> bool:
    stored = {piece.strip() for piece in texts(index)}
    return all(piece in stored for piece in pieces(text))


@pytest.mark.parametrize("writes", range(WRITES + 1))
def test_an_update_that_breaks_off_between_any_two_writes(store: Any, writes: int) -> None:
    """Before the head the old text is what the store holds, after it the new one, both whole."""
    index = LandmarkIndex(store.client, "c", WordEncoder())
    index.ingest([Document(OLD, id="a")])
    assert holds(index, OLD)
    store.break_after(writes)
    try:
        index.ingest([Document(NEW, id="a")])
    except (StoreError, StoreUnreachableError):
        assert writes < WRITES + 1
    store.mend()
    switched = writes > N_NEW
    assert index.get("a")["a"].text == (NEW if switched else OLD)
    assert holds(index, OLD) or (switched and holds(index, NEW))
    assert holds(index, NEW) or not switched
    found = index.search(pieces(NEW if switched else OLD)[2], mode="bm25", limit=3)
    assert found[0].doc_id == "a"

    index.ingest([Document(NEW, id="a")])
    assert index.get("a")["a"].text == NEW
    assert (index.count("a"), index.info()["points"]) == (N_NEW, N_NEW + 1)


@pytest.mark.parametrize("section", [0, 3, N_NEW - 1])
def test_an_encoder_that_fails_on_the_way(store: Any, section: int) -> None:
    """The old text is found as before, whole; the next run makes up for it."""

    class Failing(WordEncoder):
        def _section(self, index: int, ordinal: int, *rest: Any, **options: Any) -> Any:
            if ordinal == section:
                raise RuntimeError("out of memory")
            return super()._section(index, ordinal, *rest, **options)

    index = LandmarkIndex(store.client, "c", WordEncoder())
    index.ingest([Document(OLD, id="a")])
    with pytest.raises(RuntimeError, match="out of memory"):
        LandmarkIndex(store.client, "c", Failing()).ingest([Document(NEW, id="a")])
    assert index.get("a")["a"].text == OLD
    assert holds(index, OLD)
    assert index.search(pieces(OLD)[1], mode="bm25")[0].text.strip() in pieces(OLD)[1]
    assert index.ingest([Document(NEW, id="a")]).updated == 1
    assert index.get("a")["a"].text == NEW
    assert index.count("a") == N_NEW


def test_the_order_of_requests() -> None:
    """Sections, the count of them, the head, a look at that, and last the deletion."""
    with serve("rest") as server:
        index = LandmarkIndex(server.client(), "c", WordEncoder())
        index.ingest([Document(OLD, id="a")])
        before = len(server.faults.requests)
        index.ingest([Document(NEW, id="a")])
        ops = [op for op, _ in server.faults.requests[before:]]
        first = ops.index("upsert")
        assert ops[first:] == ["upsert"] * N_NEW + ["count", "upsert", "retrieve", "delete"]
