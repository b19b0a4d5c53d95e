"""Passages: from the scores of single landmarks to the best run of text."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]

# A neighbour joins the best landmark when it keeps this share of the lead over the section's
# median landmark: enough to take in an answer that crosses a chunk border, not its whole page.
_KEEP = 0.5


def best_run(scores: Floats, tokens: Ints, max_tokens: int) -> tuple[int, int]:
    """The run of landmarks around the best one, merged while the neighbours score well too.

    scores: (n,) similarity of each landmark; tokens: (n,) tokens of each chunk.
    Returns the half-open run of at most ``max_tokens`` tokens (one landmark always stays).

    >>> best_run(np.array([.1, .5, .9, .8, .1]), np.array([32] * 5), 96)
    (2, 4)
    """
    best = int(np.argmax(scores))
    bar = float(np.median(scores)) + _KEEP * float(scores[best] - np.median(scores))
    first, stop = best, best + 1
    used = int(tokens[best])
    while True:
        sides = [(float(scores[i]), i) for i in (first - 1, stop) if 0 <= i < len(scores)]
        fitting = [s for s in sides if s[0] >= bar and used + int(tokens[s[1]]) <= max_tokens]
        if not fitting:
            return first, stop
        _, chosen = max(fitting)
        used += int(tokens[chosen])
        first, stop = min(first, chosen), max(stop, chosen + 1)


def grow_to_sentences(
    span: tuple[int, int], starts: Ints, spans: Ints, tokens: Ints, max_tokens: int
) -> tuple[int, int]:
    """Widen a character span to whole sentences where that stays within ``max_tokens``.

    span: half-open characters; starts: (n_sentences,) ascending, where sentences begin.
    spans: (n, 2) and tokens: (n,), the landmarks' characters and tokens: they tell about how
        many tokens a stretch of characters has.
    The two ends are widened one after the other (the beginning first: a passage that starts in
    mid-sentence reads worst); an end whose sentence does not fit stays where it is.
    """
    edges = np.append(spans[:, 0], spans[-1, 1])
    lowest, highest = int(edges[0]), int(edges[-1])
    totals = np.concatenate([[0], np.cumsum(tokens)]).astype(np.float64)

    def size(a: int, b: int) -> float:
        low, high = np.interp([a, b], edges, totals)
        return float(high - low)

    first, stop = span
    at = int(np.searchsorted(starts, first, side="right")) - 1
    earlier = max(int(starts[at]), lowest) if at >= 0 else lowest
    if size(earlier, stop) <= max_tokens:
        first = earlier
    at = int(np.searchsorted(starts, stop, side="left"))
    later = min(int(starts[at]), highest) if at < len(starts) else highest
    if size(first, later) <= max_tokens:
        stop = later
    return first, stop
