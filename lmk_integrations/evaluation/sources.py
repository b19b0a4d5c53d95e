"""Documents -> their vectors, in order and as a stream: never more than a few texts at a time."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lmk_integrations.core.landmarks import chunk_bounds, landmark_spans, token_boundaries
from lmk_integrations.core.pooling import l2_normalize
from lmk_integrations.encoder import LMKEncoder
from lmk_integrations.encoder.encoder import Cancelled
from lmk_integrations.encoder.locate import BASE_MODEL
from lmk_integrations.evaluation.methods import Source

Floats = NDArray[np.float32]

OWN_TOKENS = 256
"""Where `own` cuts a text, special tokens included: the default of LangChain's embeddings."""


@dataclass(frozen=True, slots=True, eq=False)
class DocumentVectors:
    """vector: (dim,) of the whole text; rows: (n_rows, dim) of its parts; all of unit length."""

    vector: Floats
    rows: Floats


class Encoders:
    """The base and the landmark model, opened as a source needs them, one at a time in memory."""

    def __init__(
        self,
        model: str | Path | None = None,
        base: str | Path | None = None,
        *,
        device: str = "auto",
        dtype: str = "auto",
        backend: str = "auto",
        compile: bool = False,  # noqa: A002 - the encoder's word for it
    ) -> None:
        self._model = model
        self._base = BASE_MODEL if base is None else base
        self._device, self._dtype = device, dtype
        self._backend, self._compile = backend, compile
        self._open = lru_cache(maxsize=1)(self._opened)

    def of(self, source: Source) -> LMKEncoder:
        """The encoder that makes a source's vectors and reads its queries."""
        if source.kind == "late":
            return self._open(self._base, "mean", source.size)
        if source.kind == "landmarks":
            return self._open(self._model, "lmk", source.size)
        if source.kind == "raw-landmarks":
            return self._open(self._base, "lmk", source.size)
        return self._open(self._base, None, None)

    def resolve(self, source: Source) -> Source:
        """The same source with the model's own granularity in place of None.

        Raises ConfigError or ModelError where its encoder cannot be had. No weights are read.
        """
        encoder = self.of(source)
        if source.size is None and source.kind in ("landmarks", "raw-landmarks"):
            return Source(source.kind, encoder.granularity)
        return source

    def _opened(
        self, model: str | Path | None, pooling: str | None, granularity: int | str | None
    ) -> LMKEncoder:
        with warnings.catch_warnings():
            if pooling == "lmk" and model == self._base:
                # What the warning tells is what the figures of this source are there to show.
                warnings.filterwarnings("ignore", message=".* not trained for landmarks")
            return LMKEncoder(
                model,
                pooling=pooling,
                granularity=granularity,
                device=self._device,
                dtype=self._dtype,
                backend=self._backend,
                compile=self._compile,
            )


def iter_vectors(
    source: Source, encoder: LMKEncoder, texts: Sequence[str], cancelled: Cancelled | None = None
) -> Iterator[DocumentVectors]:
    """The vectors of each text, in order."""
    if source.kind == "own":
        room = _room(encoder)
        starts = (cut_tokens(encoder, text, room)[0] for text in texts)
        for encoding in encoder.iter_landmarks(starts, cancelled=cancelled):
            yield DocumentVectors(encoding.vector, encoding.vector[None])
    elif source.kind == "chunks":
        assert isinstance(source.size, int)
        yield from _chunk_vectors(encoder, texts, source.size, cancelled)
    else:
        for encoding in encoder.iter_landmarks(texts, cancelled=cancelled):
            yield DocumentVectors(encoding.vector, l2_normalize(encoding.landmarks))


def cut_tokens(encoder: LMKEncoder, text: str, tokens: int) -> list[str]:
    """The text in slices of ``tokens`` tokens of the encoder's tokenizer; joined they are the text.

    White space around the text apart. An empty text is one empty slice.
    """
    read = encoder.model.tokenizer.encode(text)
    bounds = chunk_bounds(len(read.ids), tokens)
    spans = landmark_spans(token_boundaries(read.offsets), bounds)
    return [text[start:end] for start, end in spans.tolist()]


def _room(encoder: LMKEncoder) -> int:
    """Tokens of a text that `own` reads: what special tokens and a prompt leave of the window."""
    tokenizer = encoder.model.tokenizer
    around = len(tokenizer.prefix) + len(tokenizer.suffix)
    around += len(tokenizer.encode(encoder.document_prompt).ids)
    return max(1, min(OWN_TOKENS, encoder.max_tokens) - around)


def _chunk_vectors(
    encoder: LMKEncoder, texts: Sequence[str], tokens: int, cancelled: Cancelled | None
) -> Iterator[DocumentVectors]:
    counts: deque[int] = deque()

    def chunks() -> Iterator[str]:
        for text in texts:
            slices = cut_tokens(encoder, text, tokens)
            counts.append(len(slices))
            yield from slices

    held: list[Floats] = []
    for encoding in encoder.iter_landmarks(chunks(), cancelled=cancelled):
        held.append(encoding.vector)
        if len(held) == counts[0]:
            rows = np.stack(held)
            yield DocumentVectors(l2_normalize(rows.mean(axis=0)), rows)
            counts.popleft()
            held = []
