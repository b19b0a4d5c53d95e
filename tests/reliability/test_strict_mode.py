"""Servers in strict mode, as Qdrant's own cloud runs them: filters by indexed keys only.

Whatever this package does by itself works there; a filter by the user's own key says what to do.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from langchain_core.documents import Document as LangChainDocument
from langchain_core.embeddings import Embeddings
from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode
from qdrant_client import models
from qdrant_server import serve

from lmk_integrations import Document, LandmarkIndex, StoreError
from lmk_integrations.encoder import PlainEncoder
from lmk_integrations.langchain import LMKVectorStore
from lmk_integrations.llama_index import LMKVectorStore as LlamaStore
from lmk_integrations.qdrant.items import Item
from lmk_integrations.qdrant.move import copy_collection
from lmk_integrations.qdrant.rebuild import rebuild
from lmk_integrations.qdrant.verify import verify

WORDS = ("tower", "bread", "volcano")
MODES: tuple[Any, ...] = ("hybrid", "dense", "landmark", "bm25", "document")
NAME = "library"


class Words(Embeddings):
    """The same model for LangChain."""

    def embed_query(self, text: str) -> list[float]:
        return embed(text)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [embed(text) for text in texts]


def embed(text: str) -> list[float]:
    return [1.0 if word in text.lower() else 0.01 for word in WORDS]


def toy(name: str = "toy") -> PlainEncoder:
    """A model that is cheap to run: which words a text holds."""
    return PlainEncoder(lambda texts: [embed(text) for text in texts], embed, name=name, dim=3)


@pytest.fixture(params=["rest", "grpc"])
def store(request: pytest.FixtureRequest) -> Iterator[Any]:
    with serve(request.param, strict=True) as server:
        client = server.client()
        yield client
        client.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    for word in WORDS:
        (folder / f"{word}.txt").write_text(f"All about the {word}.\n\n" * 3)
    return folder


def test_the_server_is_strict(store: Any) -> None:
    """By key, and by the type that a condition needs; ids need no index."""
    LandmarkIndex(store, NAME, toy()).ingest([Document("The tower.", id="a")])
    everything = models.Filter(must_not=[models.HasIdCondition(has_id=[])])
    assert store.count(NAME, count_filter=everything).count == 2
    refused: tuple[Any, ...] = (
        models.FieldCondition(key="metadata.year", range=models.Range(gte=1)),
        models.FieldCondition(key="lmk.kind", match=models.MatchValue(value=1)),
        models.FieldCondition(key="lmk.generation", match=models.MatchValue(value="1")),
        models.IsEmptyCondition(is_empty=models.PayloadField(key="title")),
    )
    for condition in refused:
        inner = models.Filter(should=[models.Filter(must_not=[condition])])
        with pytest.raises(Exception, match="Index required but not found"):
            store.count(NAME, count_filter=inner)


def test_the_life_of_a_collection(store: Any, folder: Path) -> None:
    """Ingest, skip, update, search, prune, delete, verify, repair."""
    index = LandmarkIndex(store, NAME, toy())
    assert index.ingest(folder).new == 3
    assert index.ingest(folder).unchanged == 3
    tower = folder / "tower.txt"
    for text in ("The tower fell.", "The tower stands again."):  # twice: generations 1 and 2
        tower.write_text(text)
        assert index.ingest(folder).updated == 1
    for mode in MODES:
        assert index.search("tower", 1, mode=mode)[0].source == "tower.txt"
        chosen = index.search("tower", 9, mode=mode, filter={"source": "bread.txt"})
        assert {hit.source for hit in chosen} <= {"bread.txt"}
        assert chosen or mode == "bm25"
        assert index.search("tower", 9, mode=mode, filter={"doc_id": "docs/tower.txt"})
        assert index.search("tower", 9, mode=mode, filter={"page": {"gte": 1}, "title": "x"}) == []
    assert verify(index, folder).ok
    (folder / "bread.txt").unlink()
    assert index.ingest(folder, prune=True).pruned == 1
    assert index.get(["docs/tower.txt"])["docs/tower.txt"].text == "The tower stands again."
    store.delete(
        NAME,
        models.FilterSelector(
            filter=models.Filter(
                must=[
                    models.FieldCondition(key="lmk.kind", match=models.MatchValue(value="head")),
                ]
            )
        ),
    )
    assert not verify(index, folder).ok
    assert verify(index, folder, repair=True).ok
    assert index.delete(["docs/tower.txt"]) == 1
    assert index.count() == 1


def test_the_frameworks_stores(store: Any) -> None:
    """Documents of LangChain; LlamaIndex nodes that are parts of documents; items."""
    with LMKVectorStore(store, "lc", Words()) as chain:
        documents = [LangChainDocument(f"The {word}.", id=word) for word in WORDS]
        assert chain.add_documents(documents) == list(WORDS)
        [found] = chain.similarity_search("bread", k=1)
        assert found.id == "bread"
        assert chain.delete(["bread"])
        assert len(chain.get_by_ids(list(WORDS))) == 2
    nodes = [
        TextNode(
            id_=f"00000000-0000-0000-0000-00000000000{number}",
            text=f"The {word}.",
            embedding=embed(word),
            relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=f"of {word}")},
        )
        for number, word in enumerate(WORDS)
    ]
    llama = LlamaStore(store, "li")
    llama.add(nodes)
    assert len(llama.get_nodes([nodes[0].node_id])) == 1
    llama.delete("of tower")
    assert llama.get_nodes([nodes[0].node_id]) == []
    assert len(llama.get_nodes([nodes[1].node_id])) == 1
    index = LandmarkIndex(store, "items", toy())
    index.put(
        [Item(id=word, text=word, vector=np.array(embed(word), np.float32)) for word in WORDS]
    )
    assert index.delete(["tower"]) == 1


def test_copy_and_rebuild(store: Any, folder: Path) -> None:
    index = LandmarkIndex(store, NAME, toy())
    index.ingest(folder)
    copied = copy_collection(store, store, NAME, target_name="copy", prune=True)
    assert copied.verified
    report = rebuild(store, NAME, toy("other"), folder, drop_old=True)
    assert (report.swapped, report.problems) == (True, [])
    assert LandmarkIndex(store, NAME, toy("other")).search("bread", 1)[0].source == "bread.txt"


def test_a_filter_by_ones_own_key(store: Any) -> None:
    """Refused with the key, its type and the call that makes an index; then it works."""
    index = LandmarkIndex(store, NAME, toy())
    index.ingest(
        Document(f"The tower in {year}.", id=str(year), metadata={"year": year})
        for year in (1900, 2000)
    )
    with pytest.raises(StoreError, match=r'"metadata.year".*integer.*create_payload_index'):
        index.search("tower", filter={"year": {"gte": 1950}})
    store.create_payload_index(NAME, "metadata.year", models.PayloadSchemaType.INTEGER)
    assert [hit.doc_id for hit in index.search("tower", filter={"year": {"gte": 1950}})] == ["2000"]


def test_a_collection_that_lacks_indexes(store: Any, folder: Path) -> None:
    """As an earlier version of this package made it: the next ingest makes them."""
    LandmarkIndex(store, NAME, toy()).ingest(folder)
    for key in ("lmk.hash", "lmk.recipe", "lmk.generation"):
        store.delete_payload_index(NAME, key)
    (folder / "tower.txt").write_text("The tower fell.")
    assert LandmarkIndex(store, NAME, toy()).ingest(folder).updated == 1
    assert {"lmk.hash", "lmk.recipe", "lmk.generation"} <= set(
        store.get_collection(NAME).payload_schema
    )
