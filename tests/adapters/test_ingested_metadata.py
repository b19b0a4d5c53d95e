"""What the frameworks' stores tell of documents that were read from files."""

from __future__ import annotations

from pathlib import Path

import pytest
from llama_index.core.vector_stores import VectorStoreQuery

from lmk_integrations import Document, LandmarkIndex
from lmk_integrations.langchain import LMKEmbeddings
from lmk_integrations.langchain import LMKVectorStore as LangChainStore
from lmk_integrations.llama_index import LMKVectorStore as LlamaIndexStore
from lmk_integrations.records import Mark

TOLD = {"source": "deep/light.md", "title": "The lighthouse", "heading": "The lighthouse"}


@pytest.fixture
def index(encoder, tmp_path: Path):
    """A folder's file, and a document with a page that says its own title."""
    folder = tmp_path / "docs"
    (folder / "deep").mkdir(parents=True)
    text = "# The lighthouse\n\nThe keeper climbed the stairs to light the lamp."
    (folder / "deep" / "light.md").write_text(text, encoding="utf-8")
    given = Document(
        "Rye bread needs a sourdough.",
        id="bread",
        title="Bread",
        source="bread.pdf",
        marks=(Mark(0, "page", "7"),),
        metadata={"title": "Mine", "shelf": 3},
    )
    with LandmarkIndex(":memory:", "docs", encoder) as made:
        report = made.ingest([folder, given])
        assert (report.new, report.failed) == (2, [])
        yield made


def test_langchain_tells_the_source_of_files(index, encoder):
    """source, title, heading and page, by search and by id; metadata that were given stay."""
    store = LangChainStore(index.client, "docs", LMKEmbeddings(encoder=encoder))
    (light,) = store.similarity_search("Who lights the lamp?", k=1)
    assert (light.id, light.metadata) == ("docs/deep/light.md", TOLD)
    (bread,) = store.similarity_search("sourdough", k=1, mode="bm25")
    assert bread.metadata == {"source": "bread.pdf", "title": "Mine", "shelf": 3, "page": 7}
    found = store.get_by_ids(["docs/deep/light.md", "bread"])
    assert [document.metadata for document in found] == [
        {"source": "deep/light.md", "title": "The lighthouse"},
        {"source": "bread.pdf", "title": "Mine", "shelf": 3},
    ]


@pytest.mark.parametrize(
    "metadata", [{}, {"source": None}, {"title": 5, "heading": ["x"]}, {"page": "iv"}]
)
def test_langchain_adds_nothing_to_what_it_was_given(index, encoder, metadata):
    """A document given through the store comes back with the metadata that it came with."""
    store = LangChainStore(index.client, "docs", LMKEmbeddings(encoder=encoder))
    store.add_texts(["# A heading\n\nWhales sing in the deep sea."], [metadata], ids=["whale"])
    (found,) = store.similarity_search("Whales", k=1, mode="bm25")
    assert (found.id, found.metadata) == ("whale", metadata)
    assert store.get_by_ids(["whale"])[0].metadata == metadata


def test_llama_index_tells_the_source_of_files(index, encoder):
    """Nodes of a query have the same."""
    store = LlamaIndexStore.from_index(index)
    vector = encoder.encode_queries(["Who lights the lamp?"])[0].tolist()
    result = store.query(VectorStoreQuery(query_embedding=vector, similarity_top_k=1))
    assert TOLD.items() <= result.nodes[0].metadata.items()
