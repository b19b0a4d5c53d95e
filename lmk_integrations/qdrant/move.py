"""A collection moved from one store to another as it is: nothing is encoded."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from qdrant_client import models

from lmk_integrations.errors import ConfigError, StoreError
from lmk_integrations.ingest.ids import head_id
from lmk_integrations.qdrant.aliases import resolve
from lmk_integrations.qdrant.client import StoreClient, call, write
from lmk_integrations.qdrant.edge import EdgeClient
from lmk_integrations.qdrant.move_pages import (
    KINDS,
    OTHER,
    Peek,
    PointId,
    groups,
    json_bytes,
    peeks,
    read,
)
from lmk_integrations.qdrant.move_points import (
    as_point,
    eight_bits,
    half_precision,
    same_payload,
    same_vectors,
)
from lmk_integrations.qdrant.move_target import prepare_target, source_identity
from lmk_integrations.qdrant.own_points import only
from lmk_integrations.qdrant.pieces import Pieces
from lmk_integrations.qdrant.schema import write_identity

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class CopyReport:
    """Counts of one copy; points, unless said otherwise.

    total: points of the source when the copy began. copied: written now. unchanged: found in the
    target as they are. removed: sections of versions that a document no longer has, and with
    ``prune`` everything else that the source does not have. only_in_target: what the target has
    beyond the source and was left alone. sections, heads, items, others: of the source, by kind.
    n_bytes: what the points copied weigh as JSON at the most. verified: counts and ids were
    compared.
    """

    source: str
    target: str
    total: int = 0
    copied: int = 0
    unchanged: int = 0
    removed: int = 0
    only_in_target: int = 0
    sections: int = 0
    heads: int = 0
    items: int = 0
    others: int = 0
    n_bytes: int = 0
    seconds: float = 0.0
    verified: bool = False
    interrupted: bool = False

    def to_dict(self) -> dict[str, Any]:
        """All counts as JSON values."""
        found: dict[str, Any] = {name: getattr(self, name) for name in self.__slots__}
        return {**found, "seconds": round(self.seconds, 3)}


def copy_collection(
    source_client: StoreClient,
    target_client: StoreClient,
    name: str,
    *,
    target_name: str | None = None,
    prune: bool = False,
    on_progress: Callable[[CopyReport], None] | None = None,
    stop: threading.Event | None = None,
) -> CopyReport:
    """Copy a collection with all its vectors, payloads, ids, indexes and its identity.

    The same call again copies what is missing or differs, so it resumes, and brings a copy up to
    date. Sections come before heads: an interrupted copy lists no document that is not whole.

    target_name: another name for it there. A collection that exists there must be of the same
        space; points that only it has stay, unless `prune`.
    prune: delete what the source does not have.
    on_progress: called with the growing report. stop: set it to end after the batch in flight.

    Raises SpaceMismatchError, StoreError for a target that does not fit, before anything is
    written; StoreError where the copy is not equal at the end; StoreUnreachableError.
    """
    new_name = name if target_name is None else target_name
    if _same_place(source_client, name, target_client, new_name):
        raise ConfigError(
            f"collection {name!r} cannot be copied onto itself; give another store or name"
        )
    started = time.monotonic()
    report = CopyReport(source=name, target=new_name)
    copy = _Copy(source_client, target_client, report, prune, on_progress, stop)
    try:
        copy.run()
    finally:
        report.seconds = time.monotonic() - started
    return report


class _Interrupted(Exception):  # noqa: N818 - no error
    """`stop` was set."""


@dataclass(slots=True)
class _Copy:
    source: StoreClient
    target: StoreClient
    report: CopyReport
    prune: bool
    on_progress: Callable[[CopyReport], None] | None
    stop: threading.Event | None
    dim: int = 0
    halves: set[str] = field(default_factory=set)
    coarse: set[str] = field(default_factory=set)
    kept: dict[str, int] = field(default_factory=lambda: dict.fromkeys((*KINDS, OTHER), 0))
    pieces: Pieces = field(init=False)

    def __post_init__(self) -> None:
        name = self.report.target
        self.pieces = Pieces(
            self.target,
            lambda batch, condition: self.target.upsert(
                name, points=batch, wait=True, update_filter=condition
            ),
        )

    def run(self) -> None:
        report = self.report
        identity = source_identity(self.source, report.source)
        self.dim = int(identity.space["dim"])
        found = prepare_target(self.source, report.source, self.target, report.target)
        here = self._params(self.source, report.source)
        there = self._params(self.target, report.target)
        self.halves = half_precision(here) & half_precision(there)
        self.coarse = eight_bits(here) | eight_bits(there)
        report.total = self._count(self.source, report.source, None)
        heads = only("head")
        try:
            # A document counts as stored once its head is there: heads go last.
            self._transfer(models.Filter(must_not=[heads]))
            self._transfer(heads)
            self._tidy()
            # Documents will be stored as in the source from now on, in the target's own datatype.
            following = replace(identity, landmark_datatype=found.landmark_datatype)
            if found != following:
                write_identity(self.target, report.target, following)
            self._verify()
        except _Interrupted:
            report.interrupted = True

    def _transfer(self, wanted: models.Filter) -> None:
        report = self.report
        for page in peeks(self.source, report.source, self.dim, wanted):
            for group in groups(page, _weight):
                self._check_stop()
                missing = self._missing(group)
                report.unchanged += len(group) - len(missing)
                found = read(self.source, report.source, missing, payload=True, vectors=True)
                for part in groups(found.values(), json_bytes):
                    self._write(part)
                    self._progress()
                self._progress()

    def _missing(self, group: list[Peek]) -> list[PointId]:
        """Those that the target does not have, or has otherwise."""
        ids = [peek.id for peek in group]
        there = read(self.target, self.report.target, ids, payload=True, vectors=False)
        here = read(self.source, self.report.source, list(there), payload=True, vectors=False)
        same = {
            key for key in here if same_payload(here[key].payload or {}, there[key].payload or {})
        }
        unsure = [peek.id for peek in group if peek.id in same and not peek.settled]
        if unsure:
            mine = read(self.source, self.report.source, unsure, payload=False, vectors=True)
            yours = read(self.target, self.report.target, unsure, payload=False, vectors=True)
            same -= {
                key
                for key in unsure
                if not (
                    key in mine
                    and key in yours
                    and same_vectors(mine[key], yours[key], self.coarse)
                )
            }
        return [point_id for point_id in ids if point_id not in same]

    def _write(self, records: list[models.Record]) -> None:
        points = [as_point(record, self.halves) for record in records]
        self.pieces.write(points)
        self.report.copied += len(points)
        self.report.n_bytes += sum(map(json_bytes, records))

    # -- what only the target has ------------------------------------------------------------

    def _tidy(self) -> None:
        """Remove sections that a document had before; count, or prune, what else is over."""
        for page in peeks(self.target, self.report.target, self.dim):
            self._check_stop()
            over = self._absent(page, self.source, self.report.source)
            doomed = over if self.prune else self._stale(over)
            gone = {peek.id for peek in doomed}
            for peek in over:
                if peek.id not in gone:
                    self.kept[peek.kind] += 1
            if doomed:
                self._delete(list(gone))
        self.report.only_in_target = sum(self.kept.values())

    def _stale(self, over: list[Peek]) -> list[Peek]:
        """Sections of documents that the source has complete, in another version."""
        sections = [peek for peek in over if peek.kind == "section" and peek.doc_id is not None]
        heads = {head_id(str(peek.doc_id)) for peek in sections}
        there = read(self.source, self.report.source, sorted(heads), payload=False, vectors=False)
        return [peek for peek in sections if head_id(str(peek.doc_id)) in there]

    def _delete(self, ids: list[PointId]) -> None:
        selector = models.PointIdsList(points=ids)
        name = self.report.target
        write(self.target, lambda: self.target.delete(name, points_selector=selector, wait=True))
        self.report.removed += len(ids)

    # -- the end -----------------------------------------------------------------------------

    def _verify(self) -> None:
        """Raise StoreError unless every point of the source is in the target, and no more."""
        report = self.report
        missing = 0
        counts = dict.fromkeys((*KINDS, OTHER), 0)
        for page in peeks(self.source, report.source, self.dim):
            self._check_stop()
            missing += len(self._absent(page, self.target, report.target))
            for peek in page:
                counts[peek.kind] += 1
        report.sections, report.heads = counts["section"], counts["head"]
        report.items, report.others = counts["item"], counts[OTHER]
        differing = [
            f"{kind}s: {counts[kind]} in the source, {found} in the target"
            for kind, found in self._target_counts()
            if found != counts[kind]
        ]
        if missing or differing:
            details = "; ".join(differing) or f"{missing} points are missing"
            raise StoreError(
                f"the copy of {report.source!r} is not equal to it ({details}): one of them was "
                "written to meanwhile. Copy again"
            )
        report.verified = True

    def _target_counts(self) -> Iterator[tuple[str, int]]:
        """Points of the target by kind, without those that only it has."""
        name = self.report.target
        total = self._count(self.target, name, None)
        for kind in KINDS:
            count = self._count(self.target, name, only(kind))
            total -= count
            yield kind, count - self.kept[kind]
        yield OTHER, total - self.kept[OTHER]

    def _absent(self, page: list[Peek], client: StoreClient, name: str) -> list[Peek]:
        ids = [peek.id for peek in page]
        there = read(client, name, ids, payload=False, vectors=False)
        return [peek for peek in page if peek.id not in there]

    @staticmethod
    def _params(client: StoreClient, name: str) -> models.CollectionParams:
        return call(client, lambda: client.get_collection(name)).config.params

    @staticmethod
    def _count(client: StoreClient, name: str, wanted: models.Filter | None) -> int:
        return int(call(client, lambda: client.count(name, count_filter=wanted, exact=True)).count)

    def _progress(self) -> None:
        if self.on_progress is not None:
            self.on_progress(self.report)

    def _check_stop(self) -> None:
        if self.stop is not None and self.stop.is_set():
            raise _Interrupted


def _weight(peek: Peek) -> int:
    return peek.n_bytes


def _same_place(source: StoreClient, name: str, target: StoreClient, new_name: str) -> bool:
    """Whether both are one collection, as far as this can be seen: servers have many addresses."""
    same = source is target
    if isinstance(source, EdgeClient) and isinstance(target, EdgeClient):
        same = source.path == target.path
    return same and resolve(source, name) == resolve(target, new_name)
