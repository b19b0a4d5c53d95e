"""Whether stored documents are whole, and whether they are what their source holds."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from qdrant_client import models

from lmk_integrations.ingest.ids import head_id, section_id
from lmk_integrations.ingest.records import Version
from lmk_integrations.qdrant.client import StoreClient, call, scroll
from lmk_integrations.qdrant.own_points import sections_of, version_of
from lmk_integrations.qdrant.points import facts_of, uncovered_text
from lmk_integrations.qdrant.schema import RECORD, CollectionIdentity
from lmk_integrations.qdrant.verify_points import (
    PointCheck,
    are_as_stored,
    is_readable,
    part_of_sum,
)
from lmk_integrations.qdrant.verify_report import PointId, Problem
from lmk_integrations.records import TextSource, pieces_of

_PAGE = 32  # sections read at once, with all their vectors


@dataclass(slots=True)
class Span:
    """Where a section lies in its document's text, and a digest of its text."""

    start: int
    end: int
    digest: bytes


@dataclass(slots=True)
class Stored:
    """One document as found: its head, and by ordinal the sections that the head stands for.

    spans: of those with which nothing is wrong; points: of all.
    """

    head: models.Record
    version: Version
    metadata_hash: str
    spans: dict[int, Span] = field(default_factory=dict)
    points: dict[int, PointId] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)


class Documents:
    """Reads documents of one collection, section by section, and checks them."""

    def __init__(self, client: StoreClient, collection: str, identity: CollectionIdentity) -> None:
        self._client = client
        self._collection = collection
        self._check = PointCheck(identity)
        self._recipe = str(identity.recipe.get("id"))

    def read(self, doc_ids: Sequence[str]) -> Iterator[Stored]:
        """Those of the documents that have a readable head, with what is wrong with each."""
        heads = call(
            self._client,
            lambda: self._client.retrieve(
                self._collection,
                [head_id(doc_id) for doc_id in doc_ids],
                with_payload=True,
                with_vectors=True,
            ),
        )
        for head in heads:
            if is_readable((head.payload or {}).get(RECORD)):
                yield self._read(head)

    def _read(self, head: models.Record) -> Stored:
        payload = dict(head.payload or {})
        own = payload[RECORD]
        stored = Stored(head, version_of(own), str(own["metadata_hash"]))
        doc_id = stored.version.doc_id
        expected = int(own["sections"])
        pooled: NDArray[np.float64] | None = None
        leftovers: list[PointId] = []
        facts = facts_of(payload)
        trusted = facts if are_as_stored(facts) else None
        for record in self._sections(doc_id):
            mine = (record.payload or {})[RECORD]
            if not is_readable(mine):
                continue  # which is told of by its id
            if version_of(mine) != stored.version or not 0 <= int(mine["ordinal"]) < expected:
                leftovers.append(record.id)
                continue
            ordinal = int(mine["ordinal"])
            if str(record.id) != section_id(*_key(stored.version), ordinal):
                continue  # a second copy: the same
            wrong = list(self._check.section(record, trusted))
            if wrong:
                message = f"section {ordinal}: {'; '.join(wrong)}"
                stored.problems.append(Problem("altered", doc_id, message, (record.id,), True))
            else:
                part = part_of_sum(record)
                pooled = part if pooled is None else pooled + part
                stored.spans[ordinal] = _span(record)
            stored.points[ordinal] = record.id
        self._complete(stored, expected, pooled, leftovers)
        return stored

    def _complete(
        self,
        stored: Stored,
        expected: int,
        pooled: NDArray[np.float64] | None,
        leftovers: list[PointId],
    ) -> None:
        doc_id, problems = stored.version.doc_id, stored.problems
        absent = [ordinal for ordinal in range(expected) if ordinal not in stored.points]
        if absent:
            message = f"{len(absent)} of {expected} sections ({_some(absent)})"
            problems.append(Problem("missing", doc_id, message, (), True))
        if stored.version.recipe != self._recipe:
            message = "it is stored under another recipe than the collection's: ingest it again"
            problems.append(Problem("stale", doc_id, message, (), True))
        whole = len(stored.spans) == expected
        wrong = list(self._check.head(stored.head, pooled if whole else None))
        if whole:
            wrong += _gaps(stored)
        if wrong:
            message = f"head: {'; '.join(wrong)}"
            problems.append(Problem("altered", doc_id, message, (stored.head.id,), True))
        if leftovers:
            # They may be all there is of the document, if its head is wrong.
            needed = bool(absent or wrong)
            message = f"{len(leftovers)} sections of another version are left over"
            problems.append(Problem("stale", doc_id, message, tuple(leftovers), needed))

    def _sections(self, doc_id: str) -> Iterator[models.Record]:
        wanted = sections_of([doc_id])
        return scroll(
            self._client, self._collection, wanted, payload=True, vectors=True, page=_PAGE
        )


def compare_text(stored: Stored, text: str | TextSource) -> Iterator[Problem]:
    """Sections whose text is not the source's, though the hash says it is."""
    ordered = sorted(stored.spans.items(), key=lambda entry: entry[1].start)
    digests = _digests(pieces_of(text), [span for _, span in ordered])
    for (ordinal, span), digest in zip(ordered, digests, strict=True):
        if span.digest != digest:
            message = f"section {ordinal}: its text is not that of the source"
            doc_id, points = stored.version.doc_id, (stored.points[ordinal],)
            yield Problem("altered", doc_id, message, points, True)


def _digests(pieces: Iterable[str], spans: Sequence[Span]) -> Iterator[bytes]:
    """Digests of these spans of a text, which is read once and not held."""
    source = iter(pieces)
    held, offset = "", 0
    for span in spans:
        while offset + len(held) < span.end and (piece := next(source, None)) is not None:
            skipped = min(len(held), max(0, span.start - offset))
            held, offset = held[skipped:] + piece, offset + skipped
        yield _digest(held[max(0, span.start - offset) : span.end - offset])


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _span(record: models.Record) -> Span:
    payload = record.payload or {}
    own = payload[RECORD]
    return Span(int(own["start"]), int(own["ends"][-1]), _digest(str(payload["page_content"])))


def _gaps(stored: Stored) -> Iterator[str]:
    """What a whole document's sections leave out of its text."""
    at = len(uncovered_text((stored.head.payload or {})[RECORD])[0])
    for ordinal, span in sorted(stored.spans.items()):
        # Of a text that was streamed in, what lies before the first section is not kept.
        if span.start != at and not (ordinal == 0 and at == 0):
            yield f"section {ordinal} begins at character {span.start}, not at {at}"
            return
        at = span.end


def _key(version: Version) -> tuple[str, str, str]:
    return version.doc_id, version.content_hash, version.recipe


def _some(ordinals: Sequence[int]) -> str:
    shown = ", ".join(map(str, ordinals[:5]))
    return shown + (", ..." if len(ordinals) > 5 else "")
