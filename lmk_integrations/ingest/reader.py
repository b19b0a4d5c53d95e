"""The reading end of an ingest: a thread that reads ahead."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator

from lmk_integrations.records import Document, Failure

_READ_AHEAD = 8  # documents waiting between the reader and the encoder
_GRACE_S = 5.0  # how long an unfinished source is waited for; its thread is a daemon
_POLL_S = 0.1


class Reader:
    """Reads ahead in a thread; iterating gives the items in order.

    Iterating ends when the source ends, fails, or a stop is asked for: then at once, even if the
    source is waiting for something. error: what the source raised, if it failed.
    """

    def __init__(self, items: Iterable[Document | Failure], stop: threading.Event) -> None:
        self.error: BaseException | None = None
        self._items = items
        self._stop = stop
        self._closed = threading.Event()
        self._queue: queue.Queue[Document | Failure | None] = queue.Queue(_READ_AHEAD)
        self._thread = threading.Thread(target=self._read, name="lmk-reader", daemon=True)

    def __enter__(self) -> Reader:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        self._thread.join(timeout=0 if self._stop.is_set() else _GRACE_S)

    def __iter__(self) -> Iterator[Document | Failure]:
        while not self._stop.is_set():
            try:
                item = self._queue.get(timeout=_POLL_S)
            except queue.Empty:
                continue
            if item is None:
                return
            yield item

    def _read(self) -> None:
        try:
            for item in self._items:
                if self._stop.is_set() or not self._put(item):
                    break
        except BaseException as error:  # carried to the thread that waits for us
            self.error = error
        self._put(None)

    def _put(self, item: Document | Failure | None) -> bool:
        """Wait for room, but not for a consumer that has gone."""
        while not self._closed.is_set():
            try:
                self._queue.put(item, timeout=_POLL_S)
            except queue.Full:
                continue
            return True
        return False
