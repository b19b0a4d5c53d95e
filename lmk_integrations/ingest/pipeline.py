"""read -> skip what is unchanged -> encode -> store, overlapped, with bounded queues.

The store is the only ledger: a document's head is written when all its sections are stored, so
after any interruption the same call goes on where it stopped.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from lmk_integrations.core.pooling import l2_normalize
from lmk_integrations.encoder import (
    DocumentEncoder,
    EncodingCancelled,
    SectionEncoding,
    StreamItem,
    TextDone,
    TextFailed,
)
from lmk_integrations.errors import DocumentError
from lmk_integrations.ingest.identify import EMPTY, identify, readable
from lmk_integrations.ingest.reader import Reader
from lmk_integrations.ingest.records import (
    Facts,
    HeadRecord,
    SectionRecord,
    Sink,
    StoredHead,
    StoredSections,
    Version,
)
from lmk_integrations.ingest.report import IngestReport
from lmk_integrations.ingest.writer import Writer
from lmk_integrations.records import Document, Failure

logger = logging.getLogger(__name__)

_LOOKUP_BATCH = 64  # documents whose heads are fetched at once


@dataclass(frozen=True, slots=True)
class _Found:
    """A document read, and what it is."""

    document: Document
    version: Version
    facts: Facts


@dataclass(slots=True)
class _Job:
    """A document that must be encoded, while it is. stored: ordinals of sections found.

    base: the generation of its head, None: it has none. generation: that of the head to come.
    text: None for one that is not held. begin, end: the characters that sections cover so far.
    """

    version: Version
    facts: Facts
    base: int | None
    generation: int
    stale: bool
    stored: frozenset[int]
    pooled: NDArray[np.float64]
    text: str | None
    begin: int | None = None
    end: int = 0

    def uncovered(self) -> tuple[str, str]:
        """The text before the first section and behind the last: white space."""
        if self.text is None or self.begin is None:
            return "", ""
        return self.text[: self.begin], self.text[self.end :]


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
    encoder: DocumentEncoder,
    sink: Sink,
    options: PipelineOptions,
) -> IngestReport:
    """Store a stream of documents. Returns the report; raises StoreError if the store fails.

    Setting ``options.stop`` ends the run after the batch in flight; the report says interrupted.
    An error of ``items`` itself, and with ``fail_fast`` the first failure, is raised when what was
    read before it is stored.
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

    def __init__(self, encoder: DocumentEncoder, sink: Sink, options: PipelineOptions) -> None:
        self.report = IngestReport(dry_run=options.dry_run)
        self._encoder = encoder
        self._sink = sink
        self._options = options
        self._jobs: dict[int, _Job] = {}
        self._next_job = 0
        self._seen: set[str] = set()
        self._texts: set[str] = set()
        self._fatal: DocumentError | None = None

    def go(self, items: Iterable[Document | Failure]) -> None:
        stop = self._options.stop
        with Reader(items, stop) as reader, Writer(self._sink) as writer:
            texts = self._to_encode(reader)

            def cancelled() -> bool:
                return stop.is_set() or writer.failed

            events = self._encoder.iter_sections(
                texts, self._options.section_tokens, cancelled=cancelled
            )
            try:
                for event in events:
                    self._take(event, writer)
            except EncodingCancelled:
                logger.info("stopped between two batches")
        for head in writer.overtaken:
            self._overtaken(head)
        if not self._options.dry_run:
            self.report.sections = writer.n_sections
        self.report.interrupted = stop.is_set()
        error = self._fatal or reader.error
        if error is not None:
            raise error

    # -- before the encoder ----------------------------------------------------------------

    def _to_encode(self, items: Iterable[Document | Failure]) -> Iterator[StreamItem]:
        """The documents that the store does not hold as they are now."""
        source = iter(items)
        while not self._ended() and (batch := list(islice(source, _LOOKUP_BATCH))):
            found: list[_Found] = []
            for item in batch:
                identified = item if isinstance(item, Failure) else self._identify(item)
                if isinstance(identified, _Found):
                    found.append(identified)
                    continue
                self._fail(identified)
                if self._ended():
                    break
            yield from self._changed(found)
            self._progress()

    def _ended(self) -> bool:
        return self._fatal is not None

    def _identify(self, document: Document) -> _Found | Failure:
        try:
            version, facts = identify(document, self._options.recipe)
        except DocumentError as error:
            name = str(document.id or document.source or document.title or "?")
            return Failure(name, error.reason, str(error), skipped=error.reason == EMPTY)
        # One id, one document: a second one would silently take the first one's place.
        if version.doc_id in self._seen:
            message = "another document of this id came before in this run; ids must differ"
            return Failure(version.doc_id, "duplicate_id", message)
        self._seen.add(version.doc_id)
        # Both are stored, for each has a name of its own to be found by; but it is said.
        if version.content_hash in self._texts:
            self.report.notes["same_text"] += 1
        self._texts.add(version.content_hash)
        return _Found(document, version, facts)

    def _changed(self, found: list[_Found]) -> Iterator[StreamItem]:
        heads = self._sink.heads([item.version.doc_id for item in found])
        same = [item for item in found if _is_current(item, heads)]
        damaged = self._damaged({item.version.doc_id: heads[item.version.doc_id] for item in same})
        pending = []
        for item in found:
            self.report.add_notes(item.version.doc_id, item.document.notes)
            if _is_current(item, heads) and item.version.doc_id not in damaged:
                self._keep(item, heads[item.version.doc_id])
            else:
                pending.append(item)
        versions = self._sink.versions([item.version.doc_id for item in pending])
        for item in pending:
            if self._options.stop.is_set():
                return
            doc_id = item.version.doc_id
            yield self._start(item, heads.get(doc_id), versions.get(doc_id, {}))

    def _damaged(self, heads: dict[str, StoredHead]) -> set[str]:
        """Those of whose sections some are missing, or left over from an interrupted update."""
        expected = sum(head.n_sections for head in heads.values())
        if self._sink.count_sections(list(heads)) == expected:
            return set()
        return {
            doc_id
            for doc_id, head in heads.items()
            if self._sink.count_sections([doc_id]) != head.n_sections
        }

    def _keep(self, item: _Found, head: StoredHead) -> None:
        """A document whose text is stored; what is shown with it may be new."""
        if head.metadata_hash == item.facts.metadata_hash:
            self.report.unchanged += 1
            return
        if not self._options.dry_run:
            self._sink.update_facts(item.version, item.facts, range(head.n_sections))
        self.report.updated += 1
        self.report.relabelled += 1

    def _start(
        self, item: _Found, head: StoredHead | None, known: dict[Version, int]
    ) -> StreamItem:
        """Begin a document. known: its versions of which sections are stored, and generations."""
        stored = StoredSections()
        is_mended = head is not None and head.version == item.version
        following = 0 if head is None else head.generation + (not is_mended)
        generation = max(following, *known.values()) if known else following
        if item.version in known:
            # Another generation's may be about to be deleted by who stored the head there is.
            stored = self._sink.sections(item.version, None if is_mended else generation)
            if stored.metadata_hashes - {item.facts.metadata_hash} and not self._options.dry_run:
                self._sink.update_facts(item.version, item.facts, sorted(stored.ordinals))
        pooled = stored.pooled
        self._jobs[self._next_job] = _Job(
            item.version,
            item.facts,
            base=None if head is None else head.generation,
            generation=generation,
            stale=bool(known.keys() - {item.version}),
            stored=stored.ordinals,
            pooled=np.zeros(self._encoder.dim, np.float64) if pooled is None else pooled,
            text=item.document.text if isinstance(item.document.text, str) else None,
        )
        self._next_job += 1
        wanted = _none if self._options.dry_run else _others_than(stored.ordinals)
        document = item.document
        return StreamItem(readable(document.text), document.marks, document.markup, wanted)

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
                    uncovered=job.uncovered(),
                    base=job.base,
                    generation=job.generation,
                )
            )
        self.report.add_document(
            job.version.doc_id,
            is_new=job.base is None,
            n_tokens=event.n_tokens,
            n_unk=event.n_unk,
        )
        self._progress()

    def _take_section(self, section: SectionEncoding, job: _Job, writer: Writer) -> None:
        job.begin = section.start if job.begin is None else job.begin
        job.end = section.end
        if section.ordinal in job.stored:  # its part is in the sum already
            return
        if self._options.dry_run:
            self.report.sections += 1
            return
        assert section.vector is not None
        assert section.landmarks is not None
        assert section.weights is not None
        assert section.pooled is not None
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
                marks=section.marks,
                vector=section.vector,
                landmarks=section.landmarks,
                weights=section.weights,
                spans=section.spans,
                chunk_tokens=section.chunk_tokens,
                n_tokens=section.n_tokens,
                pooled_norm=float(np.linalg.norm(section.pooled)),
                generation=job.generation,
            )
        )
        self._progress()

    def _overtaken(self, head: HeadRecord) -> None:
        message = (
            "another ingest stored another version of it at the same time, which stands; ingest "
            "it again if this one should"
        )
        failure = Failure(head.version.doc_id, "overtaken", message)
        self.report.take_back(
            failure, is_new=head.base is None, n_tokens=head.n_tokens, n_unk=head.n_unk
        )
        self._end_at(failure)

    def _fail(self, failure: Failure) -> None:
        self.report.add_failure(failure)
        self._end_at(failure)

    def _end_at(self, failure: Failure) -> None:
        if self._options.fail_fast and not failure.skipped and self._fatal is None:
            self._fatal = DocumentError(f"{failure.name}: {failure.message}", failure.reason)

    def _progress(self) -> None:
        if self._options.on_progress is not None:
            self._options.on_progress(self.report)


def _is_current(item: _Found, heads: dict[str, StoredHead]) -> bool:
    head = heads.get(item.version.doc_id)
    return head is not None and head.version == item.version


def _none(_: int) -> bool:
    return False


def _others_than(stored: frozenset[int]) -> Callable[[int], bool]:
    return lambda ordinal: ordinal not in stored
