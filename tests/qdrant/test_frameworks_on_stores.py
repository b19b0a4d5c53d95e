"""The vector stores of LangChain and LlamaIndex run on every kind of store, unchanged.

Only langchain-qdrant and llama-index-vector-stores-qdrant are used here, as a user would.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_qdrant import QdrantVectorStore, RetrievalMode
from langchain_qdrant.sparse_embeddings import SparseEmbeddings, SparseVector
from llama_index.core import MockEmbedding, StorageContext, VectorStoreIndex
from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.core.vector_stores.types import (
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
)
from llama_index.vector_stores.qdrant import QdrantVectorStore as LlamaStore
from qdrant_client import models as m

WORDS = ["cat", "dog", "bird", "fish"]
UUIDS = [f"00000000-0000-0000-0000-00000000000{i}" for i in range(6)]


def count_words(text: str) -> list[float]:
    """A deterministic embedding: how often each word occurs, plus a little of everything."""
    words = text.lower().split()
    return [words.count(word) + 0.01 for word in WORDS]


class WordEmbeddings(Embeddings):
    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [count_words(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return count_words(text)


class SparseWords(SparseEmbeddings):
    def embed_documents(self, texts: list[str]) -> list[SparseVector]:
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> SparseVector:
        found = [i for i, word in enumerate(WORDS) if word in text.lower().split()]
        return SparseVector(indices=found, values=[1.0] * len(found))


TEXTS = ["cat cat", "cat dog", "dog dog", "bird", "fish fish"]


def make_langchain(store: Any, **options: Any) -> QdrantVectorStore:
    store.create_collection(
        "lc",
        {
            "lmk": m.VectorParams(size=4, distance=m.Distance.COSINE),
            "landmarks": m.VectorParams(
                size=4,
                distance=m.Distance.COSINE,
                multivector_config=m.MultiVectorConfig(comparator=m.MultiVectorComparator.MAX_SIM),
                hnsw_config=m.HnswConfigDiff(m=0),
            ),
        },
        {"bm25": m.SparseVectorParams(modifier=m.Modifier.IDF)},
    )
    vectors = QdrantVectorStore(
        client=store,
        collection_name="lc",
        embedding=WordEmbeddings(),
        vector_name="lmk",
        validate_collection_config=True,
        validate_embeddings=True,
        **options,
    )
    added = vectors.add_documents(
        [
            Document(page_content=text, metadata={"n": n, "even": n % 2 == 0})
            for n, text in enumerate(TEXTS)
        ],
        ids=UUIDS[:5],
    )
    assert added == UUIDS[:5]
    return vectors


def texts(documents: list[Document]) -> list[str]:
    return [document.page_content for document in documents]


def test_langchain_search(store: Any) -> None:
    """Similarity search with scores, filters, offset and threshold."""
    vectors = make_langchain(store)
    found = vectors.similarity_search_with_score("cat", k=2)
    assert texts([document for document, _ in found]) == ["cat cat", "cat dog"]
    assert found[1][1] == pytest.approx(1 / math.sqrt(2), abs=0.02)
    assert found[0][0].metadata["n"] == 0
    odd = m.Filter(must=[m.FieldCondition(key="metadata.even", match=m.MatchValue(value=False))])
    assert texts(vectors.similarity_search("cat", k=3, filter=odd)) == ["cat dog", "bird"]
    assert texts(vectors.similarity_search("cat", k=1, offset=1)) == ["cat dog"]
    assert texts(vectors.similarity_search("cat", k=5, score_threshold=0.9)) == ["cat cat"]
    retriever = vectors.as_retriever(search_kwargs={"k": 1})
    assert texts(retriever.invoke("fish")) == ["fish fish"]


def test_langchain_diversity(store: Any) -> None:
    """Maximal marginal relevance takes the nearest first, then what differs from it."""
    vectors = make_langchain(store)
    found = texts(vectors.max_marginal_relevance_search("cat dog", k=3, fetch_k=5))
    assert found[0] == "cat dog"
    assert len(set(found)) == 3


def test_langchain_ids_and_deletion(store: Any) -> None:
    """Documents are found by id, replaced by id, and deleted."""
    vectors = make_langchain(store)
    assert texts(vectors.get_by_ids([UUIDS[3]])) == ["bird"]
    vectors.add_texts(["fish bird"], metadatas=[{}], ids=[UUIDS[3]])
    assert texts(vectors.get_by_ids([UUIDS[3]])) == ["fish bird"]
    assert vectors.delete([UUIDS[3], UUIDS[0]])
    left = texts(vectors.similarity_search("cat", k=9))
    assert left[0] == "cat dog"
    assert sorted(left) == ["cat dog", "dog dog", "fish fish"]


def test_langchain_hybrid(store: Any) -> None:
    """Dense and sparse, fused by rank."""
    vectors = make_langchain(
        store,
        retrieval_mode=RetrievalMode.HYBRID,
        sparse_embedding=SparseWords(),
        sparse_vector_name="bm25",
    )
    assert texts(vectors.similarity_search("bird", k=1)) == ["bird"]
    fused = m.FusionQuery(fusion=m.Fusion.DBSF)
    assert texts(vectors.similarity_search("bird", k=1, hybrid_fusion=fused)) == ["bird"]


def test_langchain_makes_its_own_collection(store: Any) -> None:
    """create_collection as langchain-qdrant calls it, with the unnamed vector."""
    options = {
        "collection_name": "own",
        "vectors_config": m.VectorParams(size=4, distance=m.Distance.COSINE),
        "on_disk_payload": True,
    }
    store.create_collection(**options)
    vectors = QdrantVectorStore(store, "own", WordEmbeddings())
    vectors.add_texts(TEXTS)
    assert texts(vectors.similarity_search("fish", k=1)) == ["fish fish"]


def nodes() -> list[TextNode]:
    made = []
    for number, text in enumerate(TEXTS):
        node = TextNode(
            id_=UUIDS[number],
            text=text,
            metadata={"n": number, "kind": "pet" if number < 3 else "wild", "tags": ["a", text]},
            embedding=count_words(text),
        )
        document = RelatedNodeInfo(node_id="doc-wild" if number > 2 else "doc-pet")
        node.relationships[NodeRelationship.SOURCE] = document
        made.append(node)
    return made


def query(text: str, k: int, *filters: MetadataFilter, **options: Any) -> VectorStoreQuery:
    return VectorStoreQuery(
        query_embedding=count_words(text),
        query_str=text,
        similarity_top_k=k,
        filters=MetadataFilters(filters=list(filters)) if filters else None,
        **options,
    )


def test_llama_index_store(store: Any) -> None:
    """Makes its collection, adds, queries with filters, and deletes by document."""
    vectors = LlamaStore("li", client=store)
    assert vectors.add(nodes()) == UUIDS[:5]
    found = vectors.query(query("cat", 2))
    assert [node.get_content() for node in found.nodes or []] == ["cat cat", "cat dog"]
    assert found.ids == UUIDS[:2]
    for condition, expected in (
        (MetadataFilter(key="kind", value="wild"), {"bird", "fish fish"}),
        (MetadataFilter(key="n", value=2, operator=FilterOperator.GTE), set(TEXTS[2:])),
        (MetadataFilter(key="n", value=2, operator=FilterOperator.NE), set(TEXTS) - {"dog dog"}),
        (MetadataFilter(key="n", value=[1, 3], operator=FilterOperator.IN), {"cat dog", "bird"}),
        (MetadataFilter(key="n", value=[1, 3], operator=FilterOperator.NIN), set(TEXTS[::2])),
        (MetadataFilter(key="gone", value=None, operator=FilterOperator.IS_EMPTY), set(TEXTS)),
    ):
        result = vectors.query(query("cat", 9, condition))
        assert {node.get_content() for node in result.nodes or []} == expected, condition
    assert [node.get_content() for node in vectors.get_nodes(node_ids=[UUIDS[4]])] == ["fish fish"]
    vectors.delete("doc-pet")
    assert set(vectors.query(query("cat", 9)).ids or []) == set(UUIDS[3:5])
    vectors.delete_nodes([UUIDS[3]])
    assert vectors.query(query("cat", 9)).ids == [UUIDS[4]]
    vectors.clear()
    assert not store.collection_exists("li")


def test_llama_index_hybrid(store: Any) -> None:
    """Named dense and sparse vectors, queried in one batch."""

    def encode(batch: list[str]) -> tuple[list[list[int]], list[list[float]]]:
        vectors = SparseWords().embed_documents(batch)
        return [v.indices for v in vectors], [v.values for v in vectors]

    vectors = LlamaStore(
        "hybrid",
        client=store,
        enable_hybrid=True,
        sparse_doc_fn=encode,
        sparse_query_fn=encode,
        dense_vector_name="lmk",
        sparse_vector_name="bm25",
    )
    vectors.add(nodes())
    for mode in (VectorStoreQueryMode.HYBRID, VectorStoreQueryMode.SPARSE):
        found = vectors.query(query("bird", 1, mode=mode, sparse_top_k=3))
        assert [node.get_content() for node in found.nodes or []] == ["bird"]
    dense = vectors.query(query("dog", 1))
    assert [node.get_content() for node in dense.nodes or []] == ["dog dog"]


def test_llama_index_over_the_store(store: Any) -> None:
    """A whole VectorStoreIndex: build, retrieve, reopen, delete a document."""
    embedding = MockEmbedding(embed_dim=4)
    context = StorageContext.from_defaults(vector_store=LlamaStore("ix", client=store))
    VectorStoreIndex(nodes(), storage_context=context, embed_model=embedding)
    index = VectorStoreIndex.from_vector_store(
        LlamaStore("ix", client=store), embed_model=embedding
    )
    assert len(index.as_retriever(similarity_top_k=9).retrieve("anything")) == 5
    index.delete_ref_doc("doc-wild")
    left = index.as_retriever(similarity_top_k=9).retrieve("anything")
    assert {found.node.ref_doc_id for found in left} == {"doc-pet"}
