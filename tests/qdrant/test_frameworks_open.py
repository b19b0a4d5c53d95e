"""LangChain's and LlamaIndex's own Qdrant stores open a collection that we filled."""

from __future__ import annotations

from typing import Any

import pytest
from index_data import LIBRARY
from langchain_core.documents import Document as LangChainDocument
from langchain_qdrant import QdrantVectorStore as LangChainStore
from llama_index.core import VectorStoreIndex
from llama_index.core.schema import MetadataMode, NodeRelationship, NodeWithScore
from llama_index.core.vector_stores import (
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
)
from llama_index.vector_stores.qdrant import QdrantVectorStore as LlamaIndexStore
from qdrant_client import models

from lmk_integrations import Document, LandmarkIndex, LMKEncoder
from lmk_integrations.langchain import LMKEmbeddings
from lmk_integrations.llama_index import LMKEmbedding

pytestmark = pytest.mark.usefixtures("one_thread")

QUERY = "Who lights the lamp in the lighthouse?"
CHOSEN = ("lighthouse/1", "bread/1", "chess/1", "scripts")


@pytest.fixture
def index(store: Any, encoder: LMKEncoder) -> LandmarkIndex:
    made = LandmarkIndex(store, "docs", encoder, section_tokens=128)
    made.ingest([LIBRARY[name] for name in CHOSEN])
    return made


def open_langchain(index: LandmarkIndex) -> LangChainStore:
    return LangChainStore(
        client=index.client,
        collection_name="docs",
        embedding=LMKEmbeddings(encoder=index.encoder),
        vector_name="lmk",
    )


def open_llama_index(index: LandmarkIndex) -> LlamaIndexStore:
    return LlamaIndexStore(client=index.client, collection_name="docs", dense_vector_name="lmk")


def retrieve(index: LandmarkIndex, query: str, k: int, **options: Any) -> list[NodeWithScore]:
    opened = VectorStoreIndex.from_vector_store(
        open_llama_index(index), embed_model=LMKEmbedding(encoder=index.encoder)
    )
    return opened.as_retriever(similarity_top_k=k, **options).retrieve(query)


# -- LangChain -------------------------------------------------------------------------------


def test_langchain_finds_what_we_find(index: LandmarkIndex) -> None:
    """The same sections in the same order with the same scores; heads are not among them."""
    ours = index.search(QUERY, 100, mode="dense")
    theirs = open_langchain(index).similarity_search_with_score(QUERY, k=100)
    assert [d.metadata["_id"] for d, _ in theirs] == [hit.id for hit in ours]
    assert [score for _, score in theirs] == pytest.approx([hit.score for hit in ours], abs=1e-5)
    for (document, _), hit in zip(theirs, ours, strict=True):
        assert document.page_content == hit.text
        shown = {k: v for k, v in document.metadata.items() if not k.startswith("_")}
        assert shown == hit.metadata
    assert len(theirs) == index.info()["sections"]


def test_langchain_shows_metadata(index: LandmarkIndex) -> None:
    """The user's metadata and where the section lies in its document, and nothing internal."""
    (document,) = open_langchain(index).similarity_search("queen sacrifice and mate", k=1)
    chess = LIBRARY["chess/1"]
    metadata = document.metadata
    assert str(chess.text)[metadata["start"] : metadata["end"]] == document.page_content
    assert {k: metadata[k] for k in chess.metadata} == dict(chess.metadata)
    assert (metadata["title"], metadata["source"]) == (chess.title, chess.source)
    assert (metadata["doc_id"], metadata["page"]) == ("chess/1", 1)
    assert not {"lmk", "_node_content", "page_content", "metadata"} & set(metadata)


def test_langchain_filters(index: LandmarkIndex) -> None:
    """Qdrant filters over metadata.* work, as LangChain documents them."""
    wanted = models.Filter(
        must=[models.FieldCondition(key="metadata.subject", match=models.MatchValue(value="bread"))]
    )
    found = open_langchain(index).similarity_search(QUERY, k=50, filter=wanted)
    assert {document.metadata["doc_id"] for document in found} == {"bread/1"}
    assert len(found) == index.count("bread/1")


def test_langchain_may_retrieve_diverse_and_delete(index: LandmarkIndex) -> None:
    """MMR and deletion by id act on sections; the next ingest restores what is missing."""
    opened = open_langchain(index)
    diverse = opened.max_marginal_relevance_search(QUERY, k=3, fetch_k=10)
    assert len({document.page_content for document in diverse}) == 3
    (first,) = opened.similarity_search(QUERY, k=1)
    opened.delete([first.metadata["_id"]])
    assert first.metadata["_id"] not in {hit.id for hit in index.search(QUERY, 100, mode="dense")}
    again = index.ingest([LIBRARY[name] for name in CHOSEN])
    assert (again.updated, again.unchanged) == (1, 3)
    assert index.search(QUERY, 1, mode="dense")[0].id == first.metadata["_id"]


def test_langchain_may_add_its_own(index: LandmarkIndex) -> None:
    """Points it adds are found from both sides and are no documents of ours."""
    opened = open_langchain(index)
    opened.add_documents([LangChainDocument("A note on gardening.", metadata={"source": "n"})])
    (found,) = opened.similarity_search("gardening", k=1)
    assert found.page_content == "A note on gardening."
    hit = index.search("gardening", 1, mode="dense")[0]
    assert (hit.text, hit.source) == ("A note on gardening.", "n")
    assert index.count() == len(CHOSEN)


# -- LlamaIndex ------------------------------------------------------------------------------


def test_llama_index_finds_what_we_find(index: LandmarkIndex) -> None:
    """Nodes are our sections: text, id, score, place in the document."""
    ours = index.search(QUERY, 100, mode="dense")
    theirs = retrieve(index, QUERY, 100)
    assert [found.node.node_id for found in theirs] == [hit.id for hit in ours]
    assert [found.score for found in theirs] == pytest.approx([hit.score for hit in ours], abs=1e-5)
    for found, hit in zip(theirs, ours, strict=True):
        node: Any = found.node
        assert node.get_content() == hit.text
        assert (node.start_char_idx, node.end_char_idx) == (hit.start, hit.end)
        assert node.ref_doc_id == hit.doc_id
        assert node.metadata == hit.metadata
        source = node.relationships[NodeRelationship.SOURCE]
        assert source.node_id == hit.doc_id
    assert len(theirs) == index.info()["sections"]


def test_llama_index_embeds_no_metadata(index: LandmarkIndex) -> None:
    """Text embedded again by LlamaIndex is the section alone, and a model is shown no offsets."""
    node = retrieve(index, QUERY, 1)[0].node
    assert node.get_content(MetadataMode.EMBED) == node.get_content()
    shown = node.get_content(MetadataMode.LLM)
    assert "title: On the lighthouse" in shown
    assert "start:" not in shown


@pytest.mark.parametrize(
    ("key", "value", "operator", "expected"),
    [
        ("subject", "bread", FilterOperator.EQ, {"bread/1"}),
        ("subject", ["bread", "chess"], FilterOperator.IN, {"bread/1", "chess/1"}),
        ("year", 1991, FilterOperator.GTE, {"lighthouse/1", "bread/1", "chess/1"}),
        ("page", 1, FilterOperator.EQ, {"lighthouse/1", "bread/1", "chess/1"}),
        ("doc_id", "scripts", FilterOperator.EQ, {"scripts"}),
        ("source", "chess.txt", FilterOperator.EQ, {"chess/1"}),
    ],
)
def test_llama_index_filters(
    index: LandmarkIndex, key: str, value: Any, operator: FilterOperator, expected: set[str]
) -> None:
    """Its metadata filters see the user's keys and ours."""
    filters = MetadataFilters(filters=[MetadataFilter(key=key, value=value, operator=operator)])
    found = retrieve(index, QUERY, 100, filters=filters)
    assert {item.node.ref_doc_id for item in found} == expected


def test_llama_index_deletes_documents(index: LandmarkIndex) -> None:
    """delete(ref_doc_id) takes the sections and the head: the document is new next time."""
    open_llama_index(index).delete("bread/1")
    assert (index.count("bread/1"), index.count()) == (0, len(CHOSEN) - 1)
    report = index.ingest([LIBRARY[name] for name in CHOSEN])
    assert (report.new, report.unchanged) == (1, len(CHOSEN) - 1)


def test_llama_index_gets_nodes(index: LandmarkIndex) -> None:
    """By id, by metadata, or all of them; a head is a node without text there."""
    opened = open_llama_index(index)
    hit = index.search(QUERY, 1)[0]
    (node,) = opened.get_nodes(node_ids=[hit.id])
    assert node.get_content() == hit.text
    filters = MetadataFilters(filters=[MetadataFilter(key="subject", value="chess")])
    assert len(opened.get_nodes(filters=filters)) == index.count("chess/1")
    texts = {node.get_content() for node in opened.get_nodes()} - {""}
    assert texts == {hit.text for hit in index.search(QUERY, 100, mode="dense")}
    by_document = MetadataFilters(filters=[MetadataFilter(key="doc_id", value="chess/1")])
    assert len([n for n in opened.get_nodes(filters=by_document) if n.get_content()]) == (
        index.count("chess/1")
    )


# -- both ------------------------------------------------------------------------------------


def test_new_metadata_is_seen_by_both(index: LandmarkIndex) -> None:
    """A relabelled document shows its new metadata, and none of the old, in either framework."""
    bread = LIBRARY["bread/1"]
    report = index.ingest(
        [Document(bread.text, id="bread/1", title="New", metadata={"k": 2}, marks=bread.marks)]
    )
    assert report.relabelled == 1
    filters = MetadataFilters(filters=[MetadataFilter(key="k", value=2)])
    nodes = retrieve(index, "rye bread", 100, filters=filters)
    assert len(nodes) == index.count("bread/1")
    found = open_langchain(index).similarity_search(
        "rye bread",
        k=100,
        filter=models.Filter(
            must=[models.FieldCondition(key="metadata.k", match=models.MatchValue(value=2))]
        ),
    )
    assert len(found) == len(nodes)
    for metadata in (nodes[0].node.metadata, found[0].metadata):
        assert (metadata["title"], metadata["k"], metadata["page"]) == ("New", 2, 1)
        assert not {"subject", "year", "tags", "source"} & set(metadata)


def test_hostile_metadata_reaches_both_unchanged(index: LandmarkIndex) -> None:
    """Keys that the frameworks use themselves are only metadata."""
    hostile = {
        "page_content": "not the text",
        "_node_content": '{"class_name": "ImageNode", "text": "not the text"}',
        "_node_type": "ImageNode",
        "text": "not the text",
        "id_": "x",
        "embedding": [1, 2],
        "metadata": {"a": 1},
        "relationships": "none",
        "lmk": 3,
        "ref_doc_id": "bread/1",
        "document_id": "bread/1",
    }
    index.ingest([Document("Dogs chase cats around the garden.", id="pets", metadata=hostile)])
    (found,) = open_langchain(index).similarity_search("dogs and cats", k=1)
    node: Any = retrieve(index, "dogs and cats", 1)[0].node
    assert found.page_content == node.get_content() == "Dogs chase cats around the garden."
    assert node.ref_doc_id == "pets"
    for metadata in (found.metadata, node.metadata):
        assert {key: metadata[key] for key in hostile} == hostile
        assert metadata["doc_id"] == "pets"
    open_llama_index(index).delete("bread/1")
    assert index.count("pets") == 1
