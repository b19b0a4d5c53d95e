"""LMKEmbeddings beyond the standard suites."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import InMemoryVectorStore

from lmk_integrations.errors import ConfigError, DocumentError
from lmk_integrations.langchain import LMKEmbeddings


@pytest.fixture
def embeddings(encoder):
    return LMKEmbeddings(encoder=encoder)


def test_values_are_the_encoders_as_plain_lists(embeddings, encoder):
    """Plain floats, the encoder's values, in order."""
    texts = ["a river", "the bank of a river", "a bank"]
    vectors = embeddings.embed_documents(texts)
    assert isinstance(embeddings, Embeddings)
    assert type(vectors) is list
    assert type(vectors[0]) is list
    assert type(vectors[0][0]) is float
    np.testing.assert_array_equal(np.float32(vectors), encoder.encode_documents(texts))


def test_query_and_document_prompts_are_kept_apart(embeddings, encoder):
    """A query gets the query prompt, a document the document prompt, never each other's."""
    query, document = embeddings.embed_query("tea"), embeddings.embed_documents(["tea"])[0]
    np.testing.assert_array_equal(np.float32(query), encoder.encode_queries(["tea"])[0])
    assert np.dot(query, document) < 0.99


def test_newlines_are_kept(embeddings, encoder):
    """The text reaches the encoder unedited: spans of a text with newlines still tile it."""
    text = "first line\nsecond line\r\n\r\nthird"
    [found] = embeddings.encoder.encode_landmarks([text])
    assert (found.start, found.end) == (0, len(text))
    np.testing.assert_array_equal(
        np.float32(embeddings.embed_documents([text])), encoder.encode_documents([text])
    )


def test_nothing_gives_nothing(embeddings):
    """No documents is no error."""
    assert embeddings.embed_documents([]) == []


def test_the_end_of_a_long_text_counts(embeddings):
    """Nothing is truncated: another ending, far beyond the window, gives another vector."""
    long = "All work and no play makes Jack a dull boy. " * 120
    first, second = embeddings.embed_documents([long, long + "Whales sing in the ocean. " * 60])
    assert np.dot(first, second) < 0.99


def test_landmarks_and_spans_through_the_encoder(embeddings):
    """The encoder behind the object gives the landmarks of a text and where they are in it."""
    text = "Sing, O goddess, the anger of Achilles son of Peleus. " * 20
    [found] = embeddings.encoder.encode_landmarks([text])
    assert found.landmarks.shape == (len(found.spans), 384)
    assert "".join(text[start:end] for start, end in found.spans) == text.rstrip()


def test_a_single_string_is_refused(embeddings):
    """A string in place of a list would be embedded letter by letter."""
    with pytest.raises(ConfigError, match="list of texts"):
        embeddings.embed_documents("one text")


def test_a_bad_text_is_named(embeddings):
    """The error tells which text cannot be encoded."""
    with pytest.raises(DocumentError, match="text 1"):
        embeddings.embed_documents(["fine", "lone \ud800 surrogate"])


def test_progress_is_shown_on_request(encoder, capsys):
    """show_progress draws a bar over the documents; without it nothing is printed."""
    LMKEmbeddings(encoder=encoder).embed_documents(["a", "b", "c"])
    assert capsys.readouterr().err == ""
    LMKEmbeddings(encoder=encoder, show_progress=True).embed_documents(["a", "b", "c"])
    assert "3/3" in capsys.readouterr().err


async def test_async_gives_the_same(embeddings):
    """The async methods give what the sync ones give."""
    assert await embeddings.aembed_documents(["a", "b"]) == embeddings.embed_documents(["a", "b"])
    assert await embeddings.aembed_query("a") == embeddings.embed_query("a")
    assert await embeddings.aembed_documents([]) == []


async def test_the_event_loop_stays_free(embeddings):
    """Other coroutines run while a long embedding is computed."""
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.01)
            ticks += 1

    ticker = asyncio.create_task(tick())
    await embeddings.aembed_documents(["a long and winding road " * 400] * 4)
    ticker.cancel()
    assert ticks >= 10


async def test_cancelling_stops_the_work_soon(embeddings, long_work):
    """Minutes of work are left after a cancel, yet a query is answered at once."""
    task = asyncio.create_task(embeddings.aembed_documents(long_work))
    await asyncio.sleep(0.5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(embeddings.aembed_query("free again?"), 10)


def test_works_in_a_vector_store(embeddings):
    """A LangChain vector store finds the text that answers the question."""
    store = InMemoryVectorStore.from_texts(
        ["Bread is baked in an oven.", "A whale is a mammal that lives in the sea."], embeddings
    )
    [found] = store.similarity_search("Which animals live in the ocean?", k=1)
    assert "whale" in found.page_content
