"""LMKVectorStore: a collection of a LandmarkIndex as a LlamaIndex vector store."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.schema import BaseNode
from llama_index.core.vector_stores.types import (
    BasePydanticVectorStore,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryResult,
)
from pydantic import ConfigDict, Field, PrivateAttr
from qdrant_client import models
from typing_extensions import Self

from lmk_integrations._adapters import Cancelled
from lmk_integrations.errors import ConfigError
from lmk_integrations.llama_index.asking import ask
from lmk_integrations.llama_index.encoders import encoder_of, given_vectors
from lmk_integrations.llama_index.filters import all_of, of_documents, of_nodes, translate
from lmk_integrations.llama_index.nodes import stored_texts, to_node
from lmk_integrations.llama_index.runtime import Runtime
from lmk_integrations.qdrant import LandmarkIndex
from lmk_integrations.qdrant.client import StoreClient
from lmk_integrations.qdrant.items import Item
from lmk_integrations.qdrant.queries import Mode
from lmk_integrations.qdrant.schema import LandmarkDatatype

T = TypeVar("T")


class LMKVectorStore(BasePydanticVectorStore):
    """A vector store of nodes and their landmarks, in a collection that `lmk ingest` may fill too.

    client: a QdrantClient, an EdgeClient, or a location: a directory, ":memory:", a URL.
    collection_name: made by the first `add`, if there is none.
    embed_model: with `LMKEmbedding` nodes are stored with their landmarks; with any other model,
        or None (nodes and queries bring their vectors), by one vector and their words.
    default_mode: what a query in mode DEFAULT is: "dense" (the node's vector), "landmark" (its
        best landmark) or "hybrid".
    language: of BM25's stemming and stop words; fixed when the collection is made.
    landmark_datatype: what landmarks are stored as, fixed then too: see `LandmarkIndex`.

    Modes of a query: DEFAULT; HYBRID (landmarks and words; ``alpha``); SPARSE and TEXT_SEARCH
    (words); MMR (``mmr_threshold``; scores stay cosines). Its further arguments: ``prefetch``,
    ``fusion``, ``qdrant_filters`` (a models.Filter, beside ``filters``).
    A store made from a location can be pickled; it is opened again at its first use.
    Raises ConfigError, SpaceMismatchError where the collection is of another model.
    """

    model_config = ConfigDict(
        extra="forbid", protected_namespaces=(), arbitrary_types_allowed=True, frozen=True
    )

    stores_text: bool = True
    collection_name: str
    location: str | None = Field(default=None, description="Where it was opened; None: a client.")
    embed_model: BaseEmbedding | None = Field(default=None, exclude=True)
    default_mode: Mode = "dense"
    language: str | None = None
    landmark_datatype: LandmarkDatatype | None = None

    _runtime: Runtime = PrivateAttr(default_factory=Runtime)

    def __init__(
        self,
        client: StoreClient | str | os.PathLike[str],
        collection_name: str,
        embed_model: BaseEmbedding | None = None,
        *,
        default_mode: Mode = "dense",
        language: str | None = None,
        landmark_datatype: LandmarkDatatype | None = None,
    ) -> None:
        encoder = encoder_of(embed_model)
        fields: dict[str, Any] = {
            "collection_name": collection_name,
            "location": os.fspath(client) if isinstance(client, str | os.PathLike) else None,
            "embed_model": embed_model,
            "default_mode": default_mode,
            "language": language,
            "landmark_datatype": landmark_datatype,
        }
        super().__init__(**fields)
        index = LandmarkIndex(
            client,
            collection_name,
            encoder,
            language=language,
            landmark_datatype=landmark_datatype,
        )
        self._runtime.open(lambda: index)

    @classmethod
    def from_index(cls, index: LandmarkIndex, *, default_mode: Mode = "dense") -> Self:
        """A store over an index that is open already, with its encoder and its weights."""
        made = cls.model_construct(
            stores_text=True,
            is_embedding_query=True,
            collection_name=index.collection,
            location=None,
            embed_model=None,
            default_mode=default_mode,
            language=None,
            landmark_datatype=None,
        )
        made._runtime.open(lambda: index)
        return made

    @classmethod
    def class_name(cls) -> str:
        """The name in serialised form."""
        return "LMKVectorStore"

    @property
    def index(self) -> LandmarkIndex:
        """The index behind it: ingest whole documents, search for passages, facts."""
        return self._runtime.open(
            lambda: LandmarkIndex(
                self._location(),
                self.collection_name,
                encoder_of(self.embed_model),
                language=self.language,
                landmark_datatype=self.landmark_datatype,
            )
        )

    @property
    def client(self) -> StoreClient:
        """The Qdrant client."""
        return self.index.client

    def close(self) -> None:
        """Close the client, if the store opened it."""
        self.index.close()

    def info(self) -> dict[str, Any]:
        """Facts about the collection, and how nodes added here came by their landmarks.

        handed_over: from the embedding model or the parser, as `LMKEmbedding` and
        `LandmarkNodeParser` hand them over within one process. encoded_again: by encoding once
        more. Nodes of models without landmarks count as neither.
        """
        facts = self.index.info() if self.index.exists else {"collection": self.collection_name}
        return {**facts, **self._runtime.adding.counts()}

    # -- writing -------------------------------------------------------------------------------

    def add(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[str]:
        """Store nodes; one of a known id takes the old one's place. Returns their ids.

        Raises DocumentError, before anything is stored, naming a node that cannot be.
        """
        return self._add(nodes)

    def delete(self, ref_doc_id: str, **delete_kwargs: Any) -> None:
        """Delete all nodes of a document, and the document where it was ingested."""
        self.index.delete_where(of_documents([ref_doc_id]))

    def delete_nodes(
        self,
        node_ids: list[str] | None = None,
        filters: MetadataFilters | None = None,
        **delete_kwargs: Any,
    ) -> None:
        """Delete the nodes of these ids, or those that filters choose; given both, of both."""
        if node_ids is None and (filters is None or not filters.filters):
            raise ConfigError("give node_ids or filters; to delete everything there is clear()")
        wanted = self._chosen(node_ids, filters)
        if wanted is not None and node_ids != []:
            self.index.delete_where(wanted)

    def clear(self) -> None:
        """Delete every node and every document. The collection stays."""
        everything = models.Filter(must_not=[models.HasIdCondition(has_id=[])])
        self.index.delete_where(everything)

    # -- reading -------------------------------------------------------------------------------

    def get_nodes(
        self,
        node_ids: list[str] | None = None,
        filters: MetadataFilters | None = None,
    ) -> list[BaseNode]:
        """The nodes of these ids (in their order), those that filters choose, or all."""
        if node_ids == []:
            return []
        found = [to_node(one) for one in self.index.scan(self._chosen(node_ids, filters))]
        if node_ids is not None:
            places = {node_id: place for place, node_id in enumerate(node_ids)}
            found.sort(key=lambda node: places.get(node.node_id, len(places)))
        return found

    def query(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        """The nodes that answer a query. Of an empty store: none."""
        if not self.index.exists:
            return VectorStoreQueryResult(nodes=[], similarities=[], ids=[])
        hits = ask(self.index, query, self.default_mode, kwargs)
        points = self.index.points([hit.id for hit in hits])
        there = [hit for hit in hits if hit.id in points]  # others were deleted since the search
        nodes = [to_node(points[hit.id]) for hit in there]
        return VectorStoreQueryResult(
            nodes=nodes,
            similarities=[hit.score for hit in there],
            ids=[node.node_id for node in nodes],
        )

    # -- the same on the store's worker thread -------------------------------------------------

    async def async_add(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[str]:
        """As `add`; encoding ends soon when the call is cancelled."""
        return await self._runtime.worker.run(lambda cancelled: self._add(nodes, cancelled))

    async def adelete(self, ref_doc_id: str, **delete_kwargs: Any) -> None:
        """As `delete`."""
        await self._run(lambda: self.delete(ref_doc_id))

    async def adelete_nodes(
        self,
        node_ids: list[str] | None = None,
        filters: MetadataFilters | None = None,
        **delete_kwargs: Any,
    ) -> None:
        """As `delete_nodes`."""
        await self._run(lambda: self.delete_nodes(node_ids, filters))

    async def aclear(self) -> None:
        """As `clear`."""
        await self._run(self.clear)

    async def aget_nodes(
        self,
        node_ids: list[str] | None = None,
        filters: MetadataFilters | None = None,
    ) -> list[BaseNode]:
        """As `get_nodes`."""
        return await self._run(lambda: self.get_nodes(node_ids, filters))

    async def aquery(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        """As `query`."""
        return await self._run(lambda: self.query(query, **kwargs))

    # -- inside --------------------------------------------------------------------------------

    async def _run(self, job: Callable[[], T]) -> T:
        return await self._runtime.worker.run(lambda _: job())

    def _add(self, nodes: Sequence[BaseNode], cancelled: Cancelled | None = None) -> list[str]:
        index = self.index
        if nodes:
            self._put(index, self._runtime.adding.items(nodes, cancelled))
        return [node.node_id for node in nodes]

    def _put(self, index: LandmarkIndex, items: Sequence[Item]) -> None:
        if index.encoder is None and not index.exists:
            # It makes the collection; from then on the collection itself tells its size.
            index = LandmarkIndex(
                index.client,
                index.collection,
                given_vectors(len(items[0].vector)),
                language=self.language,
            )
        index.put(items)

    def _chosen(
        self, node_ids: list[str] | None, filters: MetadataFilters | None
    ) -> models.Filter | None:
        return all_of(
            None if node_ids is None else of_nodes(node_ids),
            translate(filters, lambda key: stored_texts(self.index, key)),
        )

    def _location(self) -> str:
        if self.location is None:
            raise ConfigError("a store made from a client object cannot be opened again")
        return self.location

    def __reduce__(self) -> tuple[Any, ...]:
        if self.location in (None, ":memory:"):
            raise ConfigError(
                "an LMKVectorStore made from a client object or in memory cannot be pickled: make "
                "it from a directory or a URL, LMKVectorStore('http://…', name, embed_model)"
            )
        return _closed, (type(self), dict(self.__dict__))


def _closed(kind: type[LMKVectorStore], fields: dict[str, Any]) -> LMKVectorStore:
    return kind.model_construct(**fields)
