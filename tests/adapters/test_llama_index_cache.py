"""embeddings_cache: what the base class confuses is kept apart."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from llama_index.core.storage.kvstore import SimpleKVStore

from lmk_integrations.encoder import LMKEncoder
from lmk_integrations.llama_index import LMKEmbedding


def sync_calls(embedding):
    return (
        embedding.get_query_embedding("tea"),
        embedding.get_text_embedding("tea"),
        embedding.get_text_embedding_batch(["tea", "milk"]),
    )


def async_calls(embedding):
    async def call():
        return (
            await embedding.aget_query_embedding("tea"),
            await embedding.aget_text_embedding("tea"),
            await embedding.aget_text_embedding_batch(["tea", "milk"]),
        )

    return asyncio.run(call())


both_ways = pytest.mark.parametrize("calls", [sync_calls, async_calls])


@both_ways
def test_queries_and_documents_do_not_meet(calls, encoder):
    """Through one cache a query and a document of the same words keep their own vectors."""
    query, text, batch = calls(LMKEmbedding(encoder=encoder, embeddings_cache=SimpleKVStore()))
    assert np.dot(query, text) < 0.99
    assert batch[0] == text
    np.testing.assert_allclose(query, encoder.encode_queries(["tea"])[0], atol=1e-5)
    np.testing.assert_allclose(text, encoder.encode_documents(["tea"])[0], atol=1e-5)


@both_ways
def test_models_do_not_meet(calls, encoder, cls_encoder):
    """Two models may share one cache: each gets its own vectors."""
    cache = SimpleKVStore()
    first = calls(LMKEmbedding(encoder=encoder, embeddings_cache=cache))
    second = calls(LMKEmbedding(encoder=cls_encoder, embeddings_cache=cache))
    assert np.dot(first[0], second[0]) < 0.99
    assert np.dot(first[1], second[1]) < 0.99


def test_query_prompts_do_not_meet():
    """The same model with another query prompt gives other queries, but the same documents."""
    cache = SimpleKVStore()
    plain, prompted = (
        LMKEmbedding(query_prompt=prompt, dtype="float32", embeddings_cache=cache)
        for prompt in ("", "Represent this question for searching: ")
    )
    assert np.dot(plain.get_query_embedding("tea"), prompted.get_query_embedding("tea")) < 0.99
    plain.get_text_embedding("tea")
    before = len(cache.get_all("embeddings"))
    prompted.get_text_embedding("tea")
    assert len(cache.get_all("embeddings")) == before


class CountingEncoder(LMKEncoder):
    """The real encoder, with a count of the texts it was given."""

    texts = 0

    def encode_documents(self, texts, **kwargs):
        self.texts += len(texts)
        return super().encode_documents(texts, **kwargs)

    def encode_queries(self, texts, **kwargs):
        self.texts += len(texts)
        return super().encode_queries(texts, **kwargs)


@pytest.mark.parametrize(
    ("first", "second"), [(sync_calls, async_calls), (async_calls, sync_calls)]
)
def test_known_texts_are_not_encoded_again(first, second):
    """The cache is used: by sync and async alike, and for the known part of a batch."""
    encoder = CountingEncoder(dtype="float32")
    cache = SimpleKVStore()
    found = first(LMKEmbedding(encoder=encoder, embeddings_cache=cache))
    assert encoder.texts == 3  # the query, the document, and the batch's unknown half
    assert second(LMKEmbedding(encoder=encoder, embeddings_cache=cache)) == found
    assert encoder.texts == 3


def test_a_cache_must_be_a_store(encoder):
    """What is not a BaseKVStore is refused at construction, as by the base class."""
    with pytest.raises(TypeError, match="BaseKVStore"):
        LMKEmbedding(encoder=encoder, embeddings_cache={})
