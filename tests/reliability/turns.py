"""Two ingests on one server, of which one makes requests at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from qdrant_server import Server
from word_encoder import WordEncoder

from lmk_integrations import Document, IngestReport, LandmarkIndex

_TOO_LONG_S = 30


class Turns:
    """The first one makes so many requests, then the second one, then each goes on to its end.

    clients: one for each. documents: of one id, as the two see it. look: called after each
    request, at the moment when the other one may come in between.
    """

    def __init__(
        self,
        server: Server,
        clients: Sequence[Any],
        documents: tuple[Document, Document],
        requests: tuple[int, int],
        look: Callable[[], None],
    ) -> None:
        self._server = server
        self._clients = clients
        self._documents = documents
        self._left = list(requests)
        self._look = look
        self._turn = 0
        self._ended = [False, False]
        self._changed = threading.Condition()
        self._runs = [threading.Thread(target=self._ingest, args=(n,), daemon=True) for n in (0, 1)]
        self.made = [0, 0]
        self.reports: dict[int, IngestReport] = {}
        self.errors: list[Exception] = []

    def run(self) -> dict[int, IngestReport]:
        """Both, to their ends. Returns their reports, raises the first error there was."""
        self._server.faults.on_request = self._after_request
        for run in self._runs:
            run.start()
        for run in self._runs:
            run.join(2 * _TOO_LONG_S)
        self._server.faults.on_request = None
        if self.errors:
            raise self.errors[0]
        assert len(self.reports) == 2, "a run did not end"
        return self.reports

    def _ingest(self, number: int) -> None:
        try:
            self._wait_for(number)
            index = LandmarkIndex(self._clients[number], "c", WordEncoder())
            self.reports[number] = index.ingest([self._documents[number]])
        except Exception as error:
            self.errors.append(error)
        finally:
            with self._changed:
                self._ended[number] = True
                self._turn = 1 - number
                self._changed.notify_all()

    def _wait_for(self, number: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self._turn == number, _TOO_LONG_S)

    def _after_request(self, _: str) -> None:
        number = self._turn
        try:
            self._look()
        except Exception as error:
            self.errors.append(error)
        self.made[number] += 1
        self._left[number] -= 1
        if self._left[number] == 0 and not self._ended[1 - number]:
            with self._changed:
                self._turn = 1 - number
                self._changed.notify_all()
            self._wait_for(number)
