"""LMKEmbedding: LMKEncoder as a LlamaIndex embedding model."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from llama_index.core.base.embeddings.base import BaseEmbedding, Embedding, dispatcher
from llama_index.core.callbacks import CallbackManager, CBEventType, EventPayload
from llama_index.core.instrumentation.events.embedding import (
    EmbeddingEndEvent,
    EmbeddingStartEvent,
)
from llama_index.core.utils import get_tqdm_iterable
from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import Self, Unpack

from lmk_integrations._adapters import Cancelled, EncoderFields, EncoderOptions
from lmk_integrations.encoder import LMKEncoder
from lmk_integrations.encoder.locate import DEFAULT_MODEL
from lmk_integrations.llama_index.cache import COLLECTION, CachedVectors, Kind, vector_keys
from lmk_integrations.llama_index.handover import HANDOVER

logger = logging.getLogger(__name__)

# The encoder sorts what it gets by length and cuts its own batches by tokens, so a call should
# carry enough texts to sort; the base class's 10 would leave it batches half empty.
DEFAULT_EMBED_BATCH_SIZE = 256


class LMKEmbedding(EncoderFields, BaseEmbedding):
    """Embedding model for texts of any length by a landmark encoder. Nothing is truncated.

    model (or model_name): None for the shipped default, a local directory, or a hub id.
    encoder: a ready `LMKEncoder` in place of ``model`` and the options.
    embed_batch_size: texts per call of the encoder and per instrumentation event, at most 2,048.
    callback_manager, rate_limiter, embeddings_cache: as in `BaseEmbedding`. The cache (any
        BaseKVStore) may be shared between models: its keys tell models, queries and documents
        apart.
    num_workers: accepted; async calls take turns on one thread of the object's own, since a
        model run by several threads at once is no faster.
    options: as in `LMKEncoder`.

    While an `LMKVectorStore` of this model is open, the landmarks of the texts embedded wait for
    its `add`, so that it need not encode them again.

    The model is opened when the object is made. Pickles and `to_dict` carry the configuration; an
    unpickled object opens the model at its first use. Landmarks and spans: ``.encoder``.
    Raises ConfigError for options that cannot work, ModelError for a model that cannot be opened,
    pydantic's ValidationError for unknown options.
    """

    model_config = ConfigDict(
        extra="forbid",
        protected_namespaces=(),
        populate_by_name=True,
        arbitrary_types_allowed=True,
    )

    model_name: str = Field(
        default=DEFAULT_MODEL, alias="model", frozen=True, description="Name, directory or hub id."
    )
    embed_batch_size: int = Field(
        default=DEFAULT_EMBED_BATCH_SIZE, gt=0, le=2048, description="Texts per encoder call."
    )
    # Left out of dumps as callback_manager is: a store is no configuration and no JSON.
    embeddings_cache: Any | None = Field(
        default=None, exclude=True, description="A BaseKVStore that keeps vectors; None: no cache."
    )

    def __init__(
        self,
        model: str | Path | None = None,
        *,
        model_name: str | Path | None = None,
        encoder: LMKEncoder | None = None,
        embed_batch_size: int = DEFAULT_EMBED_BATCH_SIZE,
        callback_manager: CallbackManager | None = None,
        num_workers: int | None = None,
        embeddings_cache: Any | None = None,
        rate_limiter: Any | None = None,
        **options: Unpack[EncoderOptions],
    ) -> None:
        super().__init__(
            model=model,
            model_name=model_name,
            encoder=encoder,
            options=options,
            embed_batch_size=embed_batch_size,
            callback_manager=callback_manager or CallbackManager([]),
            num_workers=num_workers,
            embeddings_cache=embeddings_cache,
            rate_limiter=rate_limiter,
        )

    @classmethod
    def class_name(cls) -> str:
        """The name in serialised form."""
        return "LMKEmbedding"

    # -- encoding ----------------------------------------------------------------------------

    def _encode(
        self, kind: Kind, texts: list[str], cancelled: Cancelled | None = None
    ) -> list[Embedding]:
        encoder = self.encoder
        if kind == "document" and HANDOVER.is_expected(encoder.space):
            encodings = encoder.encode_landmarks(texts, cancelled=cancelled)
            for text, encoding in zip(texts, encodings, strict=True):
                HANDOVER.offer(encoder.space, text, encoding)
            return [encoding.vector.tolist() for encoding in encodings]
        encode = encoder.encode_queries if kind == "query" else encoder.encode_documents
        found: list[Embedding] = encode(texts, cancelled=cancelled).tolist()
        return found

    async def _aencode(self, kind: Kind, texts: list[str]) -> list[Embedding]:
        return await self._worker.run(lambda cancelled: self._encode(kind, texts, cancelled))

    def _get_text_embeddings(self, texts: list[str]) -> list[Embedding]:
        return self._encode("document", texts)

    def _get_text_embedding(self, text: str) -> Embedding:
        return self._encode("document", [text])[0]

    def _get_query_embedding(self, query: str) -> Embedding:
        return self._encode("query", [query])[0]

    async def _aget_text_embeddings(self, texts: list[str]) -> list[Embedding]:
        return await self._aencode("document", texts)

    async def _aget_text_embedding(self, text: str) -> Embedding:
        return (await self._aencode("document", [text]))[0]

    async def _aget_query_embedding(self, query: str) -> Embedding:
        return (await self._aencode("query", [query]))[0]

    # -- public paths, redone because the base class keys its cache on raw text ----------------

    def get_text_embedding(self, text: str) -> Embedding:
        """The vector of one document."""
        return self.get_text_embedding_batch([text])[0]

    async def aget_text_embedding(self, text: str) -> Embedding:
        """As `get_text_embedding`, on the object's worker thread."""
        return (await self.aget_text_embedding_batch([text]))[0]

    def get_query_embedding(self, query: str) -> Embedding:
        """The vector of a query, which gets the query prompt and not the documents'."""
        with self._observed([query]) as vectors:
            vectors += self._through_cache("query", [query])
        return vectors[0]

    async def aget_query_embedding(self, query: str) -> Embedding:
        """As `get_query_embedding`, on the object's worker thread."""
        with self._observed([query]) as vectors:
            vectors += await self._athrough_cache("query", [query])
        return vectors[0]

    def get_text_embedding_batch(
        self, texts: list[str], show_progress: bool = False, **kwargs: Any
    ) -> list[Embedding]:
        """One vector per document, in order; long ones are read whole."""
        found: list[Embedding] = []
        for batch in self._batches(texts, show_progress):
            with self._observed(batch) as vectors:
                vectors += self._through_cache("document", batch)
            found += vectors
        return found

    async def aget_text_embedding_batch(
        self, texts: list[str], show_progress: bool = False, **kwargs: Any
    ) -> list[Embedding]:
        """As `get_text_embedding_batch`, on the object's worker thread.

        Batches go one after another: the base class queues all at once, and those behind one that
        fails would still be computed.
        """
        found: list[Embedding] = []
        for batch in self._batches(texts, show_progress):
            with self._observed(batch) as vectors:
                vectors += await self._athrough_cache("document", batch)
            found += vectors
        return found

    def _batches(self, texts: list[str], show_progress: bool) -> Iterator[list[str]]:
        size = self.embed_batch_size
        starts = range(0, len(texts), size)
        for start in get_tqdm_iterable(starts, show_progress, "Generating embeddings"):
            yield texts[start : start + size]

    def _through_cache(self, kind: Kind, texts: list[str]) -> list[Embedding]:
        cache = self.embeddings_cache
        if cache is None:
            return self._limited(kind, texts)
        keys = vector_keys(self.encoder, kind, texts)
        cached = CachedVectors(keys, [cache.get(key, collection=COLLECTION) for key in keys])
        if missing := cached.missing(texts):
            for key, value in cached.fill(self._limited(kind, missing)):
                cache.put(key, value, collection=COLLECTION)
        return cached.vectors()

    async def _athrough_cache(self, kind: Kind, texts: list[str]) -> list[Embedding]:
        cache = self.embeddings_cache
        if cache is None:
            return await self._alimited(kind, texts)
        keys = await self._worker.run(lambda _: vector_keys(self.encoder, kind, texts))
        cached = CachedVectors(keys, [await cache.aget(key, collection=COLLECTION) for key in keys])
        if missing := cached.missing(texts):
            for key, value in cached.fill(await self._alimited(kind, missing)):
                await cache.aput(key, value, collection=COLLECTION)
        return cached.vectors()

    def _limited(self, kind: Kind, texts: list[str]) -> list[Embedding]:
        if self.rate_limiter is not None:
            self.rate_limiter.acquire()
        return self._encode(kind, texts)

    async def _alimited(self, kind: Kind, texts: list[str]) -> list[Embedding]:
        if self.rate_limiter is not None:
            await self.rate_limiter.async_acquire()
        return await self._aencode(kind, texts)

    @contextmanager
    def _observed(self, texts: list[str]) -> Iterator[list[Embedding]]:
        """Tell the dispatcher and the callback manager of one batch; the list takes its vectors."""
        payload = self.to_payload()
        vectors: list[Embedding] = []
        dispatcher.event(EmbeddingStartEvent(model_dict=payload))
        with self.callback_manager.event(
            CBEventType.EMBEDDING, payload={EventPayload.SERIALIZED: payload}
        ) as event:
            yield vectors
            event.on_end(
                payload={EventPayload.CHUNKS: texts, EventPayload.EMBEDDINGS: vectors},
            )
        dispatcher.event(EmbeddingEndEvent(chunks=texts, embeddings=vectors))

    # -- travelling ----------------------------------------------------------------------------

    def to_dict(self, **kwargs: Any) -> dict[str, Any]:
        """The configuration, with the encoder's fingerprint.

        IngestionCache makes its keys of this: a directory whose weights have changed must not get
        the vectors of the old ones.
        """
        return {**super().to_dict(**kwargs), "fingerprint": self.encoder.fingerprint}

    @classmethod
    def from_dict(cls, data: dict[str, Any], **kwargs: Any) -> Self:
        """The opposite of `to_dict`."""
        return super().from_dict({k: v for k, v in data.items() if k != "fingerprint"}, **kwargs)

    def __getstate__(self) -> dict[str, Any]:
        # The base class drops what cannot be pickled from the live object too.
        state = BaseModel.__getstate__(self)
        state["__dict__"] = {k: v for k, v in state["__dict__"].items() if _can_pickle(k, v)}
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        # The base class would run __init__, which opens the model at once.
        BaseModel.__setstate__(self, state)
        for name, field in type(self).model_fields.items():
            if name not in self.__dict__:
                self.__dict__[name] = field.get_default(call_default_factory=True)


def _can_pickle(name: str, value: object) -> bool:
    try:
        pickle.dumps(value)
    except Exception as error:  # pickle raises TypeError, AttributeError, PicklingError, ...
        logger.warning("%s is not pickled along: %s", name, type(error).__name__)
        return False
    return True
