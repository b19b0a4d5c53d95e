"""LMKRetriever: passages, and where each comes from."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain_core.retrievers import BaseRetriever
from langchain_tests.integration_tests import RetrieversIntegrationTests
from pydantic import ValidationError

from lmk_integrations import ConfigError, Document, LandmarkIndex, Mark, StoreError
from lmk_integrations.langchain import LMKRetriever

FILLER = "The committee met again and put off its decision. The minutes were read and approved. "
FACTS = {
    "bridge": "The old stone bridge was built by Maria Keller in 1741. ",
    "bread": "A loaf of rye bread takes four hours to rise. ",
    "lighthouse": "The lighthouse keeper counted nine ships before the storm. ",
}
QUERIES = {
    "bridge": "Who built the stone bridge?",
    "bread": "How long does rye bread rise?",
    "lighthouse": "How many ships did the lighthouse keeper count?",
}


def _text(name: str) -> str:
    """The fact lies in the middle of a text of several sections."""
    return FILLER * 12 + FACTS[name] + FILLER * 12


@pytest.fixture(scope="module")
def index(encoder):
    """Three documents of several sections; the fact of each is on its page 2."""
    made = LandmarkIndex(":memory:", "library", encoder, section_tokens=128)
    for number, name in enumerate(FACTS):
        text = _text(name)
        made.ingest(
            Document(
                text,
                id=f"{name}.txt",
                source=f"files/{name}.txt",
                title=f"The {name}",
                metadata={"shelf": number, "score": "given"},
                marks=(
                    Mark(0, "heading", "Opening"),
                    Mark(0, "page", "1"),
                    Mark(len(FILLER) * 6, "heading", "Findings"),
                    Mark(len(FILLER) * 6, "page", "2"),
                ),
            )
        )
    yield made
    made.close()


class TestStandard(RetrieversIntegrationTests):
    @pytest.fixture(autouse=True)
    def _opened(self, index):
        self.index = index

    @property
    def retriever_constructor(self) -> type[BaseRetriever]:
        return LMKRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"index": self.index}

    @property
    def retriever_query_example(self) -> str:
        return QUERIES["bridge"]


@pytest.mark.parametrize("search_type", ["hybrid", "dense", "landmark", "bm25", "document", "mmr"])
@pytest.mark.parametrize("name", FACTS)
def test_passages_are_exact_pieces_of_their_documents(index, name, search_type):
    """Every search type gives pieces of the documents by their characters."""
    found = LMKRetriever(index=index, search_type=search_type, k=3).invoke(QUERIES[name])
    assert found
    for passage in found:
        facts = passage.metadata
        whole = _text(facts["document_id"].removesuffix(".txt"))
        assert passage.page_content == whole[facts["start"] : facts["end"]] != ""


@pytest.mark.parametrize("search_type", ["hybrid", "bm25"])
@pytest.mark.parametrize("name", FACTS)
def test_the_passage_with_the_answer_comes_first_with_its_place(index, name, search_type):
    """The first passage holds the fact, and tells document, source, title, heading and page."""
    found = LMKRetriever(index=index, search_type=search_type).invoke(QUERIES[name])
    first = found[0]
    if search_type == "hybrid":  # BM25 alone ranks sections, and knows no passage in them
        assert FACTS[name].strip() in first.page_content
    expected = {
        "document_id": f"{name}.txt",
        "source": f"files/{name}.txt",
        "title": f"The {name}",
        "heading": "Findings",
        "page": 2,
        "shelf": list(FACTS).index(name),
    }
    assert {key: first.metadata[key] for key in expected} == expected
    scores = [passage.metadata["score"] for passage in found]
    assert scores == sorted(scores, reverse=True)
    assert len({passage.id for passage in found}) == len(found)


def test_per_document_spreads_the_passages(index):
    """At most so many passages of one document, and still k where there are enough."""
    many = LMKRetriever(index=index, k=6).invoke("the committee and its minutes")
    spread = LMKRetriever(index=index, k=6, per_document=2).invoke("the committee and its minutes")
    single = LMKRetriever(index=index, k=6, per_document=1).invoke("the committee and its minutes")
    assert len(many) == len(spread) == 6
    names = [passage.metadata["document_id"] for passage in spread]
    assert sorted(names) == sorted([f"{name}.txt" for name in FACTS] * 2)
    assert len(single) == len({passage.metadata["document_id"] for passage in single}) == 3


def test_document_search_gives_each_document_once(index):
    """Documents by their whole vector, each shown by its best passage."""
    found = LMKRetriever(index=index, search_type="document", k=3).invoke(QUERIES["bread"])
    assert {passage.metadata["document_id"] for passage in found} == {f"{n}.txt" for n in FACTS}
    by_id = {passage.metadata["document_id"]: passage.page_content for passage in found}
    assert "rye bread" in by_id["bread.txt"]


def test_filter_and_passage_tokens(index):
    """Plain filters choose documents; the passage keeps to its size."""
    retriever = LMKRetriever(index=index, filter={"shelf": {"gte": 1}}, k=20)
    found = retriever.invoke(QUERIES["bridge"])
    assert {passage.metadata["shelf"] for passage in found} == {1, 2}
    short = LMKRetriever(index=index, passage_tokens=24).invoke(QUERIES["bridge"])[0]
    long = LMKRetriever(index=index, passage_tokens=96).invoke(QUERIES["bridge"])[0]
    assert len(short.page_content) < len(long.page_content)


def test_mmr_trades_nearness_for_difference(index):
    """lambda_mult=1 is the ranking by nearness; 0 gives other passages, the first the same."""
    near, far = (
        LMKRetriever(index=index, search_type="mmr", k=3, fetch_k=12, lambda_mult=weight).invoke(
            QUERIES["bridge"]
        )
        for weight in (1.0, 0.0)
    )
    assert near[0].id == far[0].id
    assert [passage.id for passage in near] != [passage.id for passage in far]


def test_options_for_one_query(index):
    """Every option can be given with a query, is checked, and leaves the retriever as it was."""
    retriever = LMKRetriever(index=index, k=4)
    found = retriever.invoke(QUERIES["bread"], k=1, filter={"shelf": 0}, search_type="dense")
    assert [passage.metadata["shelf"] for passage in found] == [0]
    assert len(retriever.invoke(QUERIES["bread"])) == 4
    with pytest.raises(ConfigError, match="filters="):
        retriever.invoke(QUERIES["bread"], filters={"shelf": 0})
    with pytest.raises(ValidationError):
        retriever.invoke(QUERIES["bread"], k=0)


def test_misplaced_options_are_refused(index):
    """An option that would be ignored is an error; so is a search that does not exist."""
    with pytest.raises(ValidationError, match="search_kwargs"):
        LMKRetriever(index=index, search_kwargs={"k": 3})
    with pytest.raises(ValidationError, match="search_type"):
        LMKRetriever(index=index, search_type="similarity")
    with pytest.raises(ConfigError, match="neither"):
        LMKRetriever(index=index, filter="shelf = 1").invoke("bread")


def test_no_collection_is_an_error(encoder):
    """A retriever is not asked before something is stored: a wrong name is told."""
    with (
        LandmarkIndex(":memory:", "nowhere", encoder) as empty,
        pytest.raises(StoreError, match="nowhere"),
    ):
        LMKRetriever(index=empty).invoke("anything")


async def test_async_finds_the_same_without_blocking(index):
    """The event loop goes on while passages are looked for."""
    retriever = LMKRetriever(index=index)
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.001)
            ticks += 1

    ticking = asyncio.create_task(tick())
    found = await retriever.ainvoke(QUERIES["bridge"])
    ticking.cancel()
    assert ticks > 0
    assert found == retriever.invoke(QUERIES["bridge"])
