"""LMKRetriever: the passages of long documents that answer a query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    CallbackManagerForRetrieverRun,
)
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import ConfigDict, Field, PrivateAttr, SkipValidation
from qdrant_client import models

from lmk_integrations._adapters import Worker
from lmk_integrations.langchain.diversity import diverse
from lmk_integrations.langchain.options import refuse
from lmk_integrations.langchain.sections import query_vector
from lmk_integrations.qdrant import LandmarkIndex, SearchHit
from lmk_integrations.qdrant.queries import DEFAULT_PREFETCH, Mode

SearchType = Literal["hybrid", "dense", "landmark", "bm25", "document", "mmr"]

_PER_QUERY = (
    "search_type",
    "k",
    "fetch_k",
    "lambda_mult",
    "filter",
    "passage_tokens",
    "per_document",
)
_MMR_FETCH_K = 20


class LMKRetriever(BaseRetriever):
    """Passages of long documents, each with where it comes from.

    Setup:
        .. code-block:: bash

            pip install 'lmk-integrations[langchain]'

    Key init args:
        index: a `LandmarkIndex`; of an `LMKVectorStore` it is ``store.index``.
        search_type: "hybrid" (landmarks and BM25, the default), "dense", "landmark", "bm25",
            "document" (the best documents, each by its best passage) or "mmr" (of the best by
            "hybrid" those that are unlike each other).
        k: the number of passages.
        fetch_k: candidates that are ranked in full; None: 128, and 20 for "mmr".
        lambda_mult: of "mmr": 1 for nearness alone, 0 for difference alone.
        filter: ``{"source": "a.pdf", "page": {"gte": 3}}`` over metadata, or a Qdrant filter.
        passage_tokens: the most tokens of a passage; None: as the index has it.
        per_document: the most passages of one document; None: as many as are good.

        All but ``index`` can be given for a single query, too: ``retriever.invoke(query, k=2)``.

    Instantiate:
        .. code-block:: python

            from lmk_integrations import LandmarkIndex, LMKEncoder
            from lmk_integrations.langchain import LMKRetriever

            retriever = LMKRetriever(index=LandmarkIndex("./store", "library", LMKEncoder()), k=3)

    Use:
        .. code-block:: python

            for passage in retriever.invoke("Who built the bridge?"):
                print(passage.metadata["source"], passage.metadata["page"], passage.page_content)

    ``page_content`` is ``document[start:end]``: the best landmarks with the sentences around them.
    ``metadata`` is that of the document with, over it: ``document_id``, ``score`` (by the search
    type), ``start`` and ``end`` (characters), and, where they are known, ``source``, ``title``,
    ``heading`` and ``page``. ``id`` is the section's.

    Raises ConfigError for keyword arguments that it does not know, pydantic's ValidationError for
    options that cannot work, StoreError where there is no collection yet.
    """

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)

    index: LandmarkIndex = Field(exclude=True, repr=False)
    search_type: SearchType = "hybrid"
    k: int = Field(default=4, ge=1)
    fetch_k: int | None = Field(default=None, ge=1)
    lambda_mult: float = Field(default=0.5, ge=0, le=1)
    # As it is: a mapping may look like a Filter to pydantic. The index checks it.
    filter: SkipValidation[models.Filter | Mapping[str, Any] | None] = None
    passage_tokens: int | None = Field(default=None, ge=1)
    per_document: int | None = Field(default=None, ge=1)

    _worker: Worker = PrivateAttr(default_factory=Worker)

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **options: Any
    ) -> list[Document]:
        return [passage_document(hit) for hit in self._with(options)._hits(query)]

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **options: Any
    ) -> list[Document]:
        asked = self._with(options)
        hits = await self._worker.run(lambda _: asked._hits(query))
        return [passage_document(hit) for hit in hits]

    def _with(self, options: Mapping[str, Any]) -> LMKRetriever:
        """This retriever with other options for one query, checked like its own."""
        if not options:
            return self
        unknown = {name: value for name, value in options.items() if name not in _PER_QUERY}
        refuse("LMKRetriever", unknown, _PER_QUERY)
        own = {name: getattr(self, name) for name in _PER_QUERY}
        return LMKRetriever(index=self.index, **{**own, **options})

    def _hits(self, query: str) -> list[SearchHit]:
        vector = None if self.search_type == "bm25" else query_vector(self.index, query)
        if self.search_type != "mmr":
            return self._ranked(query, vector, self.search_type, self.k)
        assert vector is not None
        wanted = max(self.k, self.fetch_k or _MMR_FETCH_K)
        hits = self._ranked(query, vector, "hybrid", wanted)
        return diverse(self.index, hits, vector, self.k, self.lambda_mult)

    def _ranked(
        self, query: str, vector: Sequence[float] | None, mode: Mode, count: int
    ) -> list[SearchHit]:
        return self.index.search(
            query,
            count,
            vector=vector,
            mode=mode,
            filter=self.filter,
            per_document=self.per_document,
            prefetch=max(self.fetch_k or DEFAULT_PREFETCH, count),
            passage_tokens=self.passage_tokens,
        )


def passage_document(hit: SearchHit) -> Document:
    """A hit's passage, with the document's metadata and its own place in the document."""
    passage = hit.passage
    known: dict[str, Any] = {
        "source": hit.source,
        "title": hit.title,
        "heading": passage.heading,
        "page": _page(passage.page),
    }
    return Document(
        id=hit.id,
        page_content=passage.text,
        metadata={
            **hit.given,
            **{name: value for name, value in known.items() if value is not None},
            "document_id": hit.doc_id,
            "start": passage.start,
            "end": passage.end,
            "score": hit.score,
        },
    )


def _page(label: str | None) -> int | str | None:
    """A page as filters have it: "12" is a number, "iv" is not."""
    return int(label) if label is not None and label.isascii() and label.isdigit() else label
