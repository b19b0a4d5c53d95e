"""Effectively once: killed at any moment and started again, the same points as in one run."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from processes import Child, kill, killed_until_done, timed
from qdrant_server import Location, serve
from stored_points import dump
from word_encoder import WordEncoder, assert_same, corpus

from lmk_integrations import LandmarkIndex, connect

DELAY_S = 0.003


def rounds(open_round: Any, kills: int, shape: dict[str, int], seed: int) -> tuple[int, int]:
    """Fill stores from nothing, killed on the way, until there were enough kills."""
    rng = random.Random(seed)
    with open_round() as (location, points):
        child = Child(location, DELAY_S, **shape)
        child.begun()
        with timed() as seconds:
            assert child.result()["new"] == len(corpus(**shape))
        expected = points()
    done = stores = 0
    while done < kills:
        with open_round() as (location, points):
            left = min(kills - done, 8)
            # What is left to do shrinks with every kill, and most moments should lie in it.
            found, (report,) = killed_until_done(
                location, rng, left, 0.7 * seconds[0], DELAY_S, **shape
            )
            assert report["new"] + report["unchanged"] == len(corpus(**shape))
            assert_same(points(), expected)
            again = Child(location, **shape)
            again.begun()
            report = again.result()
            assert (report["unchanged"], report["encoded"]) == (len(corpus(**shape)), 0)
            done, stores = done + found, stores + 1
    return done, stores


class Edges:
    """New directories, one after the other."""

    def __init__(self, root: Path) -> None:
        self._root, self._number = root, 0

    def __call__(self) -> Edges:
        self._number += 1
        return self

    def __enter__(self) -> tuple[str, Any]:
        location = self._root / str(self._number)

        def points() -> dict[str, Any]:
            with connect(location) as client:
                return dump(client)

        return str(location), points

    def __exit__(self, *_: object) -> None:
        pass


class Servers:
    """New servers, one after the other."""

    def __init__(self, protocol: Any) -> None:
        self._protocol = protocol

    def __call__(self) -> Servers:
        self._serving = serve(self._protocol)
        return self

    def __enter__(self) -> tuple[Location, Any]:
        server = self._serving.__enter__()
        return server.location, lambda: dump(server.store)

    def __exit__(self, *error: Any) -> None:
        self._serving.__exit__(*error)


SHORT = {"small": 20, "long": 1, "sections": 60}
# qdrant-client's own store looks at every point for every request.
WHOLE = {
    "edge": {"small": 300, "long": 3, "sections": 250},
    "rest": {"small": 100, "long": 2, "sections": 120},
    "grpc": {"small": 100, "long": 2, "sections": 120},
}


@pytest.mark.parametrize("kind", WHOLE)
def test_killed_a_few_times(kind: str, tmp_path: Path) -> None:
    """Random moments, on the embedded engine and on a server: the short version."""
    rounds(Edges(tmp_path) if kind == "edge" else Servers(kind), 4, SHORT, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("kind", WHOLE)
def test_killed_sixty_times(kind: str, tmp_path: Path) -> None:
    """The whole of it."""
    stores = Edges(tmp_path) if kind == "edge" else Servers(kind)
    killed, filled = rounds(stores, 60, WHOLE[kind], seed=2)
    print(f"{kind}: {killed} kills over {filled} stores")


@pytest.mark.parametrize("protocol", ["rest", "grpc"])
@pytest.mark.parametrize("upserts", [0, 1, 2, 3])
def test_a_long_document_goes_on_at_its_sections(protocol: Any, upserts: int) -> None:
    """What was acknowledged before the kill is not encoded again, whichever write it was."""
    shape = {"small": 0, "long": 1, "sections": 200}
    with serve(protocol) as server:
        children: list[Child] = []

        def watch(op: str) -> None:
            if children and op == "upsert" and server.faults.count("upsert") == upserts:
                kill(children[0].pid)

        server.faults.on_request = watch
        child = Child(server.location, 0.001, **shape)
        children.append(child)
        child.begun()
        if upserts == 0:
            child.kill()
        elif not child.ends_within(60):
            pytest.fail("it was not killed")
        children.clear()
        stored = dump(server.store) if server.store.collection_exists("c") else {}
        again = Child(server.location, **shape)
        again.begun()
        report = again.result()
        assert report["encoded"] == 200 - len(stored)
        assert (upserts == 0) or 0 < len(stored) < 200
        final = dump(server.store)
    with serve(protocol) as server, LandmarkIndex(server.client(), "c", WordEncoder()) as index:
        index.ingest(corpus(**shape))
        assert_same(final, dump(server.store))
