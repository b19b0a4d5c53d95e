"""BM25 over sections: the terms of this package's collections and Qdrant's IDF, without a store."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from lmk_integrations.encoder import LMKEncoder, SectionEncoding, StreamItem, TextDone
from lmk_integrations.qdrant.bm25 import Bm25Encoder

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]


def bm25_scores(
    encoder: LMKEncoder,
    queries: Sequence[str],
    texts: Sequence[str],
    progress: Callable[[int], None] | None = None,
) -> Floats:
    """(n_queries, n_documents) float32: each document's best section; 0 where no term matches.

    encoder: its tokenizer cuts the sections, at the size and places that an ingest would choose.
    progress: called with the number of documents read.
    """
    sections, owners = _sections(encoder, texts, progress)
    lengths = [len(text.split()) for text in sections]
    bm25 = Bm25Encoder(avg_len=max(1.0, float(np.mean(lengths))))
    postings = _Postings(bm25, sections)
    # Sections come in the order of their documents, and every document has at least one.
    starts = np.searchsorted(owners, np.arange(len(texts)))
    scores = np.empty((len(queries), len(texts)), np.float32)
    for number, query in enumerate(queries):
        of_sections = postings.scores(bm25.encode_query(query).indices)
        scores[number] = np.maximum.reduceat(of_sections, starts)
    return scores


def _sections(
    encoder: LMKEncoder, texts: Sequence[str], progress: Callable[[int], None] | None
) -> tuple[list[str], Ints]:
    """The texts of all sections, and the index of the document that each comes from."""
    sections: list[str] = []
    owners: list[int] = []
    items = (StreamItem(text) for text in texts)
    for event in encoder.plan_only(items, encoder.default_section_tokens):
        if isinstance(event, SectionEncoding):
            sections.append(event.text)
            owners.append(event.index)
        elif isinstance(event, TextDone):
            if progress is not None:
                progress(event.index + 1)
        else:
            raise event.error
    return sections, np.array(owners, np.int64)


class _Postings:
    """Which sections hold a term, with what weight."""

    def __init__(self, bm25: Bm25Encoder, sections: Sequence[str]) -> None:
        vectors = [bm25.encode_document(text) for text in sections]
        self._n_sections = len(sections)
        # As Qdrant counts: a section without terms has no sparse vector.
        self._n_indexed = sum(1 for vector in vectors if vector.indices)
        counts = [len(vector.indices) for vector in vectors]
        terms = np.concatenate([np.array(vector.indices, np.int64) for vector in vectors])
        order = np.argsort(terms, kind="stable")
        self._terms = terms[order]
        self._places = np.repeat(np.arange(len(vectors)), counts)[order]
        self._weights = np.concatenate([np.array(v.values, np.float64) for v in vectors])[order]

    def scores(self, terms: Sequence[int]) -> Floats:
        """(n_sections,) the sum over a query's distinct terms of weight x IDF."""
        scores = np.zeros(self._n_sections, np.float64)
        for term in terms:
            first, stop = np.searchsorted(self._terms, [term, term + 1])
            found = int(stop - first)
            idf = np.log1p((self._n_indexed - found + 0.5) / (found + 0.5))
            scores[self._places[first:stop]] += idf * self._weights[first:stop]
        return scores.astype(np.float32)
