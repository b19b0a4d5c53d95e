"""Compare a collection with itself and with its source, and mend it.

The store is the only ledger, so it has to bear being looked at: every point tells which document,
version and section it is, and what its vectors and its text must agree with.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice, takewhile
from typing import Any

from qdrant_client import models

from lmk_integrations.errors import ConfigError, DocumentError, StoreError
from lmk_integrations.ingest.identify import EMPTY, identify, readable
from lmk_integrations.ingest.ids import head_id, item_id, section_id
from lmk_integrations.ingest.prune import gone
from lmk_integrations.ingest.sources import ReadOptions, Sources
from lmk_integrations.qdrant.client import PAGE, call, scroll
from lmk_integrations.qdrant.index import LandmarkIndex
from lmk_integrations.qdrant.move_pages import KINDS
from lmk_integrations.qdrant.own_points import version_of
from lmk_integrations.qdrant.schema import RECORD, complete_indexes, missing_indexes, read_identity
from lmk_integrations.qdrant.verify_documents import Documents, Stored, compare_text
from lmk_integrations.qdrant.verify_points import PointCheck, is_readable
from lmk_integrations.qdrant.verify_report import PointId, Problem, VerifyReport
from lmk_integrations.records import Document, Failure

logger = logging.getLogger(__name__)

_AT_ONCE = 32  # documents


def verify(
    index: LandmarkIndex,
    sources: Any = None,
    *,
    options: ReadOptions | None = None,
    repair: bool = False,
    delete_foreign: bool = False,
    allow_foreign: bool = False,
    stop: threading.Event | None = None,
) -> VerifyReport:
    """Look at every point of a collection. Reads all vectors; encodes nothing.

    sources: what the collection was filled from, as for `LandmarkIndex.ingest`; None looks at the
        store alone. It is read twice for a repair: no generator.
    repair: delete second copies, leftovers, and what was altered, if it is in the sources; then
        ingest these. Needs an index with the encoder that the collection was filled with.
    delete_foreign: with `repair`, also delete what other programs stored, and documents whose
        file is gone. allow_foreign: that they are there is no problem.
    stop: set it to end soon; the report says interrupted.

    Raises StoreError where there is no such collection; ConfigError, before anything is changed,
    for an encoder that would make other points than there are.
    """
    if delete_foreign and (allow_foreign or not repair):
        raise ConfigError("delete_foreign needs repair, and cannot go with allow_foreign")
    if repair and sources is not None:
        _check_recipe(index)
    started = time.monotonic()
    look = _Look(index, options, allow_foreign=allow_foreign, stop=stop)
    report = look.at(sources)
    if repair and report.problems and not report.interrupted:
        _mend(index, report, look.given, sources, options, stop, delete_foreign=delete_foreign)
        again = _Look(index, options, allow_foreign=allow_foreign, stop=stop).at(sources)
        report.left, report.interrupted = again.problems, again.interrupted
    report.seconds = time.monotonic() - started
    return report


def _check_recipe(index: LandmarkIndex) -> None:
    identity = read_identity(index.client, index.collection) if index.exists else None
    if identity is not None and identity.recipe.get("id") != index.recipe:
        raise ConfigError(
            f"collection {index.collection!r} was filled by {identity.model!r} with other settings "
            "(granularity, section tokens, or an older release): give the same ones, or ingest "
            "first to bring it up to date"
        )


class _Look:
    """One look at everything."""

    def __init__(
        self,
        index: LandmarkIndex,
        options: ReadOptions | None,
        *,
        allow_foreign: bool,
        stop: threading.Event | None,
    ) -> None:
        if not index.exists:
            raise StoreError(f"there is no collection {index.collection!r}")
        identity = read_identity(index.client, index.collection)
        assert identity is not None
        self._client = index.client
        self._name = index.collection
        self._recipe = str(identity.recipe.get("id"))
        self._documents = Documents(index.client, index.collection, identity)
        self._check = PointCheck(identity)
        self._options = options
        self._allow_foreign = allow_foreign
        self._stop = stop or threading.Event()
        self._report = VerifyReport(index.collection)
        self._heads: set[str] = set()
        self._sections: Counter[str] = Counter()
        self.given: set[str] = set()

    def at(self, sources: Any) -> VerifyReport:
        """The report. `given` holds the ids of the documents in the sources afterwards."""
        self._indexes()
        self._census()
        if sources is not None:
            self._compare(Sources(sources, self._options))
        rest = sorted(self._heads - self.given)
        for page in _pages(rest):
            for stored in self._documents.read(page):
                self._report.problems += stored.problems
        for doc_id in sorted(self._sections.keys() - self._heads):
            message = f"its head: an ingest broke off after {self._sections[doc_id]} sections"
            self._problem(Problem("missing", doc_id, message, (), True))
        self._report.documents = len(self._heads)
        self._report.sections = self._sections.total()
        self._report.interrupted = self._stop.is_set()
        return self._report

    def _problem(self, problem: Problem) -> None:
        if problem.kind != "foreign" or not self._allow_foreign:
            self._report.problems.append(problem)

    def _indexes(self) -> None:
        absent = missing_indexes(self._client, self._name)
        if absent:
            message = f"payload indexes of {', '.join(map(repr, absent))}"
            self._problem(Problem("missing", None, message))

    # -- the store alone -------------------------------------------------------------------

    def _census(self) -> None:
        """Which documents there are, and which points are no one's."""
        others = 0
        for record in self._scroll(None, [RECORD], vectors=False):
            own = (record.payload or {}).get(RECORD)
            if not isinstance(own, dict) or own.get("kind") not in KINDS or "doc_id" not in own:
                others += 1
                continue
            doc_id, kind = str(own["doc_id"]), own["kind"]
            if not is_readable(own):
                message = f"the record of a {kind} cannot be read"
                self._problem(Problem("altered", doc_id, message, (record.id,), True))
                continue
            right = _id_of(own)
            if str(record.id) != right:
                message = f"a {kind} under another id ({record.id})"
                there = self._exists(right)
                problem = Problem("duplicated", doc_id, message, (record.id,), not there)
                self._problem(problem)
            elif kind == "head":
                self._heads.add(doc_id)
            elif kind == "section":
                self._sections[doc_id] += 1
        if others:
            message = f"{others} points that another program stored"
            self._problem(Problem("foreign", None, message))
        self._items()

    def _items(self) -> None:
        for record in self._scroll(_kind("item"), True, vectors=True):
            self._report.items += 1
            wrong = list(self._check.item(record))
            if wrong:
                doc_id = str((record.payload or {})[RECORD]["doc_id"])
                # It came from a framework: no file to read it from again.
                self._problem(Problem("altered", doc_id, f"item: {'; '.join(wrong)}"))

    def _exists(self, point_id: str) -> bool:
        return bool(
            call(
                self._client,
                lambda: self._client.retrieve(self._name, [point_id], with_payload=False),
            )
        )

    def _scroll(
        self, wanted: models.Filter | None, payload: Any, *, vectors: bool
    ) -> Iterator[models.Record]:
        found = scroll(
            self._client,
            self._name,
            wanted,
            payload=payload,
            vectors=vectors,
            page=_AT_ONCE if vectors else PAGE,
        )
        return takewhile(lambda _: not self._stop.is_set(), found)

    # -- with its source -------------------------------------------------------------------

    def _compare(self, reading: Sources) -> None:
        items = reading.documents()
        while batch := list(islice(items, _AT_ONCE)):
            if self._stop.is_set():
                return
            documents = {}
            for item in batch:
                if isinstance(item, Failure):
                    self._unread(item)
                elif isinstance(item.id or item.source, str):
                    documents[str(item.id or item.source)] = item
            self._compare_batch(documents)
        for name, _ in reading.complete_folders:
            mine = (doc_id for doc_id in self._heads if doc_id.startswith(f"{name}/"))
            for doc_id in gone(mine, reading.seen_ids):
                self._problem(Problem("foreign", doc_id, "its file is gone"))

    def _unread(self, item: Failure) -> None:
        if not item.skipped:
            self._report.unread.append(item)

    def _compare_batch(self, documents: dict[str, Document]) -> None:
        stored = {one.version.doc_id: one for one in self._documents.read(list(documents))}
        for doc_id, document in documents.items():
            try:
                problems = list(self._compare_one(document, stored.get(doc_id)))
            except DocumentError as error:
                skipped = error.reason == EMPTY
                self._unread(Failure(doc_id, error.reason, str(error), skipped=skipped))
                continue
            self.given.add(doc_id)
            self._report.compared += 1
            self._report.problems += problems

    def _compare_one(self, document: Document, stored: Stored | None) -> Iterator[Problem]:
        version, facts = identify(document, self._recipe)
        doc_id = version.doc_id
        if stored is None:
            if doc_id not in self._sections:  # told of as one without a head
                yield Problem("missing", doc_id, "it is not stored", (), True)
            return
        yield from stored.problems
        if version.content_hash != stored.version.content_hash:
            yield Problem("stale", doc_id, "its source has another text now", (), True)
            return
        if facts.metadata_hash != stored.metadata_hash:
            yield Problem("stale", doc_id, "its source has other metadata now", (), True)
        yield from compare_text(stored, readable(document.text))


def _mend(
    index: LandmarkIndex,
    report: VerifyReport,
    given: set[str],
    sources: Any,
    options: ReadOptions | None,
    stop: threading.Event | None,
    *,
    delete_foreign: bool,
) -> None:
    complete_indexes(index.client, index.collection)
    doomed: list[PointId] = []
    for problem in report.problems:
        if problem.doc_id in given or not problem.needs_source:
            doomed += problem.points
    for page in _pages(doomed):
        index.delete_where(models.Filter(must=[models.HasIdCondition(has_id=page)]))
    if delete_foreign:
        _delete_foreign(index, report)
    if sources is not None:
        ingested = index.ingest(sources, options=options, stop=stop)
        logger.info("verify: ingested %d documents", ingested.new + ingested.updated)


def _delete_foreign(index: LandmarkIndex, report: VerifyReport) -> None:
    foreign = [problem for problem in report.problems if problem.kind == "foreign"]
    for page in _pages(problem.doc_id for problem in foreign if problem.doc_id is not None):
        index.delete(page)
    if any(problem.doc_id is None for problem in foreign):
        index.delete_where(models.Filter(must_not=[_kind(kind) for kind in KINDS]))


def _id_of(own: dict[str, Any]) -> str:
    """The id that a point of this record has."""
    if own["kind"] == "head":
        return head_id(str(own["doc_id"]))
    if own["kind"] == "item":
        return item_id(str(own["doc_id"]))
    version = version_of(own)
    return section_id(version.doc_id, version.content_hash, version.recipe, int(own["ordinal"]))


def _kind(kind: str) -> models.Filter:
    same = models.MatchValue(value=kind)
    return models.Filter(must=[models.FieldCondition(key=f"{RECORD}.kind", match=same)])


def _pages(items: Iterable[Any]) -> Iterator[list[Any]]:
    source = iter(items)
    while page := list(islice(source, _AT_ONCE)):
        yield page
