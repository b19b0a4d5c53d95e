"""LMKRetriever: passages with exact places, and LlamaIndex's engines on top of them."""

from __future__ import annotations

import pytest
from llama_index.core import Document as LlamaDocument
from llama_index.core import StorageContext, VectorStoreIndex
from llama_index.core.chat_engine import CondensePlusContextChatEngine
from llama_index.core.llms.mock import MockLLM
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import MetadataMode, NodeRelationship, ObjectType, QueryBundle
from llama_index.core.vector_stores.types import (
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
)
from qdrant_client import models

from lmk_integrations import Document, LandmarkIndex
from lmk_integrations.errors import ConfigError
from lmk_integrations.llama_index import LMKEmbedding, LMKRetriever, LMKVectorStore
from lmk_integrations.qdrant import connect
from lmk_integrations.records import Mark

SEA = "# Whales\n\n" + "".join(
    f"In year {n} a blue whale sang for the ships of the northern sea.\n\n" for n in range(40)
)
FOOD = " ".join(f"Loaf {n} of rye bread was baked with sourdough in the oven." for n in range(40))
TEXTS = {"sea": SEA, "food": FOOD}


@pytest.fixture(scope="module", params=["edge", "memory"])
def index(request, tmp_path_factory, encoder):
    location = tmp_path_factory.mktemp("retriever") / "store"
    client = connect(":memory:" if request.param == "memory" else location)
    made = LandmarkIndex(client, "docs", encoder, section_tokens=96)
    made.ingest(
        [
            Document(
                SEA,
                id="sea",
                metadata={"kind": "animal", "year": 1990},
                title="The sea",
                source="sea.txt",
                marks=(Mark(0, "page", "7"),),
                markup="markdown",
            ),
            Document(FOOD, id="food", metadata={"kind": "dish", "year": 2001}),
        ]
    )
    yield made
    client.close()


def test_passages_have_exact_places(index):
    """Text, offsets, SOURCE, metadata and score are those of the index's own passages."""
    found = LMKRetriever(index, similarity_top_k=3).retrieve("How is rye bread baked?")
    hits = index.search("How is rye bread baked?", 3)
    assert [one.score for one in found] == [hit.score for hit in hits]
    for one, hit in zip(found, hits, strict=True):
        node = one.node
        assert (
            node.text == hit.passage.text == TEXTS[hit.doc_id][hit.passage.start : hit.passage.end]
        )
        assert (node.start_char_idx, node.end_char_idx) == (hit.passage.start, hit.passage.end)
        assert node.ref_doc_id == hit.doc_id
        source = node.relationships[NodeRelationship.SOURCE]
        assert source.node_type == ObjectType.DOCUMENT
    assert found[0].node.metadata == {"kind": "dish", "year": 2001}


def test_metadata_says_where_a_passage_is(index):
    """Source, title, heading and page are for the language model to cite; none is embedded."""
    (found,) = LMKRetriever(index, similarity_top_k=1).retrieve("What did the blue whale sing?")
    assert found.node.metadata == {
        "kind": "animal",
        "year": 1990,
        "source": "sea.txt",
        "title": "The sea",
        "heading": "Whales",
        "page": 7,
    }
    assert "title: The sea" in found.node.get_content(MetadataMode.LLM)
    assert found.node.get_content(MetadataMode.EMBED) == found.node.text


def test_ids_are_stable_and_distinct(index):
    """The same passage has the same id in every search, and no two share one."""
    first, second = (LMKRetriever(index, similarity_top_k=9).retrieve("whale") for _ in range(2))
    ids = [one.node.node_id for one in first]
    assert ids == [one.node.node_id for one in second]
    assert len(set(ids)) == 9


@pytest.mark.parametrize("mode", ["hybrid", "dense", "landmark", "bm25", "document"])
def test_modes(index, mode):
    """Every mode of the index is one of the retriever."""
    found = LMKRetriever(index, mode=mode, similarity_top_k=2).retrieve("rye bread sourdough")
    assert found[0].node.ref_doc_id == "food"


@pytest.mark.parametrize(
    "filters",
    [
        {"year": {"lt": 2000}},
        MetadataFilters(
            filters=[MetadataFilter(key="year", value=2000, operator=FilterOperator.LT)]
        ),
        models.Filter(
            must=[models.FieldCondition(key="metadata.year", range=models.Range(lt=2000))]
        ),
    ],
    ids=["mapping", "llama_index", "qdrant"],
)
def test_filters_of_every_kind(index, filters):
    """A mapping, MetadataFilters and a Qdrant filter choose the same."""
    found = LMKRetriever(index, similarity_top_k=50, filters=filters).retrieve("rye bread")
    assert {one.node.ref_doc_id for one in found} == {"sea"}


def test_per_document_and_passage_tokens(index):
    """At most so many passages of one document, each of at most so many tokens."""
    for most in (1, 2):
        found = LMKRetriever(index, similarity_top_k=4, per_document=most).retrieve("whale")
        names = [one.node.ref_doc_id for one in found]
        assert sorted(names) == sorted(["sea", "food"] * most)
        assert names[0] == "sea"
    texts = []
    for tokens in (32, 96):
        found = LMKRetriever(index, similarity_top_k=9, passage_tokens=tokens).retrieve("whale")
        hits = index.search("whale", 9, passage_tokens=tokens)
        texts.append([one.node.text for one in found])
        assert texts[-1] == [hit.passage.text for hit in hits]
    assert sum(map(len, texts[0])) < sum(map(len, texts[1]))


async def test_async_gives_the_same(index):
    """aretrieve finds what retrieve finds."""
    retriever = LMKRetriever(index, similarity_top_k=3)
    found, again = retriever.retrieve("whale"), await retriever.aretrieve("whale")
    assert [one.node.node_id for one in found] == [one.node.node_id for one in again]


def test_a_bundle_may_bring_its_own_vector(index, encoder):
    """An embedding, or texts to embed in place of the query (HyDE), steer the dense search."""
    retriever = LMKRetriever(index, mode="dense", similarity_top_k=1)
    vector = encoder.encode_queries(["rye bread in the oven"])[0].tolist()
    for bundle in (
        QueryBundle("whale", embedding=vector),
        QueryBundle("whale", custom_embedding_strs=["rye bread", "an oven"]),
    ):
        assert retriever.retrieve(bundle)[0].node.ref_doc_id == "food"
    assert retriever.retrieve("whale")[0].node.ref_doc_id == "sea"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"mode": "sparse"}, "bm25"),
        ({"fusion": "sum"}, "rrf"),
        ({"similarity_top_k": 0}, "similarity_top_k=0"),
        ({"per_document": True}, "per_document=True"),
        ({"passage_tokens": 0}, "passage_tokens=0"),
        ({"prefetch": 1.5}, "prefetch=1.5"),
    ],
)
def test_settings_are_checked_when_it_is_made(index, options, said):
    """An impossible setting is named at once, with what there is."""
    with pytest.raises(ConfigError, match=said):
        LMKRetriever(index, **options)
    with pytest.raises(ConfigError, match=r"LMKVectorStore\.index"):
        LMKRetriever("docs")


async def test_query_and_chat_engines(index):
    """The passages are what the language model is given, and what the answer cites."""
    retriever = LMKRetriever(index, similarity_top_k=2)
    engine = RetrieverQueryEngine.from_args(retriever, llm=MockLLM())
    for answer in (engine.query("Which whale sang?"), await engine.aquery("Which whale sang?")):
        assert [one.node.ref_doc_id for one in answer.source_nodes] == ["sea", "sea"]
        assert answer.source_nodes[0].node.text in str(answer)
    chat = CondensePlusContextChatEngine.from_defaults(retriever, llm=MockLLM())
    reply = chat.chat("Which whale sang?")
    assert [one.node.ref_doc_id for one in reply.source_nodes] == ["sea", "sea"]


def test_a_vector_store_index_over_the_same_collection(encoder):
    """from_documents with our store, opened again with from_vector_store: a whole application."""
    embedding = LMKEmbedding(encoder=encoder)
    store = LMKVectorStore(":memory:", "docs", embedding)
    documents = [LlamaDocument(text=text, id_=name) for name, text in TEXTS.items()]
    VectorStoreIndex.from_documents(
        documents,
        storage_context=StorageContext.from_defaults(vector_store=store),
        embed_model=embedding,
        transformations=[SentenceSplitter(chunk_size=128, chunk_overlap=0)],
    )
    assert store.info()["encoded_again"] == 0
    opened = VectorStoreIndex.from_vector_store(store, embed_model=embedding)
    engine = opened.as_query_engine(
        llm=MockLLM(), similarity_top_k=2, vector_store_query_mode="hybrid"
    )
    answer = engine.query("How is rye bread baked?")
    assert {one.node.ref_doc_id for one in answer.source_nodes} == {"food"}
    for one in answer.source_nodes:
        assert FOOD[one.node.start_char_idx : one.node.end_char_idx] == one.node.text
    chat = opened.as_chat_engine(chat_mode="context", llm=MockLLM())
    assert chat.chat("What did the whale sing?").source_nodes[0].node.ref_doc_id == "sea"
    passages = LMKRetriever(store.index, similarity_top_k=2).retrieve("How is rye bread baked?")
    for one in passages:
        assert FOOD[one.node.start_char_idx : one.node.end_char_idx] == one.node.text
        assert one.node.ref_doc_id == "food"
    opened.delete_ref_doc("food")
    assert {node.ref_doc_id for node in store.get_nodes()} == {"sea"}
    store.close()
