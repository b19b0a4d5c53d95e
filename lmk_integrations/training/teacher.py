"""The frozen base, as the teacher of its own landmark version."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lmk_integrations.core.batching import token_budget_batches
from lmk_integrations.core.pooling import l2_normalize, plan_rows
from lmk_integrations.encoder.backends.base import WindowInput
from lmk_integrations.encoder.model import OpenModel
from lmk_integrations.training.domains import Domains, fit_domains
from lmk_integrations.training.pieces import (
    TEXT_WEIGHT,
    WIDE_WEIGHT,
    WINDOW_WEIGHT,
    Piece,
    Slices,
    slices_of,
)

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]

_TOKEN_BUDGET = 8192


@dataclass(frozen=True, slots=True)
class Targets:
    """What the base says of a batch.

    text: (n_texts, dim) unit vectors of whole texts; landmark: (n_landmarks, dim) unit targets of
    all landmarks in order; chunk: (n_landmarks, dim) unit vectors of the chunks alone;
    owner: (n_landmarks,) the text of each.
    """

    text: Floats
    landmark: Floats
    chunk: Floats
    owner: Ints


class Teacher:
    """Vectors of token slices by the base with its own pooling and prompt."""

    def __init__(self, base: OpenModel, context_tokens: int, sharpen: float = 0.0) -> None:
        self._base = base
        self._sharpen = sharpen
        self._domains: Domains | None = None
        tokenizer = base.tokenizer
        self._prefix = np.array(base.document_prefix, np.int64)
        # A landmark model reads a slice as one chunk with its landmark.
        suffix = [tokenizer.landmark_id] if base.pooling == "lmk" else tokenizer.suffix
        self._suffix = np.array(suffix, np.int64)
        self._skipped = 0
        if base.document_prompt and not base.layout("", None).pool_prompt:
            self._skipped = len(self._prefix)
        room = base.max_tokens - len(self._prefix) - len(self._suffix)
        self.context_tokens = min(context_tokens, room)

    def targets(self, pieces: Sequence[Piece]) -> Targets:
        """The targets of a batch of texts."""
        plans = [slices_of(piece.bounds, self.context_tokens) for piece in pieces]
        ids = [
            piece.ids[a:b]
            for piece, plan in zip(pieces, plans, strict=True)
            for a, b in plan.slices.tolist()
        ]
        vectors = np.split(self._vectors(ids), np.cumsum([len(plan.slices) for plan in plans])[:-1])
        pairs = list(zip(plans, vectors, strict=True))
        text = l2_normalize(np.stack([found[plan.windows].mean(axis=0) for plan, found in pairs]))
        if self._domains is not None:
            means = np.stack([found[plan.chunk].mean(axis=0) for plan, found in pairs])
            apart = self._domains.directions(l2_normalize(means))
            text = l2_normalize(text + self._shares(pieces)[:, None] * apart)
        return Targets(
            text,
            np.concatenate(
                [
                    _blend(plan, found, whole)
                    for (plan, found), whole in zip(pairs, text, strict=True)
                ]
            ),
            np.concatenate([found[plan.chunk] for plan, found in pairs]),
            np.repeat(np.arange(len(plans)), [len(plan.chunk) for plan in plans]),
        )

    def learn_domains(self, pieces: Sequence[Piece], seed: int) -> None:
        """Sharpen the targets of long texts by what tells texts of one domain apart."""
        if self._sharpen == 0:
            return
        chunks = [
            piece.ids[a:b] for piece in pieces for a, b in itertools.pairwise(piece.bounds.tolist())
        ]
        owner = np.repeat(np.arange(len(pieces)), [len(piece.bounds) - 1 for piece in pieces])
        self._domains = fit_domains(self._vectors(chunks), owner, seed)

    def _shares(self, pieces: Sequence[Piece]) -> Floats:
        """Of the discriminant: none for what the base reads at once, all from four times that."""
        lengths = np.array([len(piece.ids) for piece in pieces], np.float32)
        past = (lengths - self.context_tokens) / (3 * self.context_tokens)
        return np.asarray(self._sharpen * np.clip(past, 0, 1), np.float32)

    def _vectors(self, texts: list[Ints]) -> Floats:
        """Unit vectors (n, dim) of token sequences."""
        inputs = [self._input(ids) for ids in texts]
        backend = self._base.load()
        out = np.empty((len(inputs), self._base.dim), np.float32)
        for batch in token_budget_batches([len(item.ids) for item in inputs], _TOKEN_BUDGET):
            rows = backend.rows([inputs[i] for i in batch])
            out[batch] = self._base.project(np.concatenate(rows))
        return l2_normalize(out)

    def _input(self, ids: Ints) -> WindowInput:
        whole = np.concatenate([self._prefix, ids, self._suffix])
        begin = len(self._prefix)
        places = np.array([begin, begin + len(ids)], np.int64)
        plan = plan_rows(
            self._base.pooling,
            places[1:] if self._base.pooling == "lmk" else places,
            0,
            begin,
            len(whole),
            pooled_prefix_start=self._skipped,
        )
        row = 0 if plan.text_row is None else plan.text_row
        return WindowInput(whole, plan.starts[row : row + 1], plan.stops[row : row + 1])


def _blend(plan: Slices, vectors: Floats, text: Floats) -> Floats:
    """A landmark's target: its chunk, what stands around it, and shares of the window and text.

    On FairytaleQA the best landmark of a story ranks stories better by this blend than by the
    chunk alone (nDCG@10 87.0 against 82.7), and the mean of the blends is near the text's vector.
    """
    mixed = (
        vectors[plan.chunk]
        + WIDE_WEIGHT * vectors[plan.wide]
        + WINDOW_WEIGHT * vectors[plan.window]
        + TEXT_WEIGHT * text
    )
    return l2_normalize(mixed.astype(np.float32))
