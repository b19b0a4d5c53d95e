"""LMKVectorStore: a LandmarkIndex as a LangChain vector store."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import VectorStoreRetriever
from typing_extensions import Self

from lmk_integrations._adapters import Cancelled
from lmk_integrations.errors import ConfigError
from lmk_integrations.langchain.adding import Text, add, of_documents, of_texts
from lmk_integrations.langchain.async_store import AsyncVectorStore
from lmk_integrations.langchain.encoders import encoder_of
from lmk_integrations.langchain.options import refuse
from lmk_integrations.langchain.sections import Filter, SectionSearch, relevance, to_document
from lmk_integrations.qdrant import HybridWeights, LandmarkIndex
from lmk_integrations.qdrant.client import StoreClient
from lmk_integrations.qdrant.queries import Mode
from lmk_integrations.qdrant.schema import LandmarkDatatype

_BY_TEXT = ("query", "k", "filter", "mode")
_BY_VECTOR = ("embedding", "k", "filter", "mode")
_DIVERSITY = ("fetch_k", "lambda_mult")


class LMKVectorStore(AsyncVectorStore):
    """Documents of any length in Qdrant: one document each, found by section.

    Setup:
        .. code-block:: bash

            pip install 'lmk-integrations[langchain]'

    Key init args:
        client: a QdrantClient, an EdgeClient, or a location for `lmk_integrations.connect`: a
            directory, ``":memory:"`` or the URL of a server.
        collection_name: created with the first document.
        embedding: `LMKEmbeddings` store landmarks and read documents of any length; any other
            LangChain embeddings give one vector per document.
        mode: how searches by text rank unless they say otherwise: "dense" (default), "landmark",
            "hybrid", "bm25" or "document"; see `LandmarkIndex.search`.
        section_tokens, language, landmark_datatype, weights: as in `LandmarkIndex`.

    Instantiate:
        .. code-block:: python

            from lmk_integrations.langchain import LMKEmbeddings, LMKVectorStore

            store = LMKVectorStore("./store", "library", LMKEmbeddings())

    Add documents:
        .. code-block:: python

            store.add_documents(documents)  # again: nothing to do

    Search:
        .. code-block:: python

            store.similarity_search("Who built the bridge?", k=3, filter={"source": "a.pdf"})

    Async:
        .. code-block:: python

            await store.asimilarity_search("Who built the bridge?")

    A search gives the section's text as ``page_content``, with the document's id and metadata as
    they were given (of what `lmk ingest` read from files: source, title, and the section's heading
    and page); `LMKRetriever` gives passages with their place. ``index`` is the `LandmarkIndex`
    behind it.

    Raises SpaceMismatchError for a collection of other embeddings, ConfigError for keyword
    arguments that it does not know.
    """

    def __init__(
        self,
        client: StoreClient | str | os.PathLike[str],
        collection_name: str,
        embedding: Embeddings,
        *,
        mode: Mode = "dense",
        section_tokens: int | None = None,
        language: str | None = None,
        landmark_datatype: LandmarkDatatype | None = None,
        weights: HybridWeights | None = None,
    ) -> None:
        super().__init__()
        self._embedding = embedding
        self.index = LandmarkIndex(
            client,
            collection_name,
            encoder_of(embedding),
            section_tokens=section_tokens,
            language=language,
            landmark_datatype=landmark_datatype,
            weights=weights,
        )
        self._sections = SectionSearch(self.index, mode)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the client, if this store opened it."""
        self.index.close()

    @property
    def embeddings(self) -> Embeddings:
        """The embeddings it was made with."""
        return self._embedding

    # -- filling ---------------------------------------------------------------------------

    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: Sequence[Mapping[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        batch_size: int | None = None,
        **unknown: Any,
    ) -> list[str]:
        """Store texts and return their ids, in order.

        ids: any strings; a text of a known id takes the stored one's place. A text without an id
            gets one that follows from it and its metadata, so that adding it again adds nothing.
        batch_size: LangChain's ``index()`` says it; batches are made by tokens and bytes here.
        Raises DocumentError naming the texts that cannot be stored, once all others are.
        """
        refuse("add_texts", unknown, ("texts", "metadatas", "ids"))
        return self._add(of_texts(texts, metadatas, ids))

    def add_documents(
        self,
        documents: Iterable[Document],
        *,
        ids: Sequence[str | None] | None = None,
        batch_size: int | None = None,
        **unknown: Any,
    ) -> list[str]:
        """Store documents, by their ids or those given beside them; as `add_texts`."""
        refuse("add_documents", unknown, ("documents", "ids"))
        return self._add(of_documents(documents, ids))

    def _add(self, texts: Iterable[Text], cancelled: Cancelled | None = None) -> list[str]:
        return add(self.index, texts, cancelled)

    def delete(self, ids: Sequence[str] | None = None, **unknown: Any) -> bool | None:
        """Delete documents by id, and say True; ids that are not stored are no error.

        Raises ConfigError without ids: deleting all is ``client.delete_collection(name)``.
        """
        refuse("delete", unknown, ("ids",))
        if ids is None:
            raise ConfigError(
                "delete() needs ids; to delete everything, delete the collection: "
                f"store.index.client.delete_collection({self.index.collection!r})"
            )
        self.index.delete(_strings(ids))
        return True

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Whole documents, in the order of the ids; those not stored are left out."""
        found = self.index.get(_strings(ids))
        return [
            Document(id=one.doc_id, page_content=one.text, metadata=one.known)
            for one in found.values()
        ]

    # -- searching -------------------------------------------------------------------------

    def similarity_search(
        self,
        query: str,
        k: int = 4,
        *,
        filter: Filter | None = None,  # noqa: A002 - LangChain's and Qdrant's word
        mode: Mode | None = None,
        **unknown: Any,
    ) -> list[Document]:
        """The best ``k`` sections.

        filter: ``{"source": "a.pdf", "page": {"gte": 3}}`` over metadata, or a Qdrant filter.
        """
        refuse("similarity_search", unknown, _BY_TEXT)
        return [to_document(hit) for hit in self._sections.by_text(query, k, filter, mode)]

    def similarity_search_with_score(
        self,
        query: str,
        k: int = 4,
        *,
        filter: Filter | None = None,  # noqa: A002
        mode: Mode | None = None,
        **unknown: Any,
    ) -> list[tuple[Document, float]]:
        """The best ``k`` sections with their scores, higher is better.

        In modes "dense" and "landmark" a score is a cosine; for the others see `LandmarkIndex`.
        """
        refuse("similarity_search_with_score", unknown, _BY_TEXT)
        hits = self._sections.by_text(query, k, filter, mode)
        return [(to_document(hit), hit.score) for hit in hits]

    def similarity_search_by_vector(
        self,
        embedding: Sequence[float],
        k: int = 4,
        *,
        filter: Filter | None = None,  # noqa: A002
        mode: Mode | None = None,
        **unknown: Any,
    ) -> list[Document]:
        """The best ``k`` sections for a vector (dim,). mode: "dense" or "landmark"."""
        refuse("similarity_search_by_vector", unknown, _BY_VECTOR)
        return [to_document(hit) for hit in self._sections.by_vector(embedding, k, filter, mode)]

    def max_marginal_relevance_search(
        self,
        query: str,
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        *,
        filter: Filter | None = None,  # noqa: A002
        mode: Mode | None = None,
        **unknown: Any,
    ) -> list[Document]:
        """``k`` of the best ``fetch_k`` sections: near the query, and unlike each other.

        lambda_mult: 1 for nearness alone, 0 for difference alone.
        """
        refuse("max_marginal_relevance_search", unknown, (*_BY_TEXT, *_DIVERSITY))
        hits = self._sections.diverse_by_text(
            query, k, filter, mode, fetch_k=fetch_k, lambda_mult=lambda_mult
        )
        return [to_document(hit) for hit in hits]

    def max_marginal_relevance_search_by_vector(
        self,
        embedding: Sequence[float],
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        *,
        filter: Filter | None = None,  # noqa: A002
        mode: Mode | None = None,
        **unknown: Any,
    ) -> list[Document]:
        """As `max_marginal_relevance_search`, for a vector (dim,)."""
        refuse("max_marginal_relevance_search_by_vector", unknown, (*_BY_VECTOR, *_DIVERSITY))
        hits = self._sections.diverse_by_vector(
            embedding, k, filter, mode, fetch_k=fetch_k, lambda_mult=lambda_mult
        )
        return [to_document(hit) for hit in hits]

    def as_retriever(self, **options: Any) -> VectorStoreRetriever:
        """A retriever of sections; see `LMKRetriever` for one of passages.

        Raises ConfigError for options that LangChain would ignore: ``filter`` and ``k`` belong
        into ``search_kwargs``.
        """
        fields = VectorStoreRetriever.model_fields
        unknown = {name: value for name, value in options.items() if name not in fields}
        refuse("as_retriever", unknown, ("search_type=", "search_kwargs={'k': 4, 'filter': {}}"))
        return super().as_retriever(**options)

    def _select_relevance_score_fn(self) -> Callable[[float], float]:
        return relevance

    def _similarity_search_with_relevance_scores(
        self, query: str, k: int = 4, *, mode: Mode | None = None, **options: Any
    ) -> list[tuple[Document, float]]:
        used = self._sections.cosine_mode(mode)
        found = self.similarity_search_with_score(query, k, mode=used, **options)
        return [(document, relevance(score)) for document, score in found]

    # -- making ----------------------------------------------------------------------------

    @classmethod
    def from_texts(
        cls,
        texts: Iterable[str],
        embedding: Embeddings,
        metadatas: Sequence[Mapping[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        **options: Any,
    ) -> Self:
        """A store with these texts in it.

        options: ``collection_name``, and ``client`` or ``location``; further ones as in the
        constructor.
        """
        store = cls._opened(embedding, **options)
        store.add_texts(texts, metadatas, ids=ids)
        return store

    @classmethod
    def from_documents(
        cls,
        documents: Iterable[Document],
        embedding: Embeddings,
        *,
        ids: Sequence[str | None] | None = None,
        **options: Any,
    ) -> Self:
        """A store with these documents in it; options as in `from_texts`."""
        store = cls._opened(embedding, **options)
        store.add_documents(documents, ids=ids)
        return store

    @classmethod
    def _opened(  # type: ignore[override]  # named here, so that a wrong one is a TypeError
        cls,
        embedding: Embeddings,
        *,
        collection_name: str,
        client: StoreClient | str | os.PathLike[str] | None = None,
        location: str | os.PathLike[str] | None = None,
        **options: Any,
    ) -> Self:
        where = location if client is None else client
        if where is None or (client is not None and location is not None):
            raise ConfigError("give one of client= and location= (a directory, a URL, ':memory:')")
        return cls(where, collection_name, embedding, **options)


def _strings(ids: Sequence[str]) -> list[str]:
    if isinstance(ids, str) or not all(isinstance(one, str) for one in ids):
        raise ConfigError(f"ids={ids!r} must be a list of strings")
    return list(ids)
