"""LMKVectorStore: nodes in, the same nodes out, on every kind of local store."""

from __future__ import annotations

import asyncio
import pickle

import numpy as np
import pytest
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.schema import (
    ImageNode,
    IndexNode,
    MetadataMode,
    NodeRelationship,
    ObjectType,
    RelatedNodeInfo,
    TextNode,
)
from llama_index.core.vector_stores.types import (
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
)
from qdrant_client import models

from lmk_integrations import Document, LandmarkIndex
from lmk_integrations.errors import ConfigError, DocumentError, SpaceMismatchError
from lmk_integrations.llama_index import LMKEmbedding, LMKVectorStore
from lmk_integrations.qdrant import connect

WHALE = "A whale is a mammal that lives in the sea."
BREAD = "Bread is baked in an oven."
CHESS = "A bishop moves along the diagonals of the chess board."


@pytest.fixture(params=["edge", "memory"])
def client(request, tmp_path):
    opened = connect(":memory:" if request.param == "memory" else tmp_path / "store")
    yield opened
    opened.close()


@pytest.fixture
def embedding(encoder):
    return LMKEmbedding(encoder=encoder)


@pytest.fixture
def store(client, embedding):
    return LMKVectorStore(client, "docs", embedding)


def node(text, name, source=None, **metadata):
    made = TextNode(text=text, id_=name, metadata=metadata)
    if source is not None:
        made.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(
            node_id=source, node_type=ObjectType.DOCUMENT
        )
    return made


def three():
    return [
        node(WHALE, "a whale", "sea.txt", page=1, tags=["animal", "sea"]),
        node(BREAD, "6b0c3c1e-52c5-4a57-9c6f-0d6b5d0b0001", "food.txt", page=2, tags=["food"]),
        node(CHESS, "42", None, page=3),
    ]


def ask(store, text="", **options):
    query = VectorStoreQuery(query_str=text, **{"similarity_top_k": 3, **options})
    return store.query(query)


def same(left, right):
    return left.model_dump(exclude={"embedding"}) == right.model_dump(exclude={"embedding"})


# -- nodes as they were --------------------------------------------------------------------------


def test_nodes_come_back_as_they_were(store):
    """Ids of any form, metadata, relationships, offsets and class survive add, query, get_nodes."""
    odd = TextNode(
        text="  spaces around \n",
        id_="an id / with ünicode",
        metadata={"none": None, "deep": {"a": [1, 2.5, None]}, "page_content": "x", "lmk": 1},
        start_char_idx=17,
        end_char_idx=34,
        relationships={
            NodeRelationship.SOURCE: RelatedNodeInfo(node_id="doc", metadata={"m": 1}, hash="h"),
            NodeRelationship.NEXT: RelatedNodeInfo(node_id="next"),
        },
    )
    nodes = [
        *three(),
        odd,
        IndexNode(text="an index of whales", id_="index", index_id="other"),
        ImageNode(text="a picture of bread", id_="image", image_url="http://localhost/x.png"),
    ]
    ids = [one.node_id for one in nodes]
    assert store.add(nodes) == ids
    for found in (store.get_nodes(ids), sorted(store.get_nodes(), key=lambda n: ids.index(n.id_))):
        assert [type(one) for one in found] == [type(one) for one in nodes]
        assert all(same(left, right) for left, right in zip(found, nodes, strict=True))
    result = ask(store, "spaces around", similarity_top_k=10)
    assert sorted(result.ids) == sorted(ids)
    assert [one.node_id for one in result.nodes] == result.ids
    assert result.similarities == sorted(result.similarities, reverse=True)
    by_id = {one.node_id: one for one in nodes}
    assert all(same(found, by_id[found.node_id]) for found in result.nodes)


def test_add_replaces_by_id(store):
    """A node of a known id takes the old one's place."""
    store.add(three())
    store.add([node("Rye needs a sourdough.", "a whale", "food.txt")])
    assert store.info()["items"] == 3
    assert store.get_nodes(["a whale"])[0].text == "Rye needs a sourdough."


def test_get_and_delete_nodes(store):
    """By ids (in their order), by filters, by both; nothing at all asks for a decision."""
    store.add(three())
    ids = [one.node_id for one in three()]
    second = MetadataFilters(filters=[MetadataFilter(key="page", value=2)])
    assert [n.node_id for n in store.get_nodes(["42", "absent", ids[0]])] == ["42", ids[0]]
    assert [n.node_id for n in store.get_nodes(filters=second)] == [ids[1]]
    assert store.get_nodes(["42"], filters=second) == []
    assert store.get_nodes([]) == []
    store.delete_nodes([])
    store.delete_nodes(["42"], filters=second)
    assert len(store.get_nodes()) == 3
    store.delete_nodes(["42"])
    store.delete_nodes(filters=second)
    assert [n.node_id for n in store.get_nodes()] == [ids[0]]
    for nothing in ({}, {"filters": MetadataFilters(filters=[])}):
        with pytest.raises(ConfigError, match="clear"):
            store.delete_nodes(**nothing)


def test_delete_by_document_and_clear(store):
    """delete takes all nodes of a document, and one that is its own document; clear takes all."""
    store.add([*three(), node("Ships", "b", "sea.txt")])
    store.delete("sea.txt")
    assert {n.node_id for n in store.get_nodes()} == {three()[1].node_id, "42"}
    store.delete("42")
    assert len(store.get_nodes()) == 1
    store.clear()
    assert store.get_nodes() == []
    assert ask(store, "bread").nodes == []
    store.add(three())
    assert len(store.get_nodes()) == 3


def test_an_empty_store_is_empty(store):
    """Before anything is added, reading finds nothing and deleting does nothing."""
    assert store.get_nodes() == []
    assert ask(store, "bread").ids == []
    store.delete("x")
    store.delete_nodes(["x"])
    store.clear()
    assert store.add([]) == []
    assert store.info() == {"collection": "docs", "handed_over": 0, "encoded_again": 0}


# -- queries -------------------------------------------------------------------------------------


def test_modes(store, embedding):
    """Each mode ranks as it says; words need a query string, vectors an embedding or an encoder."""
    store.add(three())
    question = "Which animals live in the ocean?"
    vector = embedding.get_query_embedding(question)
    dense = ask(store, query_embedding=vector)
    cosines = {
        one.node_id: float(
            np.dot(vector, embedding.get_text_embedding(one.get_content(MetadataMode.EMBED)))
        )
        for one in three()
    }
    assert dense.ids[0] == "a whale"
    found = dict(zip(dense.ids, dense.similarities, strict=True))
    assert found == pytest.approx(cosines, abs=1e-4)
    assert ask(store, question).ids == dense.ids
    words = ask(store, "bishop diagonals", mode=VectorStoreQueryMode.SPARSE)
    assert words.ids == ["42"]
    assert ask(store, "bishop", mode=VectorStoreQueryMode.TEXT_SEARCH).ids == ["42"]
    hybrid = ask(
        store, "chess", query_embedding=vector, mode=VectorStoreQueryMode.HYBRID, alpha=None
    )
    assert set(hybrid.ids) == set(dense.ids)
    for mode in (VectorStoreQueryMode.SPARSE, VectorStoreQueryMode.TEXT_SEARCH):
        with pytest.raises(ConfigError, match="query_str"):
            ask(store, query_embedding=vector, mode=mode)


def test_alpha_weighs_words_against_vectors(store, embedding):
    """0 is words alone, 1 vectors alone, and what lies between moves from one to the other."""
    store.add(three())
    vector = embedding.get_query_embedding(WHALE)

    def first(alpha):
        return ask(
            store, "oven", query_embedding=vector, mode=VectorStoreQueryMode.HYBRID, alpha=alpha
        ).ids[0]

    bread = three()[1].node_id
    assert [first(alpha) for alpha in (0, 0.05, 0.95, 1)] == [bread, bread, "a whale", "a whale"]
    with pytest.raises(ConfigError, match="alpha"):
        first(1.5)


def test_mmr_prefers_difference(store, embedding):
    """A near copy of the best node is passed over; a threshold of 1 ranks by nearness alone."""
    copies = [node(f"{WHALE} {word}", word, None) for word in ("Yes.", "So.", "Oh.")]
    store.add([*copies, node(BREAD, "bread")])
    vector = embedding.get_query_embedding("What is a whale?")
    options = {"query_embedding": vector, "mode": VectorStoreQueryMode.MMR, "similarity_top_k": 2}
    near = ask(store, mmr_threshold=1.0, **options)
    assert near.ids == ask(store, query_embedding=vector, similarity_top_k=2).ids
    spread = ask(store, mmr_threshold=0.1, **options)
    assert spread.ids == [near.ids[0], "bread"]
    assert spread.similarities[0] == pytest.approx(near.similarities[0])
    with pytest.raises(ConfigError, match="mmr_threshold"):
        ask(store, mmr_threshold=2.0, **options)


def test_what_cannot_be_asked_is_refused(store):
    """A mode, option or field that would be ignored is an error that names what there is."""
    store.add(three())
    for mode in (VectorStoreQueryMode.SVM, VectorStoreQueryMode.SEMANTIC_HYBRID):
        with pytest.raises(ConfigError, match="hybrid, mmr"):
            ask(store, "x", mode=mode)
    with pytest.raises(ConfigError, match="qdrant_filter; it takes prefetch"):
        store.query(VectorStoreQuery(query_str="x"), qdrant_filter=None)
    with pytest.raises(ConfigError, match="embedding_field"):
        ask(store, "x", embedding_field="other")


def test_restrictions_all_hold(store):
    """doc_ids, node_ids, filters and a Qdrant filter narrow the search together."""
    store.add([*three(), node("Whales sing.", "song", "sea.txt", page=9)])
    assert set(ask(store, "whale", doc_ids=["sea.txt", "42"]).ids) == {"a whale", "song", "42"}
    assert ask(store, "whale", node_ids=["song", "absent"]).ids == ["song"]
    pages = MetadataFilters(
        filters=[MetadataFilter(key="page", value=5, operator=FilterOperator.LT)]
    )
    assert ask(store, "whale", doc_ids=["sea.txt"], filters=pages).ids == ["a whale"]
    tagged = models.FieldCondition(key="metadata.tags", match=models.MatchValue(value="food"))
    query = VectorStoreQuery(query_str="whale", similarity_top_k=4)
    found = store.query(query, qdrant_filters=models.Filter(must=[tagged]))
    assert found.ids == [three()[1].node_id]
    assert store.query(query, prefetch=1, qdrant_filters=None).ids[0] == "a whale"
    assert ask(store, "whale", doc_ids=[], node_ids=[], similarity_top_k=9).ids != []


async def test_async_does_the_same_on_a_thread(store, embedding):
    """Every async method does what its sync twin does, and leaves the event loop free."""
    assert await store.async_add(three()) == [one.node_id for one in three()]
    query = VectorStoreQuery(query_str="bread", similarity_top_k=2)
    assert (await store.aquery(query)).ids == store.query(query).ids
    assert [n.node_id for n in await store.aget_nodes(["42"])] == ["42"]
    await store.adelete_nodes(["42"])
    await store.adelete("sea.txt")
    assert len(store.get_nodes()) == 1
    await store.aclear()
    assert store.get_nodes() == []


async def test_cancelling_an_add_stops_the_encoding(store, long_work):
    """Minutes of encoding are left when it is cancelled, yet the store answers at once."""
    task = asyncio.create_task(store.async_add([TextNode(text=text) for text in long_work]))
    await asyncio.sleep(0.5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.wait_for(store.aget_nodes(), 60) == []


# -- models and collections ----------------------------------------------------------------------


def test_any_embedding_model(client):
    """Another model's nodes are stored by their vector and words, without landmarks."""
    store = LMKVectorStore(client, "other", MockEmbedding(embed_dim=4))
    nodes = [
        node(text, str(number)).model_copy(update={"embedding": [0.1, 0.1, 0.1, float(number)]})
        for number, text in enumerate((WHALE, BREAD))
    ]
    store.add(nodes)
    result = ask(store, query_embedding=[0.0, 0.0, 0.0, 1.0])
    assert result.ids == ["1", "0"]
    assert ask(store, "oven", mode=VectorStoreQueryMode.HYBRID, alpha=0.05).ids[0] == "1"
    assert store.info()["encoded_again"] == 0
    with pytest.raises(DocumentError, match="'x' has no embedding"):
        store.add([node("text", "x")])
    with pytest.raises(SpaceMismatchError):
        LMKVectorStore(client, "other", MockEmbedding(embed_dim=5))


def test_no_model_at_all(client, embedding):
    """Vectors come with nodes and queries: into a new collection, and into one that is there."""
    given = node(WHALE, "w").model_copy(update={"embedding": [1.0, 0.0]})
    for _ in range(2):
        store = LMKVectorStore(client, "bare")
        store.add([given])
        assert ask(store, query_embedding=[1.0, 0.0]).ids == ["w"]
    with pytest.raises(DocumentError, match="2 finite numbers"):
        store.add([node(BREAD, "b").model_copy(update={"embedding": [1.0]})])
    LMKVectorStore(client, "docs", embedding).add(three())
    bare = LMKVectorStore(client, "docs")
    before = bare.info()["recipe"]
    vector = embedding.get_text_embedding(BREAD)
    bare.add([node(BREAD, "again").model_copy(update={"embedding": vector})])
    assert ask(bare, query_embedding=vector, similarity_top_k=1).ids == ["again"]
    assert bare.info()["recipe"] == before


def test_an_ingested_collection(client, encoder, embedding):
    """Sections of `lmk ingest` are nodes with SOURCE and exact offsets; delete takes them all."""
    text = "\n ".join(f"Whale number {n} sang. Bread number {n} was baked." for n in range(60))
    index = LandmarkIndex(client, "docs", encoder, section_tokens=64)
    index.ingest([Document(text, id="long", metadata={"page": 4}), Document(CHESS, id="chess")])
    store = LMKVectorStore.from_index(index)
    for opened in (
        store,
        LMKVectorStore(client, "docs", embedding),
        LMKVectorStore(client, "docs"),
    ):
        result = ask(
            opened,
            query_embedding=embedding.get_query_embedding("a whale"),
            similarity_top_k=3,
            doc_ids=["long"],
        )
        assert [n.ref_doc_id for n in result.nodes] == ["long"] * 3
        for found in result.nodes:
            assert text[found.start_char_idx : found.end_char_idx] == found.text
            assert found.metadata["page"] == 4
    sections = store.get_nodes()
    assert len(sections) == index.info()["sections"]
    assert "" not in {n.text for n in sections}
    assert store.get_nodes([sections[0].node_id])[0].text == sections[0].text
    store.delete("long")
    assert index.count() == 1
    assert [n.ref_doc_id for n in store.get_nodes()] == ["chess"]


def test_points_of_langchain_are_nodes(store, embedding):
    """A point with page_content and metadata alone is a node of that text."""
    store.add(three())
    point = models.PointStruct(
        id=7,
        vector={"lmk": embedding.get_text_embedding("Granite is a rock.")},
        payload={"page_content": "Granite is a rock.", "metadata": {"k": "v"}},
    )
    store.client.upsert("docs", points=[point], wait=True)
    (found,) = ask(store, "What is granite?", similarity_top_k=1).nodes
    assert (found.node_id, found.text, found.metadata) == ("7", "Granite is a rock.", {"k": "v"})
    assert store.get_nodes(["7"])[0].text == found.text


def test_llama_indexs_own_store_shares_the_collection(store, embedding):
    """Its nodes are found here, filters and offsets included; ours are found there."""
    from llama_index.vector_stores.qdrant import QdrantVectorStore

    ours = node("Granite is a rock.", "6b0c3c1e-52c5-4a57-9c6f-0d6b5d0b0002", "rocks", page=3)
    theirs = node("Marble is a rock too.", "6b0c3c1e-52c5-4a57-9c6f-0d6b5d0b0003", "rocks", page=4)
    theirs.start_char_idx, theirs.end_char_idx = 5, 26
    store.add([*three(), ours])
    other = QdrantVectorStore("docs", client=store.client, dense_vector_name="lmk")
    other.add(embedding([theirs]))
    vector = embedding.get_query_embedding("Which rocks are there?")
    for mode in (VectorStoreQueryMode.DEFAULT, VectorStoreQueryMode.HYBRID):
        result = ask(store, "rock", query_embedding=vector, mode=mode, similarity_top_k=2)
        assert set(result.ids) == {ours.node_id, theirs.node_id}
        assert same({n.node_id: n for n in result.nodes}[theirs.node_id], theirs)
    pages = MetadataFilters(
        filters=[MetadataFilter(key="page", value=3, operator=FilterOperator.GTE)]
    )
    query = VectorStoreQuery(query_embedding=vector, similarity_top_k=9, filters=pages)
    assert set(store.query(query).ids) == {"42", ours.node_id, theirs.node_id}
    there = other.query(query).nodes
    assert {n.node_id for n in there} == {"42", ours.node_id, theirs.node_id}
    assert same({n.node_id: n for n in there}[ours.node_id], ours)
    store.delete("rocks")
    assert len(store.get_nodes()) == 3


def test_a_store_travels_by_its_location(tmp_path, embedding):
    """One made from a directory is pickled as configuration; one over a client says why not."""
    store = LMKVectorStore(tmp_path / "store", "docs", embedding, default_mode="landmark")
    store.add(three())
    pickled = pickle.dumps(store)
    store.close()
    again = pickle.loads(pickled)
    assert (again.collection_name, again.default_mode) == ("docs", "landmark")
    assert len(again.get_nodes()) == 3
    assert ask(again, "bread", similarity_top_k=1).ids == [three()[1].node_id]
    with pytest.raises(ConfigError, match="cannot be pickled"):
        pickle.dumps(LMKVectorStore(again.client, "docs"))
    again.close()
    with pytest.raises(ConfigError, match="in memory"):
        pickle.dumps(LMKVectorStore(":memory:", "docs"))
    with pytest.raises(ConfigError, match="LlamaIndex embedding model"):
        LMKVectorStore(":memory:", "docs", "default")


def test_a_node_that_cannot_be_stored_stores_none(store):
    """The error names it, and none of its batch is stored."""
    store.add(three())
    with pytest.raises(DocumentError):
        store.add([node("fine", "fine"), node("lone \ud800 surrogate", "bad")])
    with pytest.raises(DocumentError, match="metadata"):
        store.add([node("fine", "fine"), node("x", "bad", thing=object())])
    assert store.get_nodes(["fine", "bad"]) == []


@pytest.mark.parametrize("place", ["memory", "edge"])
def test_a_document_is_deleted_by_the_id_that_searches_tell(place, tmp_path):
    """The nodes of a document go with its id from every side, and no others do."""
    store = LMKVectorStore(":memory:" if place == "memory" else tmp_path / "store", "docs")
    nodes = [TextNode(id_=f"n{i}", text=f"node {i}", embedding=[1.0, float(i)]) for i in range(3)]
    for node in nodes[:2]:
        node.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id="whole")
    nodes[2].metadata = {"doc_id": "whole"}
    store.add(nodes)
    hits = store.index.search(vector=[1.0, 0.0], mode="dense", limit=2)
    assert {hit.doc_id for hit in hits} == {"whole"}
    assert store.index.delete("whole") == 2
    assert [node.node_id for node in store.get_nodes()] == ["n2"]
    assert store.index.delete(["whole", "nothing"]) == 0
