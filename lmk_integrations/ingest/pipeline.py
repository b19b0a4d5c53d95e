"""read -> skip what is unchanged -> encode -> store, overlapped, with bounded queues.

The store is the only ledger: a document's head is written when all its sections are stored, so
after any interruption the same call goes on where it stopped.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from lmk_integrations.core.pooling import l2_normalize
from lmk_integrations.encoder import (
    EncodingCancelled,
    LMKEncoder,
    SectionEncoding,
    StreamItem,
    TextDone,
    TextFailed,
)
from lmk_integrations.errors import DocumentError
from lmk_integrations.ingest.ids import content_hash, metadata_hash
from lmk_integrations.ingest.records import (
    Facts,
    HeadRecord,
    SectionRecord,
    Sink,
    StoredSection,
    Version,
)
from lmk_integrations.ingest.report import IngestReport
from lmk_integrations.ingest.writer import Writer
from lmk_integrations.records import Document, Failure, pieces_of

logger = logging.getLogger(__name__)

_READ_AHEAD = 8  # documents waiting between the reader and the encoder
_READER_GRACE_S = 5.0  # how long an unfinished source is waited for; its thread is a daemon
_LOOKUP_BATCH = 64  # documents whose heads are fetched at once


@dataclass(slots=True)
class _Job:
    """A document that must be encoded, while it is."""

    version: Version
    facts: Facts
    is_new: bool
    stale: bool
    stored: dict[int, StoredSection]
    pooled: NDArray[np.float64]
    n_encoded: int = 0
    n_written: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineOptions:
    """section_tokens, recipe: as stored. on_progress is called with the growing report."""

    section_tokens: int
    recipe: str
    dry_run: bool = False
    fail_fast: bool = False
    on_progress: Callable[[IngestReport], None] | None = None
    stop: threading.Event = field(default_factory=threading.Event)


def run_pipeline(
    items: Iterable[Document | Failure],
    encoder: LMKEncoder,
    sink: Sink,
    options: PipelineOptions,
) -> IngestReport:
    """Store a stream of documents. Returns the report; raises StoreError if the store fails.

    Setting ``options.stop`` ends the run after the batch in flight; the report says interrupted.
    """
    started = time.monotonic()
    run = _Run(encoder, sink, options)
    try:
        run.go(items)
    finally:
        run.report.seconds = time.monotonic() - started
    return run.report


class _Run:
    """The state of one run. One thread reads, this one encodes, one writes."""

    def __init__(self, encoder: LMKEncoder, sink: Sink, options: PipelineOptions) -> None:
        self.report = IngestReport(dry_run=options.dry_run)
        self._encoder = encoder
        self._sink = sink
        self._options = options
        self._jobs: dict[int, _Job] = {}
        self._next_job = 0

    def go(self, items: Iterable[Document | Failure]) -> None:
        stop = self._options.stop
        with Reader(items, stop) as reader, Writer(self._sink, stop) as writer:
            texts = self._to_encode(reader)

            def cancelled() -> bool:
                return stop.is_set() or writer.failed

            events = self._encoder.iter_sections(
                texts, self._options.section_tokens, cancelled=cancelled
            )
            try:
                for event in events:
                    self._take(event, writer)
                    if cancelled():
                        break
            except EncodingCancelled:
                logger.info("stopped between two batches")
        self.report.sections = writer.n_sections
        self.report.interrupted = stop.is_set()

    # -- before the encoder ----------------------------------------------------------------

    def _to_encode(self, items: Iterable[Document | Failure]) -> Iterator[StreamItem]:
        """The documents that the store does not hold as they are now."""
        source = iter(items)
        while batch := list(islice(source, _LOOKUP_BATCH)):
            hashed: list[tuple[Document, Version, Facts]] = []
            for item in batch:
                if isinstance(item, Failure):
                    self._fail(item)
                    continue
                try:
                    hashed.append((item, *self._identify(item)))
                except DocumentError as error:
                    self._fail(Failure(item.id or "?", error.reason, str(error)))
            yield from self._changed(hashed)
            self._progress()

    def _identify(self, document: Document) -> tuple[Version, Facts]:
        if document.id is None:
            raise DocumentError("a document needs an id or a source", "no_id")
        marks = [[mark.start, mark.kind, mark.label] for mark in document.marks]
        structure = [document.markup, marks] if marks or document.markup != "plain" else None
        digest = content_hash(pieces_of(document.text), structure)
        facts = Facts(
            document.title,
            document.source,
            document.metadata,
            metadata_hash(document.metadata, document.title, document.source),
        )
        return Version(document.id, digest, self._options.recipe), facts

    def _changed(self, found: list[tuple[Document, Version, Facts]]) -> Iterator[StreamItem]:
        heads = self._sink.heads([version.doc_id for _, version, _ in found])
        pending: list[tuple[Document, Version, Facts]] = []
        for document, version, facts in found:
            self.report.notes.update(document.notes)
            head = heads.get(version.doc_id)
            if head is None or head.version != version:
                pending.append((document, version, facts))
            elif head.metadata_hash != facts.metadata_hash:
                if not self._options.dry_run:
                    self._sink.update_facts(version, facts)
                self.report.updated += 1
                self.report.relabelled += 1
            else:
                self.report.unchanged += 1
        versions = self._sink.versions([version.doc_id for _, version, _ in pending])
        for document, version, facts in pending:
            known = versions.get(version.doc_id, set())
            stored = self._sink.sections(version) if version in known else {}
            job = _Job(
                version,
                facts,
                is_new=version.doc_id not in heads,
                stale=bool(known - {version}),
                stored=stored,
                pooled=np.zeros(self._encoder.dim, np.float64),
            )
            self._jobs[self._next_job] = job
            self._next_job += 1
            missing = self._nothing if self._options.dry_run else _missing_from(stored)
            yield StreamItem(document.text, document.marks, document.markup, wanted=missing)

    @staticmethod
    def _nothing(_: int) -> bool:
        return False

    # -- behind the encoder ----------------------------------------------------------------

    def _take(self, event: SectionEncoding | TextDone | TextFailed, writer: Writer) -> None:
        job = self._jobs[event.index]
        if isinstance(event, SectionEncoding):
            self._take_section(event, job, writer)
            return
        del self._jobs[event.index]
        if isinstance(event, TextFailed):
            self._fail(Failure(job.version.doc_id, event.error.reason, str(event.error)))
            return
        if not self._options.dry_run:
            writer.put(
                HeadRecord(
                    version=job.version,
                    facts=job.facts,
                    n_sections=event.n_sections,
                    n_tokens=event.n_tokens,
                    n_unk=event.n_unk,
                    vector=l2_normalize(job.pooled.astype(np.float32)),
                    stale=job.stale,
                )
            )
        self.report.add_document(
            job.version.doc_id, is_new=job.is_new, n_tokens=event.n_tokens, n_unk=event.n_unk
        )
        self._progress()

    def _take_section(self, section: SectionEncoding, job: _Job, writer: Writer) -> None:
        if section.ordinal in job.stored:
            job.pooled += job.stored[section.ordinal].pooled
            return
        if section.pooled is None:  # a dry run encodes nothing
            return
        assert section.vector is not None
        assert section.landmarks is not None
        assert section.weights is not None
        job.pooled += section.pooled
        self.report.tokens_encoded += section.n_tokens
        writer.put(
            SectionRecord(
                version=job.version,
                facts=job.facts,
                ordinal=section.ordinal,
                text=section.text,
                start=section.start,
                end=section.end,
                heading=section.heading,
                page=section.page,
                vector=section.vector,
                landmarks=section.landmarks,
                weights=section.weights,
                spans=section.spans,
                chunk_tokens=section.chunk_tokens,
                n_tokens=section.n_tokens,
                pooled_norm=float(np.linalg.norm(section.pooled)),
            )
        )
        self._progress()

    def _fail(self, failure: Failure) -> None:
        self.report.add_failure(failure)
        if self._options.fail_fast and not failure.skipped:
            raise DocumentError(f"{failure.name}: {failure.message}", failure.reason)

    def _progress(self) -> None:
        if self._options.on_progress is not None:
            self._options.on_progress(self.report)


def _missing_from(stored: dict[int, StoredSection]) -> Callable[[int], bool]:
    return lambda ordinal: ordinal not in stored


class Reader:
    """Reads ahead in a thread; iterating gives the items in order, or the source's error."""

    def __init__(self, items: Iterable[Document | Failure], stop: threading.Event) -> None:
        self._items = items
        self._stop = stop
        self._closed = threading.Event()
        self._queue: queue.Queue[Document | Failure | BaseException | None] = queue.Queue(
            _READ_AHEAD
        )
        self._thread = threading.Thread(target=self._read, name="lmk-reader", daemon=True)

    def __enter__(self) -> Reader:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        self._thread.join(timeout=_READER_GRACE_S)

    def __iter__(self) -> Iterator[Document | Failure]:
        while True:
            item = self._queue.get()
            if item is None:
                return
            if isinstance(item, BaseException):
                raise item
            yield item

    def _read(self) -> None:
        last: BaseException | None = None
        try:
            for item in self._items:
                if self._stop.is_set() or not self._put(item):
                    break
        except BaseException as error:
            last = error
        self._put(last)

    def _put(self, item: Document | Failure | BaseException | None) -> bool:
        """Wait for room, but not for a consumer that has gone."""
        while not self._closed.is_set():
            try:
                self._queue.put(item, timeout=0.1)
            except queue.Full:
                continue
            return True
        return False
