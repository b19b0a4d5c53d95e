"""Two ingests into one collection: refused by name, or both complete."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from processes import Child
from qdrant_server import serve
from stored_points import dump
from word_encoder import WordEncoder, assert_same, corpus

from lmk_integrations import Document, LandmarkIndex
from lmk_integrations.qdrant import verify

SHAPE = {"small": 30, "long": 2, "sections": 40}


def test_the_second_one_is_refused_by_name(tmp_path: Path) -> None:
    """On a directory; the first one is not disturbed."""
    documents = corpus(**SHAPE)

    def slowly() -> Iterator[Document]:
        yield from documents[:20]
        second = Child(str(tmp_path / "s"), **SHAPE)
        second.begun()
        error = second.result()["error"]
        assert error.startswith("StoreLockedError")
        assert f"process {os.getpid()}" in error
        yield from documents[20:]

    with LandmarkIndex(tmp_path / "s", "c", WordEncoder()) as first:
        report = first.ingest(slowly())
        assert (report.new, report.failed) == (len(documents), [])


def test_on_a_server_both_complete(tmp_path: Path) -> None:
    """Started at the same moment, with no collection there yet: one of each document, whole."""
    with serve("rest") as server:
        children = [Child(server.url, 0.003, **SHAPE) for _ in range(2)]
        for child in children:
            child.begun()
        for child in children:
            report = child.result()
            assert "error" not in report, report
            assert report["new"] + report["updated"] + report["unchanged"] == 32
        got = dump(server.store)
        index = LandmarkIndex(server.client(), "c", WordEncoder())
        assert verify(index, corpus(**SHAPE)).problems == []
        assert index.ingest(corpus(**SHAPE)).unchanged == 32
    with serve("rest") as server:
        alone = LandmarkIndex(server.client(), "c", WordEncoder())
        alone.ingest(corpus(**SHAPE))
        assert_same(got, dump(server.store))


def test_the_collection_is_made_by_another_at_that_moment() -> None:
    """Between looking and making."""
    with serve("rest") as server:

        def other(name: str) -> None:
            if name == "collection_exists":
                server.faults.on_request = None
                other_index = LandmarkIndex(server.client(), "c", WordEncoder())
                assert other_index.ingest(corpus(3, 0)).new == 3

        index = LandmarkIndex(server.client(), "c", WordEncoder())
        server.faults.on_request = other
        report = index.ingest(corpus(3, 0))
        assert (report.new, report.unchanged) == (0, 3)
        assert index.info()["points"] == 6
