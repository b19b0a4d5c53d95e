"""LMKRetriever: passages of a LandmarkIndex as LlamaIndex nodes."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.callbacks import CallbackManager
from llama_index.core.constants import DEFAULT_SIMILARITY_TOP_K
from llama_index.core.schema import (
    IndexNode,
    NodeRelationship,
    NodeWithScore,
    QueryBundle,
    TextNode,
)
from llama_index.core.vector_stores.types import MetadataFilters
from qdrant_client import models

from lmk_integrations._adapters import Worker
from lmk_integrations.errors import ConfigError
from lmk_integrations.llama_index.filters import translate
from lmk_integrations.llama_index.nodes import source_info, stored_texts
from lmk_integrations.qdrant import LandmarkIndex, SearchHit
from lmk_integrations.qdrant.queries import DEFAULT_PREFETCH, FUSIONS, MODES, Fusion, Mode

_NAMESPACE = uuid.UUID("3b0c7b62-93c1-5b0e-8f57-6a8f0d5c2e41")

Filters = MetadataFilters | models.Filter | Mapping[str, Any]


class LMKRetriever(BaseRetriever):
    """Retrieves passages: the best stretch of each section found, in whole sentences.

    Each is a TextNode with exact ``start_char_idx`` and ``end_char_idx`` in its document, the
    document as SOURCE, and as metadata the document's own with source, title, heading and page
    where known; its id is the same for the same passage.

    index: a LandmarkIndex; `LMKVectorStore.index` is one.
    similarity_top_k: passages at most. per_document: at most so many of one document; None: all.
    mode: "hybrid", "dense", "landmark", "bm25", or "document" (documents first, then the best
        passage of each). fusion: how "hybrid" combines. prefetch: candidates of each arm.
    filters: LlamaIndex's MetadataFilters, a plain mapping such as ``{"page": {"gte": 3}}``, or a
        models.Filter.
    passage_tokens: a passage's most tokens; None: as the index says.
    callback_manager, object_map, objects, verbose: as in `BaseRetriever`.
    Raises ConfigError for a setting that cannot work.
    """

    def __init__(
        self,
        index: LandmarkIndex,
        *,
        similarity_top_k: int = DEFAULT_SIMILARITY_TOP_K,
        mode: Mode = "hybrid",
        filters: Filters | None = None,
        passage_tokens: int | None = None,
        per_document: int | None = None,
        prefetch: int = DEFAULT_PREFETCH,
        fusion: Fusion = "formula",
        callback_manager: CallbackManager | None = None,
        object_map: dict[str, Any] | None = None,
        objects: list[IndexNode] | None = None,
        verbose: bool = False,
    ) -> None:
        if not isinstance(index, LandmarkIndex):
            raise ConfigError(
                f"index={index!r} must be a LandmarkIndex; that of a store is LMKVectorStore.index"
            )
        for name, value, choices in (("mode", mode, MODES), ("fusion", fusion, FUSIONS)):
            if value not in choices:
                raise ConfigError(f"{name}={value!r} is not one of {', '.join(choices)}")
        numbers = {
            "similarity_top_k": similarity_top_k,
            "prefetch": prefetch,
            "passage_tokens": 1 if passage_tokens is None else passage_tokens,
            "per_document": 1 if per_document is None else per_document,
        }
        for name, number in numbers.items():
            if isinstance(number, bool) or not isinstance(number, int) or number < 1:
                raise ConfigError(f"{name}={number!r} must be a whole number of at least 1")
        super().__init__(callback_manager, object_map, objects, verbose)
        self.index = index
        self.similarity_top_k = similarity_top_k
        self._filters = filters
        self._search: dict[str, Any] = {
            "mode": mode,
            "fusion": fusion,
            "passage_tokens": passage_tokens,
            "per_document": per_document,
            "prefetch": prefetch,
        }
        self._worker = Worker()

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        hits = self.index.search(
            query_bundle.query_str,
            self.similarity_top_k,
            vector=self._vector(query_bundle),
            filter=self._filter(),
            **self._search,
        )
        return [passage_node(hit) for hit in hits]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await self._worker.run(lambda _: self._retrieve(query_bundle))

    def _vector(self, query: QueryBundle) -> Sequence[float] | None:
        """The query's own vector, or that of the texts to embed in its place (HyDE)."""
        if query.embedding is not None or not query.custom_embedding_strs:
            return query.embedding
        if self._search["mode"] == "bm25":
            return None
        if self.index.encoder is None:
            raise ConfigError("custom_embedding_strs need an encoder: LandmarkIndex(…, encoder)")
        mean: list[float] = np.mean(
            self.index.encoder.encode_queries(query.custom_embedding_strs), axis=0
        ).tolist()
        return mean

    def _filter(self) -> models.Filter | Mapping[str, Any] | None:
        if isinstance(self._filters, MetadataFilters):
            return translate(self._filters, partial(stored_texts, self.index))
        return self._filters


def passage_node(hit: SearchHit) -> NodeWithScore:
    """A hit's passage as a node: what `LMKRetriever` returns."""
    passage = hit.passage
    known = {
        "source": hit.source,
        "title": hit.title,
        "heading": passage.heading,
        "page": _page(passage.page),
    }
    own = {key: value for key, value in known.items() if value is not None}
    metadata = {**hit.given, **own}
    name = json.dumps([hit.id, passage.start, passage.end, passage.text])
    node = TextNode(
        id_=str(uuid.uuid5(_NAMESPACE, name)),
        text=passage.text,
        start_char_idx=passage.start,
        end_char_idx=passage.end,
        metadata=metadata,
        excluded_embed_metadata_keys=sorted(metadata),
        relationships={NodeRelationship.SOURCE: source_info(hit.doc_id)},
    )
    return NodeWithScore(node=node, score=hit.score)


def _page(label: str | None) -> int | str | None:
    """A page as filters have it: "12" is a number, "iv" is not."""
    return int(label) if label is not None and label.isascii() and label.isdigit() else label
