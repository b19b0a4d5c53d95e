"""VectorStoreQuery -> a search of an index."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from llama_index.core.vector_stores.types import VectorStoreQuery, VectorStoreQueryMode
from qdrant_client import models

from lmk_integrations.errors import ConfigError
from lmk_integrations.llama_index.diversity import diverse
from lmk_integrations.llama_index.filters import all_of, of_documents, of_nodes, translate
from lmk_integrations.llama_index.nodes import stored_texts
from lmk_integrations.qdrant import HybridWeights, LandmarkIndex, SearchHit
from lmk_integrations.qdrant.queries import DEFAULT_PREFETCH, Mode

_MMR_FACTOR = 4
_MMR_THRESHOLD = 0.5
_OPTIONS = ("prefetch", "fusion", "qdrant_filters")
_BY_WORDS = (VectorStoreQueryMode.SPARSE, VectorStoreQueryMode.TEXT_SEARCH)
_MODES = (
    VectorStoreQueryMode.DEFAULT,
    VectorStoreQueryMode.HYBRID,
    VectorStoreQueryMode.MMR,
    *_BY_WORDS,
)


def ask(
    index: LandmarkIndex, query: VectorStoreQuery, default_mode: Mode, options: Mapping[str, Any]
) -> list[SearchHit]:
    """The hits of a query. Raises ConfigError for a mode or an option that there is not."""
    if unknown := sorted(set(options) - set(_OPTIONS)):
        raise ConfigError(
            f"query() does not know {', '.join(unknown)}; it takes {', '.join(_OPTIONS)}"
        )
    if query.mode not in _MODES:
        raise ConfigError(
            f"mode {query.mode.value!r} is not one of {', '.join(mode.value for mode in _MODES)}"
        )
    if query.embedding_field is not None:
        raise ConfigError(f"embedding_field={query.embedding_field!r}: a node has one embedding")
    search: dict[str, Any] = {
        "filter": all_of(
            translate(query.filters, partial(stored_texts, index)),
            of_documents(query.doc_ids) if query.doc_ids else None,
            of_nodes(query.node_ids) if query.node_ids else None,
            _own(options.get("qdrant_filters")),
        ),
        "prefetch": max(options.get("prefetch") or DEFAULT_PREFETCH, query.sparse_top_k or 0),
    }
    if query.mode in _BY_WORDS:
        return _by_words(index, query, search)
    search["vector"] = query.query_embedding
    if query.mode == VectorStoreQueryMode.HYBRID:
        return _hybrid(index, query, {**search, "fusion": options.get("fusion", "formula")})
    if query.mode == VectorStoreQueryMode.MMR:
        return _mmr(index, query, search)
    return index.search(query.query_str or "", query.similarity_top_k, mode=default_mode, **search)


def _by_words(
    index: LandmarkIndex, query: VectorStoreQuery, search: Mapping[str, Any]
) -> list[SearchHit]:
    if not query.query_str:
        raise ConfigError(f"mode {query.mode.value!r} needs query_str: it compares words")
    limit = query.sparse_top_k or query.similarity_top_k
    return index.search(query.query_str, limit, mode="bm25", **search)


def _hybrid(
    index: LandmarkIndex, query: VectorStoreQuery, search: Mapping[str, Any]
) -> list[SearchHit]:
    """alpha: 0 for words alone, 1 for vectors alone, None for the index's own weights."""
    alpha = query.alpha
    mode: Mode = "hybrid"
    weights: HybridWeights | None = None
    if alpha is not None:
        if not 0 <= alpha <= 1:
            raise ConfigError(f"alpha={alpha!r} must be from 0 (words) to 1 (vectors)")
        if alpha in (0, 1):
            mode = "landmark" if alpha else "bm25"
        elif search["fusion"] != "formula":
            raise ConfigError(f"alpha={alpha!r} weighs the formula; fusion={search['fusion']!r}")
        else:
            own = index.weights
            weights = replace(
                own,
                landmark_weight=2 * alpha * own.landmark_weight,
                bm25_weight=2 * (1 - alpha) * own.bm25_weight,
            )
    limit = query.hybrid_top_k or query.similarity_top_k
    return index.search(query.query_str or "", limit, mode=mode, weights=weights, **search)


def _mmr(
    index: LandmarkIndex, query: VectorStoreQuery, search: Mapping[str, Any]
) -> list[SearchHit]:
    """mmr_threshold: 1 for nearness alone, 0 for difference alone, None for a half of each."""
    threshold = _MMR_THRESHOLD if query.mmr_threshold is None else query.mmr_threshold
    if not 0 <= threshold <= 1:
        raise ConfigError(f"mmr_threshold={threshold!r} must be from 0 to 1")
    depth = max(_MMR_FACTOR * query.similarity_top_k, 20)
    hits = index.search(query.query_str or "", depth, mode="dense", **search)
    points = index.points([hit.id for hit in hits], with_vectors=True)
    return diverse(hits, points, query.similarity_top_k, threshold)


def _own(given: Any) -> models.Filter | None:
    if given is None or isinstance(given, models.Filter):
        return given
    raise ConfigError(f"qdrant_filters={given!r} must be a models.Filter; for others: filters=")
