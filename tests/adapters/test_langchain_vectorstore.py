"""LMKVectorStore beyond the standard suite."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import numpy as np
import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding, Embeddings
from qdrant_client import QdrantClient, models

from lmk_integrations import ConfigError, DocumentError, LandmarkIndex, SpaceMismatchError
from lmk_integrations.langchain import LMKEmbeddings, LMKVectorStore

ANGLES = {"east": 0, "east too": 8, "north east": 45, "north": 90, "south": -90, "west": 180}


class Compass(Embeddings):
    """A text's vector points where the text says."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        angle = np.radians(ANGLES.get(text, 30))
        return [float(np.cos(angle)), float(np.sin(angle))]


class Gated(Compass):
    """Documents are embedded while the gate is open."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.n_batches = 0

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.n_batches += 1
        assert self.gate.wait(60)
        return super().embed_documents(texts)


@pytest.fixture(params=["memory", "edge"])
def store(request, tmp_path: Path):
    place = ":memory:" if request.param == "memory" else tmp_path / "store"
    with LMKVectorStore(place, "compass", Compass()) as opened:
        yield opened


@pytest.fixture
def filled(store):
    """Every direction, with metadata to filter by."""
    metadatas = [{"source": f"{name[:1]}.txt", "page": i} for i, name in enumerate(ANGLES)]
    store.add_texts(list(ANGLES), metadatas, ids=[f"id/{name}" for name in ANGLES])
    return store


def names(documents):
    return [document.page_content for document in documents]


# -- adding ----------------------------------------------------------------------------------


def test_any_string_is_an_id_and_comes_back(store):
    """Ids need be no UUIDs; metadata comes back as it was given, nested and with our own words."""
    given = {
        "source": "a/b.md",
        "title": "T",
        "start": 3,
        "section": "intro",
        "doc_id": 7,
        "nested": {"a": [1, 2.5, None, True]},
    }
    document = Document(id="ümlaut / 1#2", page_content=" east\n", metadata=given)
    assert store.add_documents([document]) == ["ümlaut / 1#2"]
    assert store.get_by_ids(["missing", "ümlaut / 1#2"]) == [document]
    assert store.similarity_search("east", k=1) == [document]


def test_upsert_by_id(store):
    """A second text of an id takes the first one's place; of two in one call the later stays."""
    assert store.add_texts(["east", "north", "west"], ids=["1", "2", "2"]) == ["1", "2", "2"]
    assert sorted(names(store.get_by_ids(["1", "2"]))) == ["east", "west"]
    store.add_texts(["south"], [{"new": True}], ids=["1"])
    [found] = store.get_by_ids(["1"])
    assert (found.page_content, found.metadata) == ("south", {"new": True})
    assert store.index.count() == 2


def test_without_ids_a_second_run_adds_nothing(store):
    """Ids follow from text and metadata, source included; every text's id comes back in order."""
    texts = ["east", "east", "east", "north"]
    metadatas = [{"source": "a"}, {"source": "b"}, {"source": "a"}, {}]
    first = store.add_texts(texts, metadatas)
    assert store.add_texts(texts, metadatas) == first
    assert first[0] == first[2]
    assert len(set(first)) == 3 == store.index.count()
    mixed = [Document(page_content="east", metadata={"source": "a"}), Document("west", id="own")]
    assert store.add_documents(mixed) == [first[0], "own"]
    assert store.index.count() == 4


def test_generators_are_stored(store):
    """Texts and documents may come from generators, longer than what is held at once."""
    ids = store.add_texts(f"text {number}" for number in range(600))
    assert len(set(ids)) == 600 == store.index.count()
    assert store.add_documents(Document(page_content=name) for name in ANGLES)
    assert store.index.count() == 600 + len(ANGLES)


@pytest.mark.parametrize("lazy", [False, True])
def test_uneven_lists_are_refused(store, lazy):
    """Fewer ids or metadatas than texts would drop texts silently."""
    for more in ({"ids": ["1"]}, {"ids": ["1", "2", "3"]}, {"metadatas": [{}]}):
        texts = ["east", "north"]
        with pytest.raises(ConfigError, match="texts"):
            store.add_texts(iter(texts) if lazy else texts, **more)
        if not lazy:
            assert store.index.count() == 0


def test_wrong_kinds_are_refused(store):
    """A single text is no list of texts, a text no document, a number no id."""
    with pytest.raises(ConfigError, match="list"):
        store.add_texts("east")
    with pytest.raises(ConfigError, match=r"documents\[1\] is a str"):
        store.add_documents([Document("east"), "north"])
    with pytest.raises(ConfigError, match="ids are strings"):
        store.add_texts(["east"], ids=[1])
    with pytest.raises(ConfigError, match="embedding="):
        LMKVectorStore(":memory:", "c", "all-MiniLM-L6-v2")


def test_a_bad_text_is_named_after_the_others_are_stored(store):
    """What is no text and impossible metadata: the error names each, the rest is stored."""
    texts = ["east", 5, "north", "west"]
    metadatas = [{}, {}, {"when": object()}, {}]
    with pytest.raises(DocumentError) as raised:
        store.add_texts(texts, metadatas, ids=["a", "b", "c", "d"])
    said = str(raised.value)
    assert "2 of 4" in said
    assert "text 1 (id 'b')" in said
    assert "text 2 (id 'c')" in said
    assert "object" in said
    assert sorted(names(store.get_by_ids(["a", "b", "c", "d"]))) == ["east", "west"]


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("add_texts", (["east"],)),
        ("add_documents", ([Document("east")],)),
        ("delete", (["1"],)),
        ("similarity_search", ("east",)),
        ("similarity_search_with_score", ("east",)),
        ("similarity_search_with_relevance_scores", ("east",)),
        ("similarity_search_by_vector", ([1.0, 0.0],)),
        ("max_marginal_relevance_search", ("east",)),
        ("max_marginal_relevance_search_by_vector", ([1.0, 0.0],)),
    ],
)
async def test_unknown_keywords_are_refused(filled, method, arguments):
    """A misspelt filter is an error and not a search without it; so in async."""
    with pytest.raises(ConfigError, match="filters="):
        getattr(filled, method)(*arguments, filters={"page": 1})
    with pytest.raises(ConfigError, match="filters="):
        await getattr(filled, f"a{method}")(*arguments, filters={"page": 1})


# -- deleting --------------------------------------------------------------------------------


def test_a_blank_text_is_stored_as_nothing(store, caplog):
    """Empty pages do not stop the others; what their id stood for is not found any more."""
    store.add_texts(["east", "north"], ids=["a", "b"])
    assert store.add_texts([" \n", "", "west"], ids=["a", "c", "d"]) == ["a", "c", "d"]
    assert names(store.get_by_ids(["a", "b", "c", "d"])) == ["north", "west"]
    assert "2 blank texts are not stored" in caplog.text


def test_delete_by_ids_only(filled):
    """delete() without ids wipes nothing; unknown ids are no error."""
    with pytest.raises(ConfigError, match="delete_collection"):
        filled.delete()
    with pytest.raises(ConfigError, match="list"):
        filled.delete("id/east")
    assert filled.index.count() == len(ANGLES)
    assert filled.delete(["id/east", "nothing"]) is True
    assert filled.delete([]) is True
    assert filled.index.count() == len(ANGLES) - 1
    assert filled.get_by_ids(["id/east"]) == []


# -- searching -------------------------------------------------------------------------------


def test_scores_are_cosines_and_relevance_is_from_0_to_1(filled):
    """The score is the cosine; relevance maps it to 0..1; thresholds cut by it."""
    found = filled.similarity_search_with_score("east", k=6)
    cosines = {name: np.cos(np.radians(angle)) for name, angle in ANGLES.items()}
    assert {one.page_content: score for one, score in found} == pytest.approx(cosines, abs=1e-5)
    assert names(one for one, _ in found)[:3] == ["east", "east too", "north east"]
    rated = filled.similarity_search_with_relevance_scores("east", k=6)
    assert [score for _, score in rated] == pytest.approx(
        [(score + 1) / 2 for _, score in found], abs=1e-6
    )
    kept = filled.similarity_search_with_relevance_scores("east", k=6, score_threshold=0.9)
    assert names(one for one, _ in kept) == ["east", "east too"]
    with pytest.raises(ConfigError, match="no fixed scale"):
        filled.similarity_search_with_relevance_scores("east", mode="hybrid")


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({"source": "n.txt"}, {"north east", "north"}),
        ({"source": "n.txt", "page": {"gte": 3}}, {"north"}),
        ({"page": [0, 5]}, {"east", "west"}),
        ({"source": "x.txt"}, set()),
        (
            models.Filter(
                must_not=[
                    models.FieldCondition(key="metadata.page", range=models.Range(gte=1, lte=5))
                ]
            ),
            {"east"},
        ),
    ],
)
@pytest.mark.parametrize("mode", ["dense", "hybrid", "landmark"])
def test_filters(filled, wanted, expected, mode):
    """Plain mappings and Qdrant's filters, in every kind of search."""
    assert set(names(filled.similarity_search("east", 6, filter=wanted, mode=mode))) == expected
    by_vector = filled.similarity_search_by_vector([1.0, 0.0], 6, filter=wanted)
    assert set(names(by_vector)) == expected
    diverse = filled.max_marginal_relevance_search("east", 6, filter=wanted, mode=mode)
    assert set(names(diverse)) == expected


def test_bm25_and_hybrid_find_words(filled):
    """Modes by words: the text of that word first, though the vector says otherwise."""
    # No direction is called so: the vector is near "north east", the word is in "south".
    assert names(filled.similarity_search("what is south?", 1)) == ["north east"]
    assert names(filled.similarity_search("what is south?", 1, mode="bm25")) == ["south"]
    hybrid = LMKVectorStore(filled.index.client, "compass", Compass(), mode="bm25")
    assert names(hybrid.similarity_search("what is south?", 1)) == ["south"]


def test_mmr_is_near_and_diverse(filled):
    """lambda_mult=1 ranks by nearness, a small one by difference, with the nearest first."""
    near = filled.max_marginal_relevance_search("east", k=3, lambda_mult=1.0)
    far = filled.max_marginal_relevance_search("east", k=3, lambda_mult=0.1)
    assert names(near) == ["east", "east too", "north east"]
    assert names(far)[:2] == ["east", "west"]
    same = filled.max_marginal_relevance_search_by_vector([1.0, 0.0], k=3, lambda_mult=0.1)
    assert same == far
    few = filled.max_marginal_relevance_search("east", k=2, fetch_k=2, lambda_mult=0.1)
    assert names(few) == ["east", "east too"]  # diversity only among fetch_k
    assert len(filled.max_marginal_relevance_search("east", k=5, fetch_k=1)) == 5
    with pytest.raises(ConfigError, match="lambda_mult"):
        filled.max_marginal_relevance_search("east", lambda_mult=2)
    for k in (0, 2.5, "3"):
        with pytest.raises(ConfigError, match="k="):
            filled.max_marginal_relevance_search("east", k=k)
        with pytest.raises(ConfigError, match="k="):
            filled.max_marginal_relevance_search_by_vector([1.0, 0.0], k=k)


def test_as_retriever(filled):
    """LangChain's own retriever works, and says so when an option is misplaced."""
    options = {"k": 2, "filter": {"page": {"gte": 1}}}
    assert names(filled.as_retriever(search_kwargs=options).invoke("east")) == [
        "east too",
        "north east",
    ]
    threshold = filled.as_retriever(
        search_type="similarity_score_threshold", search_kwargs={"score_threshold": 0.9}
    )
    assert names(threshold.invoke("east")) == ["east", "east too"]
    assert names(filled.as_retriever(search_type="mmr").invoke("east"))[0] == "east"
    with pytest.raises(ConfigError, match="search_kwargs"):
        filled.as_retriever(filter={"page": 1})


# -- long documents --------------------------------------------------------------------------


def test_long_documents_are_found_by_section_and_given_back_whole(encoder):
    """Search gives the section's text with the document's id and metadata; get_by_ids all of it."""
    text = "The committee met and put off its decision again. " * 40
    text = f"{text}The bridge was built by Maria Keller in 1741. {text}"
    given = Document(id="report", page_content=text, metadata={"source": "r.txt", "page": 4})
    embedding = LMKEmbeddings(encoder=encoder)
    with LMKVectorStore(":memory:", "long", embedding, section_tokens=128) as store:
        store.add_documents([given])
        assert store.index.count("report") > 3
        found = store.similarity_search("Who built the bridge?", k=2, mode="hybrid")
        assert "Maria Keller" in found[0].page_content
        assert all(one.page_content in text and one.page_content != text for one in found)
        assert {(one.id, str(one.metadata)) for one in found} == {("report", str(given.metadata))}
        assert store.get_by_ids(["report"]) == [given]
        assert store.embeddings is embedding


def test_the_store_shares_a_collection_with_the_index(encoder):
    """What LandmarkIndex ingests is found here, and the other way round."""
    client = QdrantClient(":memory:")
    store = LMKVectorStore(client, "shared", LMKEmbeddings(encoder=encoder))
    store.add_texts(["The bridge was built in 1741."], ids=["bridge"])
    index = LandmarkIndex(client, "shared", encoder)
    assert [hit.doc_id for hit in index.search("bridge")] == ["bridge"]
    store.close()
    assert index.count() == 1  # the client is not the store's to close


def test_other_embeddings_are_refused(filled):
    """A collection is opened by the embeddings it was filled with."""
    with pytest.raises(SpaceMismatchError, match="Compass"):
        LMKVectorStore(filled.index.client, "compass", DeterministicFakeEmbedding(size=2))


# -- making ----------------------------------------------------------------------------------


async def test_from_texts_and_from_documents(tmp_path):
    """All four constructors, by location or client, with ids and generators."""
    client = QdrantClient(":memory:")
    documents = [Document(page_content=name, id=f"id/{name}") for name in ANGLES]
    place = tmp_path / "store"
    made = [
        LMKVectorStore.from_texts(
            list(ANGLES),
            Compass(),
            [{"n": 1}] * len(ANGLES),
            ids=[f"id/{name}" for name in ANGLES],
            location=place,
            collection_name="one",
        ),
        LMKVectorStore.from_documents(
            iter(documents), Compass(), client=client, collection_name="two", mode="landmark"
        ),
        await LMKVectorStore.afrom_texts(
            iter(ANGLES),
            Compass(),
            ids=[f"id/{name}" for name in ANGLES],
            client=client,
            collection_name="three",
        ),
        await LMKVectorStore.afrom_documents(
            documents, Compass(), client=client, collection_name="four"
        ),
    ]
    for store in made:
        assert [one.id for one in store.similarity_search("east", 2)] == ["id/east", "id/east too"]
    made[0].close()
    with LMKVectorStore(place, "one", Compass()) as again:
        assert again.similarity_search("north", 1)[0].metadata == {"n": 1}


def test_from_texts_says_where(tmp_path):
    """Nothing is stored in a place that was not named."""
    for where in ({}, {"client": ":memory:", "location": str(tmp_path)}):
        with pytest.raises(ConfigError, match="location="):
            LMKVectorStore.from_texts(["east"], Compass(), collection_name="c", **where)
    with pytest.raises(TypeError, match="collection_name"):
        LMKVectorStore.from_texts(["east"], Compass(), location=":memory:")
    with pytest.raises(TypeError, match="colection"):
        LMKVectorStore.from_texts(
            ["east"], Compass(), location=":memory:", collection_name="c", colection="c"
        )


# -- async -----------------------------------------------------------------------------------


async def until(true) -> None:
    while not true():
        await asyncio.sleep(0.01)


async def test_async_leaves_the_loop_free_and_searches_do_not_wait_for_writes():
    """While texts are added, the loop runs and searches are answered."""
    embedding = Gated()
    embedding.gate.set()
    store = await LMKVectorStore.afrom_texts(
        ["east"], embedding, location=":memory:", collection_name="gated"
    )
    embedding.gate.clear()
    adding = asyncio.create_task(store.aadd_texts(["west", "north"]))
    await until(lambda: embedding.n_batches == 2)
    assert names(await store.asimilarity_search("east", k=1)) == ["east"]
    found = await store.asimilarity_search_with_relevance_scores("east", k=1)
    assert found[0][1] == pytest.approx(1.0, abs=1e-5)
    assert names(await store.amax_marginal_relevance_search("east", k=1)) == ["east"]
    assert names(await store.asimilarity_search_by_vector([1.0, 0.0], k=1)) == ["east"]
    assert not adding.done()
    embedding.gate.set()
    assert len(await adding) == 2


async def test_cancelling_ends_the_adding():
    """When the awaiting task is cancelled, texts whose turn has not come are not embedded."""
    embedding = Gated()
    store = LMKVectorStore(":memory:", "gated", embedding)
    adding = asyncio.create_task(store.aadd_texts(f"text {n}" for n in range(64_000)))
    await until(lambda: embedding.n_batches == 1)
    adding.cancel()
    with pytest.raises(asyncio.CancelledError):
        await adding
    embedding.gate.set()
    # The next write runs on the same thread, so the cancelled one has ended by then.
    await store.aadd_texts(["east"])
    assert embedding.n_batches < 20
