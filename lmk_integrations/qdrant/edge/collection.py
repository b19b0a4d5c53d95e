"""One open collection: the engine's shard, guarded and counted."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import qdrant_edge as qe
from qdrant_client.http import models

from lmk_integrations.errors import StoreError
from lmk_integrations.qdrant.edge.convert_config import vector_fields
from lmk_integrations.qdrant.edge.convert_point import to_edge_point
from lmk_integrations.qdrant.edge.engine import engine_call
from lmk_integrations.qdrant.edge.optimize import optimize_in_child
from lmk_integrations.qdrant.edge.validate import PreparedPoint, SparseArray

logger = logging.getLogger(__name__)

# The engine frees its write-ahead log on flush only. Flushing now and then bounds both the log
# on disk and the time to replay it after a crash.
_FLUSH_AFTER_BYTES = 64 << 20
# The engine builds an index over 10 MB of vectors and more; for less a child is not worth it.
_OPTIMIZE_AFTER_BYTES = 8 << 20


class EdgeCollection:
    """A shard with the vectors it holds.

    One lock per collection serialises calls into the engine. That costs no parallelism: the
    binding keeps Python's global lock during every call anyway.
    """

    def __init__(
        self,
        name: str,
        params: models.CollectionParams,
        shard: qe.EdgeShard,
        *,
        stale_statistics: bool,
        on_stale: Callable[[], None],
        before_write: Callable[[int], None],
    ) -> None:
        self.name = name
        self.params = params
        self.fields = vector_fields(params)
        self.stale_statistics = stale_statistics
        self._on_stale = on_stale
        self._before_write = before_write
        self._shard = shard
        self._mutex = threading.RLock()
        self._unflushed = 0
        self._unoptimized = 0
        self._busy: str | None = None
        self._closed = False

    # -- writing

    def upsert(
        self, points: Sequence[PreparedPoint], condition: qe.Filter | None, mode: Any
    ) -> None:
        """Write checked points, in one operation of the engine."""
        edge_points = [to_edge_point(point) for point in points]
        written = sum(_vector_bytes(point) for point in points)
        with self._turn():
            self._before_write(written)
            if self._makes_statistics_stale(points):
                self._mark_stale()
            self._apply(
                qe.UpdateOperation.upsert_points(edge_points, condition, mode), "Upserting into"
            )
            self._unflushed += written
            self._unoptimized += written
            if self._unflushed >= _FLUSH_AFTER_BYTES:
                self.flush()

    def update(self, operation: qe.UpdateOperation, what: str, removes_vectors: bool) -> None:
        """Apply one operation. what: how the error begins, such as ``"Deleting from"``."""
        with self._turn():
            if removes_vectors:
                self._mark_stale()
            self._apply(operation, what)

    def _apply(self, operation: qe.UpdateOperation, what: str) -> None:
        with engine_call(f"{what} collection {self.name!r}"):
            self._alive().update(operation)

    def _makes_statistics_stale(self, points: Sequence[PreparedPoint]) -> bool:
        """Whether IDF from the engine's index would differ from IDF over the live points."""
        if self.stale_statistics or not self._idf_names():
            return False
        ids: list[Any] = list({point.id for point in points})
        if len(ids) < len(points) or self._has_empty_sparse(points):
            return True
        return bool(self.retrieve(ids, False, False))

    def _idf_names(self) -> list[str]:
        return [name for name, field in self.fields.items() if field.idf]

    def _has_empty_sparse(self, points: Sequence[PreparedPoint]) -> bool:
        # An empty vector is in the collection but not in the index.
        return any(
            isinstance(vector, SparseArray) and not vector.indices.size
            for point in points
            for vector in point.vectors.values()
        )

    def _mark_stale(self) -> None:
        # Durable before the write it announces: a crash in between costs speed, not equality.
        if not self.stale_statistics and self._idf_names():
            self._on_stale()
            self.stale_statistics = True

    # -- reading

    def query(self, request: qe.QueryRequest) -> list[Any]:
        """Scored points of one request."""
        with self._turn(), engine_call(f"Querying collection {self.name!r}"):
            return self._alive().query(request)

    def scroll(self, request: qe.ScrollRequest) -> tuple[list[Any], Any]:
        """Records, and the id to go on with."""
        with self._turn(), engine_call(f"Scrolling through collection {self.name!r}"):
            return self._alive().scroll(request)

    def retrieve(self, ids: list[Any], with_payload: Any, with_vectors: Any) -> list[Any]:
        """The records that exist among `ids`, each once, in the engine's order."""
        with self._turn(), engine_call(f"Retrieving from collection {self.name!r}"):
            return self._alive().retrieve(ids, with_payload, with_vectors)

    def count(self, condition: qe.Filter | None, exact: bool) -> int:
        """Number of points that match."""
        with self._turn(), engine_call(f"Counting in collection {self.name!r}"):
            return self._alive().count(qe.CountRequest(exact=exact, filter=condition))

    def facet(self, request: qe.FacetRequest) -> qe.FacetResponse:
        """Values of an indexed payload field, with their numbers of points."""
        with self._turn(), engine_call(f"Faceting collection {self.name!r}"):
            return self._alive().facet(request)

    def info(self) -> qe.ShardInfo:
        """The engine's own figures."""
        with self._turn(), engine_call(f"Reading the state of collection {self.name!r}"):
            return self._alive().info()

    # -- upkeep

    def optimize(self) -> bool:
        """Merge segments and build indexes; blocks. True when anything was done."""
        with self._turn(), engine_call(f"Optimizing collection {self.name!r}"):
            return self._alive().optimize()

    @property
    def is_worth_optimizing(self) -> bool:
        """Whether enough was written here, since it was opened or optimized, to gain by it."""
        return self._unoptimized >= _OPTIMIZE_AFTER_BYTES

    def optimize_apart(self, directory: Path) -> bool:
        """As `optimize`, in a child process: the shard is closed, and opened again behind it.

        The threads of this process go on; those that need this collection wait, and say so in the
        log. Returns whether the child came to its end; if not, all that was stored is there still.
        """
        with self._turn():
            self.flush()
            with engine_call(f"Closing collection {self.name!r} to optimize it"):
                self._alive().close()
            self._busy = "is being optimized"
            try:
                done = optimize_in_child(directory)
            finally:
                self._busy = None
                with engine_call(f"Opening collection {self.name!r} again"):
                    self._shard = qe.EdgeShard.load(str(directory))
            self._unoptimized = 0
            return done

    @contextmanager
    def still(self) -> Iterator[None]:
        """Within the block nothing is written, and all that was is in the files."""
        with self._turn():
            self.flush()
            self._busy = "is being backed up"
            try:
                yield
            finally:
                self._busy = None

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """This thread's turn at the shard. Who has to wait for long is told why."""
        if not self._mutex.acquire(blocking=False):
            if (busy := self._busy) is not None:
                logger.warning("collection %r %s; this call waits for it", self.name, busy)
            self._mutex.acquire()
        try:
            yield
        finally:
            self._mutex.release()

    def flush(self) -> None:
        """Put everything written so far into the segments on disk."""
        with self._turn(), engine_call(f"Flushing collection {self.name!r}"):
            self._alive().flush()
            self._unflushed = 0

    def close(self) -> None:
        """Flush and close the shard. Idempotent."""
        with self._turn():
            if self._closed:
                return
            self._closed = True
            with engine_call(f"Closing collection {self.name!r}"):
                self._shard.flush()
                self._shard.close()

    def _alive(self) -> qe.EdgeShard:
        if self._closed:
            raise StoreError(f"Collection {self.name!r} was deleted or its store closed.")
        return self._shard


def _vector_bytes(point: PreparedPoint) -> int:
    return sum(
        8 * vector.indices.size if isinstance(vector, SparseArray) else vector.nbytes
        for vector in point.vectors.values()
    )
