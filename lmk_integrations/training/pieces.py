"""What one step of an adaptation reads: texts of all lengths, and slices of them for the base."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lmk_integrations.core.landmarks import chunk_bounds
from lmk_integrations.training.adapt_settings import AdaptSettings
from lmk_integrations.training.corpus import Corpus

Ints = NDArray[np.int64]

# Lengths in tokens, a quarter of the texts each: a sentence, a passage, about a window, longer.
_BANDS = ((6, 40), (40, 256), (256, 512), (512, 1 << 30))
WIDE_WEIGHT, WINDOW_WEIGHT, TEXT_WEIGHT = 0.7, 0.5, 0.6

_SAMPLED_TOKENS = 1024
_SAMPLE = 1 << 40  # in the place of a batch's number


@dataclass(frozen=True, slots=True)
class Piece:
    """A text: ids (n_tokens,) and the chunks it is cut in, bounds (n_chunks + 1,)."""

    ids: Ints
    bounds: Ints


class Steps:
    """The batches of a training, by number: always the same for the same corpus and settings."""

    def __init__(self, corpus: Corpus, settings: AdaptSettings, granularities: Ints) -> None:
        self._corpus = corpus
        self._settings = settings
        self._granularities = granularities
        pairs = zip(settings.granularities, settings.shares, strict=True)
        shares = np.array([share for value, share in pairs if value in granularities])
        self._shares = shares / shares.sum()

    def batch(self, number: int) -> list[Piece]:
        """The texts of one batch."""
        rng = np.random.default_rng((self._settings.seed, number))
        return [self._piece(rng, place) for place in range(self._settings.batch)]

    def sample(self, count: int) -> list[Piece]:
        """Long texts in the finest granularity, to learn what domains there are."""
        rng = np.random.default_rng((self._settings.seed, _SAMPLE))
        longest = min(_SAMPLED_TOKENS, self._settings.longest)
        texts = [self._ids(rng, longest, longest) for _ in range(count)]
        return [Piece(ids, chunk_bounds(len(ids), int(self._granularities.min()))) for ids in texts]

    def _piece(self, rng: np.random.Generator, place: int) -> Piece:
        low, high = _BANDS[place % len(_BANDS)]
        high = max(2, min(high, self._settings.longest))
        low = max(1, min(low, high - 1))
        ids = self._ids(rng, low, high)
        granularity = int(rng.choice(self._granularities, p=self._shares))
        return Piece(ids, chunk_bounds(len(ids), granularity))

    def _ids(self, rng: np.random.Generator, low: int, high: int) -> Ints:
        length = round(float(np.exp(rng.uniform(np.log(low), np.log(high)))))
        corpus = self._corpus
        # By tokens, not by documents: a place anywhere, then the sentence that begins before it.
        at = int(np.searchsorted(corpus.starts, rng.integers(len(corpus.ids)), side="right")) - 1
        start, stop = int(corpus.starts[at]), int(corpus.stops[at])
        end = min(start + length, stop)
        if end < stop:  # end with a sentence where one ends not far from here
            ends = int(corpus.starts[np.searchsorted(corpus.starts, end, side="right") - 1])
            end = ends if ends - start >= 0.7 * length else end
        return corpus.ids[start:end].astype(np.int64)


@dataclass(frozen=True, slots=True)
class Slices:
    """Which slices of a text the base shall read, and what becomes of their vectors.

    slices: (n_slices, 2) half-open token ranges, distinct. chunk, wide, window: (n_chunks,) the
    slice of each chunk alone, of the chunk and half as much on either side, and of the window
    around it; windows: the slices whose mean is the target of the whole text.
    """

    slices: Ints
    chunk: Ints
    wide: Ints
    window: Ints
    windows: Ints


def slices_of(bounds: Ints, context_tokens: int) -> Slices:
    """Plan the slices of one text. bounds: (n_chunks + 1,); context_tokens: the longest slice.

    >>> plan = slices_of(np.array([0, 4, 8, 10]), 8)
    >>> plan.slices[plan.chunk].tolist(), plan.slices[plan.wide].tolist()
    ([[0, 4], [4, 8], [8, 10]], [[0, 6], [2, 10], [6, 10]])
    >>> plan.slices[plan.windows].tolist(), plan.slices[plan.window].tolist()
    ([[0, 8], [2, 10]], [[0, 8], [2, 10], [2, 10]])
    """
    n = int(bounds[-1])
    chunk = _clipped(np.stack([bounds[:-1], bounds[1:]], axis=1), context_tokens)
    spare = context_tokens - (chunk[:, 1] - chunk[:, 0])
    half = np.minimum(int(np.diff(bounds).max()), spare) // 2
    wide = np.stack([np.maximum(chunk[:, 0] - half, 0), np.minimum(chunk[:, 1] + half, n)], axis=1)
    # Windows that overlap by half, evenly spread from the first token to the last.
    count = 1 if n <= context_tokens else -(-(n - context_tokens) * 2 // context_tokens) + 1
    begins = np.linspace(0, max(0, n - context_tokens), count).round().astype(np.int64)
    windows = np.stack([begins, np.minimum(begins + context_tokens, n)], axis=1)
    middle = (bounds[:-1] + bounds[1:]) / 2
    nearest = np.abs(windows.mean(axis=1)[None, :] - middle[:, None]).argmin(axis=1)
    every = np.concatenate([chunk, wide, windows])
    slices, where = np.unique(every, axis=0, return_inverse=True)
    where = where.reshape(-1)
    k = len(chunk)
    at_windows = where[2 * k :]
    return Slices(slices, where[:k], where[k : 2 * k], at_windows[nearest], at_windows)


def _clipped(slices: Ints, longest: int) -> Ints:
    """Slices cut to ``longest`` around their middle."""
    over = np.maximum(slices[:, 1] - slices[:, 0] - longest, 0)
    return np.stack([slices[:, 0] + over // 2, slices[:, 1] - (over - over // 2)], axis=1)
