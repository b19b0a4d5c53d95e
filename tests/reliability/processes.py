"""Ingests in processes of their own, to be killed."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from qdrant_server import Location, connect_to
from word_encoder import WordEncoder, corpus

from lmk_integrations import LandmarkIndex

# Its children start without loading anything, and it has never opened a store itself.
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["lmk_integrations.qdrant", "lmk_integrations.ingest.sources"])


class Child:
    """A process that ingests the corpus; it says what it has come to.

    location: a directory, or a server's.
    """

    def __init__(
        self,
        location: str | Location,
        delay_s: float = 0.0,
        tell_stored: bool = False,
        **shape: int,
    ) -> None:
        self._ours, theirs = _CONTEXT.Pipe()
        arguments = (location, delay_s, shape, tell_stored, theirs)
        self._process = _CONTEXT.Process(target=_ingest, args=arguments, daemon=True)
        self._process.start()
        theirs.close()
        self.pid = self._process.pid or 0

    def begun(self) -> None:
        """Wait until it is about to open the store."""
        assert self._ours.poll(60), "the child did not start"
        assert self._ours.recv() == "begun"

    def stored(self) -> None:
        """Wait until some of it is stored."""
        assert self._ours.poll(120), "the child stored nothing"
        assert self._ours.recv() == "stored"

    def ends_within(self, seconds: float) -> bool:
        """Whether it comes to its end in time."""
        self._process.join(seconds)
        return not self._process.is_alive()

    def kill(self) -> bool:
        """Kill it; whether it was still at work."""
        self._process.kill()
        self._process.join()
        return self._process.exitcode == -signal.SIGKILL

    def result(self) -> dict[str, Any]:
        """Its report, or {"error": ...}, once it has ended."""
        self._process.join(600)
        assert self._process.exitcode == 0, self._process.exitcode
        found: dict[str, Any] = self._ours.recv()
        return found


def _ingest(
    location: str | Location, delay_s: float, shape: dict[str, int], tell_stored: bool, told: Any
) -> None:
    told.send("begun")
    encoder = WordEncoder(delay_s=delay_s)
    try:
        place = location if isinstance(location, str) else connect_to(location)
        with LandmarkIndex(place, "c", encoder) as index:
            waiting = [tell_stored]

            def look(_: Any) -> None:
                if waiting[0] and index.info()["points"]:
                    waiting[0] = False
                    told.send("stored")

            report = index.ingest(corpus(**shape), on_progress=look)
        told.send({**report.to_dict(), "encoded": len(encoder.sections)})
    except Exception as error:
        told.send({"error": f"{type(error).__name__}: {error}"})


def killed_until_done(
    location: str | Location,
    rng: random.Random,
    kills: int,
    horizon_s: float,
    delay_s: float,
    **shape: int,
) -> tuple[int, list[dict[str, Any]]]:
    """Start, kill at a random moment, start again; after so many kills, to the end.

    Returns how many were killed at work, and the reports of those that came to their end.
    """
    done, reports = 0, []
    while True:
        child = Child(location, delay_s, **shape)
        child.begun()
        if done < kills and not child.ends_within(rng.uniform(0, horizon_s)) and child.kill():
            done += 1
            continue
        reports.append(child.result())
        assert "error" not in reports[-1], reports[-1]
        return done, reports


@contextmanager
def timed() -> Iterator[list[float]]:
    """A list that holds the seconds of the block, after it."""
    seconds: list[float] = []
    started = time.monotonic()
    yield seconds
    seconds.append(time.monotonic() - started)


def kill(pid: int) -> None:
    """SIGKILL, now."""
    os.kill(pid, signal.SIGKILL)
