"""Runs: neighbouring landmarks taken together as one passage."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def even_runs(tokens: Ints, max_tokens: int) -> Ints:
    """Cut landmarks in runs of at most ``max_tokens``, few and of about equal length.

    tokens: (n,) tokens of each landmark's chunk; a chunk longer than ``max_tokens`` is a run.
    Returns (n_runs, 2) int64, half-open ranges of landmarks that follow each other.

    >>> even_runs(np.array([32] * 5), 128).tolist()
    [[0, 3], [3, 5]]
    >>> even_runs(np.array([200, 32]), 128).tolist()
    [[0, 1], [1, 2]]
    """
    if len(tokens) == 0:
        return np.empty((0, 2), np.int64)
    left = int(tokens.sum())
    runs_left = max(1, math.ceil(left / max_tokens))
    starts, used = [0], 0
    for place, size in enumerate(tokens.tolist()):
        is_even = used * runs_left >= left
        if used and (is_even or used + size > max_tokens):
            starts.append(place)
            left -= used
            runs_left = max(1, runs_left - 1)
            used = 0
        used += size
    return np.array(list(zip(starts, [*starts[1:], len(tokens)], strict=True)), np.int64)
