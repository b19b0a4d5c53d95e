"""The async half of a vector store: its sync methods, run off the event loop."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import VectorStore
from typing_extensions import Self

from lmk_integrations._adapters import Cancelled, Worker
from lmk_integrations.langchain.adding import Text, of_documents, of_texts
from lmk_integrations.langchain.options import refuse


class AsyncVectorStore(VectorStore):
    """Every async method on a thread of the object's own; searches do not wait for writes.

    When an awaiting task is cancelled, adding ends after the batch in flight.
    """

    def __init__(self) -> None:
        self._reads = Worker()
        self._writes = Worker()

    @abstractmethod
    def _add(self, texts: Iterable[Text], cancelled: Cancelled | None = None) -> list[str]:
        """Store texts; poll ``cancelled`` between batches."""

    async def aadd_texts(
        self,
        texts: Iterable[str],
        metadatas: Sequence[Mapping[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        batch_size: int | None = None,
        **unknown: Any,
    ) -> list[str]:
        """As `add_texts`."""
        refuse("aadd_texts", unknown, ("texts", "metadatas", "ids"))
        found = of_texts(texts, metadatas, ids)
        return await self._writes.run(lambda cancelled: self._add(found, cancelled))

    async def aadd_documents(
        self,
        documents: Iterable[Document],
        *,
        ids: Sequence[str | None] | None = None,
        batch_size: int | None = None,
        **unknown: Any,
    ) -> list[str]:
        """As `add_documents`."""
        refuse("aadd_documents", unknown, ("documents", "ids"))
        found = of_documents(documents, ids)
        return await self._writes.run(lambda cancelled: self._add(found, cancelled))

    async def adelete(self, ids: list[str] | None = None, **unknown: Any) -> bool | None:
        """As `delete`."""
        return await self._writes.run(lambda _: self.delete(ids, **unknown))

    async def aget_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """As `get_by_ids`."""
        return await self._reads.run(lambda _: self.get_by_ids(ids))

    async def asimilarity_search(self, query: str, k: int = 4, **options: Any) -> list[Document]:
        """As `similarity_search`."""
        return await self._reads.run(lambda _: self.similarity_search(query, k, **options))

    async def asimilarity_search_with_score(
        self, query: str, k: int = 4, **options: Any
    ) -> list[tuple[Document, float]]:
        """As `similarity_search_with_score`."""
        return await self._reads.run(
            lambda _: self.similarity_search_with_score(query, k, **options)
        )

    async def _asimilarity_search_with_relevance_scores(
        self, query: str, k: int = 4, **options: Any
    ) -> list[tuple[Document, float]]:
        return await self._reads.run(
            lambda _: self._similarity_search_with_relevance_scores(query, k, **options)
        )

    async def asimilarity_search_by_vector(
        self, embedding: list[float], k: int = 4, **options: Any
    ) -> list[Document]:
        """As `similarity_search_by_vector`."""
        return await self._reads.run(
            lambda _: self.similarity_search_by_vector(embedding, k, **options)
        )

    async def amax_marginal_relevance_search(
        self, query: str, k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **options: Any
    ) -> list[Document]:
        """As `max_marginal_relevance_search`."""
        return await self._reads.run(
            lambda _: self.max_marginal_relevance_search(query, k, fetch_k, lambda_mult, **options)
        )

    async def amax_marginal_relevance_search_by_vector(
        self,
        embedding: list[float],
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        **options: Any,
    ) -> list[Document]:
        """As `max_marginal_relevance_search_by_vector`."""
        return await self._reads.run(
            lambda _: self.max_marginal_relevance_search_by_vector(
                embedding, k, fetch_k, lambda_mult, **options
            )
        )

    @classmethod
    async def afrom_texts(
        cls,
        texts: Iterable[str],
        embedding: Embeddings,
        metadatas: Sequence[Mapping[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        **options: Any,
    ) -> Self:
        """As `from_texts`."""
        store = await asyncio.to_thread(cls._opened, embedding, **options)
        await store.aadd_texts(texts, metadatas, ids=ids)
        return store

    @classmethod
    async def afrom_documents(
        cls,
        documents: Iterable[Document],
        embedding: Embeddings,
        *,
        ids: Sequence[str | None] | None = None,
        **options: Any,
    ) -> Self:
        """As `from_documents`."""
        store = await asyncio.to_thread(cls._opened, embedding, **options)
        await store.aadd_documents(documents, ids=ids)
        return store

    @classmethod
    @abstractmethod
    def _opened(cls, embedding: Embeddings, **options: Any) -> Self:
        """A store by the keyword options of ``from_texts``."""
