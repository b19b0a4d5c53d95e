"""From a query to hits: rank sections, then find the best passage in each of the few shown."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from qdrant_client import models

from lmk_integrations.core.passages import best_run, grow_to_sentences
from lmk_integrations.qdrant.client import StoreClient, call
from lmk_integrations.qdrant.hits import Passage, SearchHit
from lmk_integrations.qdrant.points import given_metadata
from lmk_integrations.qdrant.queries import Fusion, HybridWeights, Mode, QueryParts, build_query
from lmk_integrations.qdrant.schema import LANDMARKS, LMK, RECORD
from lmk_integrations.text.structure import sentence_starts

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]

# A document's best section is looked for in rounds of growing depth until enough are found.
_DEPTH_GROWTH = 4


class Searcher:
    """Searches one collection with queries that are already encoded."""

    def __init__(self, client: StoreClient, collection: str) -> None:
        self._client = client
        self._collection = collection

    def run(
        self,
        parts: QueryParts,
        *,
        limit: int,
        mode: Mode,
        fusion: Fusion,
        weights: HybridWeights,
        per_document: int | None,
        passage_tokens: int,
    ) -> list[SearchHit]:
        """Up to ``limit`` hits, best first."""
        if mode == "document":
            ranked = self._by_document(parts, limit)
        elif per_document is not None:
            ranked = self._grouped(
                # More candidates each round: those of a few long documents may be all there are.
                lambda depth: build_query(
                    mode, fusion, weights, replace(parts, prefetch=max(parts.prefetch, depth))
                ),
                limit,
                per_document,
            )
        else:
            ranked = self._query(build_query(mode, fusion, weights, parts), limit)
        shown = [point.id for point in ranked] if parts.vector and parts.landmarks else []
        vectors = self._landmarks(shown)
        query = np.asarray(parts.vector, np.float32) if parts.vector else None
        return [
            to_hit(point, query, vectors.get(str(point.id)), passage_tokens) for point in ranked
        ]

    def _query(self, arguments: Mapping[str, Any], limit: int) -> list[models.ScoredPoint]:
        response = call(
            self._client,
            lambda: self._client.query_points(
                self._collection, limit=limit, with_payload=True, **arguments
            ),
        )
        return list(response.points)

    def _grouped(
        self, query_at: Callable[[int], Mapping[str, Any]], limit: int, per_document: int = 1
    ) -> list[models.ScoredPoint]:
        """The best few sections of each document, ranked. query_at: the query for so many."""
        depth = limit * _DEPTH_GROWTH
        while True:
            points = self._query(query_at(depth), depth)
            seen: Counter[str] = Counter()
            best = []
            for point in points:
                seen[doc_id_of(point)] += 1
                if seen[doc_id_of(point)] <= per_document:
                    best.append(point)
            if len(best) >= limit or len(points) < depth:
                return best[:limit]
            depth *= _DEPTH_GROWTH

    def _by_document(self, parts: QueryParts, limit: int) -> list[models.ScoredPoint]:
        """Rank documents by their whole vector; show each by its best section.

        A filter chooses documents by their metadata, not sections.
        """
        heads = self._query(build_query("document", "formula", HybridWeights(), parts), limit)
        doc_ids = [doc_id_of(head) for head in heads]
        inside = models.FieldCondition(key=f"{RECORD}.doc_id", match=models.MatchAny(any=doc_ids))
        if not doc_ids:
            return []
        arguments = {
            "query": [parts.vector] if parts.landmarks else parts.vector,
            "using": LANDMARKS if parts.landmarks else LMK,
            "query_filter": models.Filter(must=[inside]),
        }
        shown = self._grouped(lambda _: arguments, len(doc_ids))
        best = {doc_id_of(point): point for point in shown}
        return [
            best[doc_id].model_copy(update={"score": head.score})
            for doc_id, head in zip(doc_ids, heads, strict=True)
            if doc_id in best
        ]

    def _landmarks(self, ids: Sequence[Any]) -> dict[str, Floats]:
        """The landmark rows of the few points shown: too heavy to fetch for all candidates."""
        if not ids:
            return {}
        records = call(
            self._client,
            lambda: self._client.retrieve(
                self._collection, list(ids), with_payload=False, with_vectors=[LANDMARKS]
            ),
        )
        found = {}
        for record in records:
            vectors = record.vector
            rows = vectors.get(LANDMARKS) if isinstance(vectors, dict) else None
            if rows is not None:
                found[str(record.id)] = np.asarray(rows, np.float32)
        return found


def doc_id_of(point: models.ScoredPoint | models.Record) -> str:
    """The document a point belongs to; a point that something else wrote is its own document."""
    payload = point.payload or {}
    own = payload.get(RECORD) or {}
    return str(own.get("of") or own.get("doc_id") or payload.get("doc_id") or point.id)


def to_hit(
    point: models.ScoredPoint, query: Floats | None, rows: Floats | None, passage_tokens: int
) -> SearchHit:
    """A ranked point as a hit. query, rows: None where there are none to compare."""
    payload = point.payload or {}
    own = payload.get(RECORD) or {}
    text, metadata = _content(payload)
    start = int(own.get("start", 0))
    ends = np.asarray(own.get("ends", [start + len(text)]), np.int64)
    spans = np.stack([np.concatenate([[start], ends[:-1]]), ends], axis=1)
    if query is not None and rows is not None and len(rows) == len(spans):
        scores = (rows @ (query / max(float(np.linalg.norm(query)), 1e-12))).astype(np.float32)
        terms = scores * np.asarray(own.get("shares", np.zeros(len(rows))), np.float32)
    else:
        scores = terms = np.zeros(0, np.float32)
    tokens = np.asarray(own.get("tokens", [1]), np.int64)
    return SearchHit(
        score=float(point.score),
        id=str(point.id),
        doc_id=doc_id_of(point),
        title=metadata.get("title"),
        source=metadata.get("source"),
        section=int(own.get("ordinal", 0)),
        heading=own.get("heading"),
        page=own.get("page"),
        text=text,
        start=start,
        end=int(ends[-1]),
        passage=_placed(_passage(text, spans, tokens, scores, passage_tokens), own),
        landmark_scores=scores,
        landmark_terms=terms,
        landmark_spans=spans,
        metadata=metadata,
        given=given_metadata(payload) if own else metadata,
        recipe=own.get("recipe"),
    )


def _content(payload: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """A point's text and metadata, where LangChain's store and ours keep them, or LlamaIndex's."""
    if "page_content" in payload or "_node_content" not in payload:
        return str(payload.get("page_content") or ""), payload.get("metadata") or {}
    try:
        node = json.loads(payload["_node_content"])
    except (TypeError, ValueError):  # another store wrote it, in a way of its own
        node = {}
    node = node if isinstance(node, dict) else {}
    return str(node.get("text") or payload.get("text") or ""), node.get("metadata") or {}


def _placed(passage: Passage, own: Mapping[str, Any]) -> Passage:
    """The passage with the heading and the page that it begins under."""
    found = {"heading": own.get("heading"), "page": own.get("page")}
    for start, kind, label in own.get("marks", ()):
        if start <= passage.start:
            found[kind] = label
    return replace(passage, heading=found["heading"], page=found["page"])


def _passage(text: str, spans: Ints, tokens: Ints, scores: Floats, passage_tokens: int) -> Passage:
    """The best run of landmarks, grown to sentences; without landmarks the section's beginning.

    The run takes half of the tokens at most: the sentences it begins and ends in need room.
    """
    first, stop = best_run(scores, tokens, passage_tokens // 2) if len(scores) else (0, 1)
    start = int(spans[0, 0])
    widened = grow_to_sentences(
        (int(spans[first, 0]), int(spans[stop - 1, 1])),
        sentence_starts(text) + start,
        spans,
        tokens,
        passage_tokens,
    )
    piece = text[widened[0] - start : widened[1] - start]
    kept = piece.strip()
    begin = widened[0] + len(piece) - len(piece.lstrip())
    return Passage(kept, begin, begin + len(kept), float(scores.max()) if len(scores) else None)
