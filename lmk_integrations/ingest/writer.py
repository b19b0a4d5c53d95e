"""The writing end of an ingest: batches bounded by points and bytes, sections before heads."""

from __future__ import annotations

import queue
import threading

from lmk_integrations.ingest.records import HeadRecord, SectionRecord, Sink

MAX_BATCH_POINTS = 64
MAX_BATCH_BYTES = 8 << 20  # servers refuse bodies over 32 MB, and time out long before
_QUEUED = 256  # sections waiting to be written
_IDLE_S = 0.5
_POLL_S = 0.1
_GRACE_S = 2.0  # how long a second Ctrl-C waits for the batch in flight


class Writer:
    """Writes records in a thread of its own, in the order given.

    Leaving the context writes what is left and raises the store's error if there was one;
    after an error nothing more is written. An interrupt leaves without writing what is left.

    n_sections: written so far. overtaken: the heads that another ingest came before.
    """

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._queue: queue.Queue[SectionRecord | HeadRecord | None] = queue.Queue(_QUEUED)
        self._thread = threading.Thread(target=self._write, name="lmk-writer", daemon=True)
        self._abandoned = threading.Event()
        self._error: BaseException | None = None
        self._sections: list[SectionRecord] = []
        self._heads: list[HeadRecord] = []
        self._bytes = 0
        self.n_sections = 0
        self.overtaken: list[HeadRecord] = []

    @property
    def failed(self) -> bool:
        """Whether the store has refused something."""
        return self._error is not None

    def put(self, record: SectionRecord | HeadRecord) -> None:
        """Queue a record; waits while the queue is full."""
        self._queue.put(record)

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and not issubclass(kind, Exception):
            self._abandoned.set()
            self._thread.join(timeout=_GRACE_S)
            return
        self._queue.put(None)
        self._thread.join()
        if self._error is not None and kind is None:
            raise self._error

    def _write(self) -> None:
        idle_s = 0.0
        while not self._abandoned.is_set():
            try:
                record = self._queue.get(timeout=_POLL_S)
            except queue.Empty:
                idle_s += _POLL_S
                if idle_s >= _IDLE_S:  # nothing more to come soon: do not sit on finished work
                    self._try_flush()
                continue
            idle_s = 0.0
            if record is None:
                self._try_flush()
                return
            self._add(record)
            full = len(self._sections) + len(self._heads) >= MAX_BATCH_POINTS
            if full or self._bytes >= MAX_BATCH_BYTES:
                self._try_flush()

    def _add(self, record: SectionRecord | HeadRecord) -> None:
        if self._sections and self._bytes + record.n_bytes > MAX_BATCH_BYTES:
            self._try_flush()
        self._bytes += record.n_bytes
        if isinstance(record, HeadRecord):
            self._heads.append(record)
        else:
            self._sections.append(record)

    def _try_flush(self) -> None:
        sections, heads = self._sections, self._heads
        self._sections, self._heads, self._bytes = [], [], 0
        if self._error is not None or not (sections or heads):
            return
        try:
            if sections:
                self._sink.write_sections(sections)
                self.n_sections += len(sections)
            if heads:
                self.overtaken += self._sink.write_heads(heads)
        except BaseException as error:  # carried to the thread that waits for us
            self._error = error
