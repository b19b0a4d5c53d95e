"""LMKEmbedding as an embedding model: values, batches, events, async."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from llama_index.core import MockEmbedding, VectorStoreIndex
from llama_index.core.callbacks import CallbackManager, CBEventType, LlamaDebugHandler
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.rate_limiter import BaseRateLimiter
from llama_index.core.schema import MetadataMode, TextNode
from pydantic import ValidationError

from lmk_integrations.errors import DocumentError
from lmk_integrations.llama_index import LMKEmbedding


@pytest.fixture
def embedding(encoder):
    return LMKEmbedding(encoder=encoder)


@pytest.fixture
def events():
    """All events that the root dispatcher hears during the test, by class name."""
    heard = []

    class Handler(BaseEventHandler):
        def handle(self, event, **kwargs):
            heard.append(event)

    handlers = get_dispatcher().event_handlers
    handlers.append(handler := Handler())
    yield heard
    handlers.remove(handler)


def test_values_are_the_encoders_as_plain_lists(embedding, encoder):
    """Every path gives the encoder's own vectors, as plain floats."""
    expected = encoder.encode_documents(["a river", "a bank"])
    vectors = embedding.get_text_embedding_batch(["a river", "a bank"])
    assert type(vectors[0]) is list
    assert type(vectors[0][0]) is float
    np.testing.assert_array_equal(np.float32(vectors), expected)
    np.testing.assert_allclose(embedding.get_text_embedding("a bank"), expected[1], atol=1e-5)
    np.testing.assert_array_equal(
        np.float32(embedding.get_query_embedding("a bank")), encoder.encode_queries(["a bank"])[0]
    )
    assert embedding.get_text_embedding_batch([]) == []


def test_query_and_document_prompts_are_kept_apart(embedding):
    """A query and a document of the same words get their own prompts."""
    query, text = embedding.get_query_embedding("tea"), embedding.get_text_embedding("tea")
    assert np.dot(query, text) < 0.99


async def test_async_gives_the_same(embedding):
    """Each async method gives what its sync twin gives."""
    texts = ["a", "b", "c"]
    assert await embedding.aget_text_embedding_batch(texts) == embedding.get_text_embedding_batch(
        texts
    )
    assert await embedding.aget_text_embedding("a") == embedding.get_text_embedding("a")
    assert await embedding.aget_query_embedding("a") == embedding.get_query_embedding("a")
    assert await embedding.aget_text_embedding_batch([]) == []
    agg = embedding.get_agg_embedding_from_queries(["a", "b"])
    assert await embedding.aget_agg_embedding_from_queries(["a", "b"]) == agg


async def test_the_event_loop_stays_free(embedding):
    """Other coroutines run while a long embedding is computed."""
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.01)
            ticks += 1

    ticker = asyncio.create_task(tick())
    await embedding.aget_text_embedding("a long and winding road " * 1600)
    ticker.cancel()
    assert ticks >= 10


async def test_cancelling_stops_the_work_soon(embedding, long_work):
    """Minutes of work are left after a cancel, yet a query is answered at once."""
    task = asyncio.create_task(embedding.aget_text_embedding_batch(long_work))
    await asyncio.sleep(0.5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(embedding.aget_query_embedding("free again?"), 10)


@pytest.mark.parametrize("num_workers", [None, 1, 4])
async def test_a_failed_batch_ends_the_call(encoder, events, num_workers):
    """Batches behind one that fails are not computed for nobody, whatever num_workers says."""
    embedding = LMKEmbedding(encoder=encoder, embed_batch_size=1, num_workers=num_workers)
    with pytest.raises(DocumentError):
        await embedding.aget_text_embedding_batch(["fine", "\ud800", "later", "latest"])
    ended = [event for event in events if event.class_name() == "EmbeddingEndEvent"]
    assert [event.chunks for event in ended] == [["fine"]]


@pytest.mark.parametrize("size", [0, 2049])
def test_batch_size_is_checked_as_in_the_base(encoder, size):
    """embed_batch_size keeps the base class's bounds."""
    with pytest.raises(ValidationError, match="embed_batch_size"):
        LMKEmbedding(encoder=encoder, embed_batch_size=size)


def calls_of(embedding):
    """Every public way to a vector, as (name, call)."""
    texts = ["one", "two", "three"]
    return {
        "query": lambda: embedding.get_query_embedding("one"),
        "text": lambda: embedding.get_text_embedding("one"),
        "batch": lambda: embedding.get_text_embedding_batch(texts),
        "aquery": lambda: asyncio.run(embedding.aget_query_embedding("one")),
        "atext": lambda: asyncio.run(embedding.aget_text_embedding("one")),
        "abatch": lambda: asyncio.run(embedding.aget_text_embedding_batch(texts)),
    }


@pytest.mark.parametrize("call", ["query", "text", "batch", "aquery", "atext", "abatch"])
def test_events_are_those_of_any_embedding(encoder, events, call):
    """The dispatcher hears what it hears of LlamaIndex's own mock, with our vectors in it."""

    def heard_of(embedding):
        events.clear()
        result = calls_of(embedding)[call]()
        found = [event for event in events if event.class_name().startswith("Embedding")]
        starts = [event for event in found if event.class_name() == "EmbeddingStartEvent"]
        ends = [event for event in found if event.class_name() == "EmbeddingEndEvent"]
        assert all(event.model_dict["class_name"] == embedding.class_name() for event in starts)
        vectors = [vector for event in ends for vector in event.embeddings]
        assert vectors == (result if isinstance(result[0], list) else [result])
        return len(starts), [event.chunks for event in ends]

    ours = heard_of(LMKEmbedding(encoder=encoder, embed_batch_size=2))
    assert ours == heard_of(MockEmbedding(embed_dim=4, embed_batch_size=2))


@pytest.mark.parametrize("call", ["query", "text", "batch", "aquery", "atext", "abatch"])
def test_callbacks_are_those_of_any_embedding(encoder, call):
    """The callback manager sees the same pairs of start and end as of LlamaIndex's own mock."""

    def heard_of(make):
        debug = LlamaDebugHandler(print_trace_on_end=False)
        calls_of(make(callback_manager=CallbackManager([debug])))[call]()
        pairs = debug.get_event_pairs(CBEventType.EMBEDDING)
        return [(set(start.payload), set(end.payload)) for start, end in pairs], [
            end.payload["chunks"] for _, end in pairs
        ]

    ours = heard_of(lambda **k: LMKEmbedding(encoder=encoder, embed_batch_size=2, **k))
    assert ours == heard_of(lambda **k: MockEmbedding(embed_dim=4, embed_batch_size=2, **k))


class CountingLimiter(BaseRateLimiter):
    count: int = 0

    def acquire(self) -> None:
        self.count += 1

    async def async_acquire(self) -> None:
        self.count += 1


@pytest.mark.parametrize(
    ("call", "times"),
    [("query", 1), ("text", 1), ("batch", 2), ("aquery", 1), ("atext", 1), ("abatch", 2)],
)
def test_rate_limiter_is_asked_once_per_call_of_the_model(encoder, call, times):
    """A rate limiter given is honoured on every path."""
    limiter = CountingLimiter()
    embedding = LMKEmbedding(encoder=encoder, embed_batch_size=2, rate_limiter=limiter)
    calls_of(embedding)[call]()
    assert limiter.count == times


def test_progress_is_shown_on_request(embedding, capsys):
    """show_progress of the batch method draws a bar."""
    embedding.get_text_embedding_batch(["a", "b"], show_progress=True)
    assert "Generating embeddings" in capsys.readouterr().err


async def test_is_a_transformation(embedding, encoder):
    """Called with nodes it fills their embeddings, from the text that LlamaIndex says to embed."""

    def nodes() -> list[TextNode]:
        return [TextNode(text="a whale", metadata={"k": "v"}), TextNode(text="a loaf")]

    expected = encoder.encode_documents([n.get_content(MetadataMode.EMBED) for n in nodes()])
    for done in (embedding(nodes()), await embedding.acall(nodes())):
        np.testing.assert_array_equal(np.float32([n.embedding for n in done]), expected)


async def test_works_in_an_index(embedding):
    """VectorStoreIndex finds the text that answers the question, sync and async."""
    nodes = [
        TextNode(text="Bread is baked in an oven."),
        TextNode(text="A whale is a mammal that lives in the sea."),
    ]
    index = VectorStoreIndex(nodes, embed_model=embedding)
    retriever = index.as_retriever(similarity_top_k=1)
    question = "Which animals live in the ocean?"
    for hits in (retriever.retrieve(question), await retriever.aretrieve(question)):
        assert "whale" in hits[0].node.text
