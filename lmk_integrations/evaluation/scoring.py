"""Scores of all documents for all queries, with memory for queries x documents and one block."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from lmk_integrations.evaluation.methods import Method
from lmk_integrations.evaluation.sources import DocumentVectors

Floats = NDArray[np.float32]

BLOCK_ROWS = 4096
"""Vectors of documents that are scored at once; a document is never split."""


class _Table:
    """The scores of one method, filled block by block."""

    def __init__(self, method: Method, queries: Floats, n_documents: int) -> None:
        self.scores = np.empty((len(queries), n_documents), np.float32)
        self._method = method
        self._queries = queries
        self._held: list[Floats] = []
        self._rows = 0
        self._done = 0

    def add(self, document: DocumentVectors) -> None:
        candidates = self._method.candidates(document.vector, document.rows)
        self._held.append(candidates)
        self._rows += len(candidates)
        if self._rows >= BLOCK_ROWS:
            self.flush()

    def flush(self) -> None:
        if not self._held:
            return
        starts = np.cumsum([0] + [len(part) for part in self._held[:-1]], dtype=np.int64)
        scores = self._queries @ np.concatenate(self._held).T
        stop = self._done + len(self._held)
        self.scores[:, self._done : stop] = self._method.reduce(scores, starts)
        self._held, self._rows, self._done = [], 0, stop


def score_documents(
    methods: Sequence[Method],
    queries: Floats,
    documents: Iterable[DocumentVectors],
    n_documents: int,
) -> dict[str, Floats]:
    """(n_queries, n_documents) float32 scores by each method's name.

    queries: (n_queries, dim) of unit length; documents: ``n_documents`` of them, read once.
    """
    tables = {method.name: _Table(method, queries, n_documents) for method in methods}
    for document in documents:
        for table in tables.values():
            table.add(document)
    for table in tables.values():
        table.flush()
    return {name: table.scores for name, table in tables.items()}


def best_documents(scores: Floats, most: int, *, above: float = -np.inf) -> Iterator[list[int]]:
    """For each query the documents with the best scores, at most ``most``, best first.

    scores: (n_queries, n_documents). Of equal scores the earlier document comes first; scores
    that are not above ``above`` are left out.
    """
    for row in scores:
        order = np.argsort(-row, kind="stable")[:most]
        yield order[row[order] > above].tolist()
