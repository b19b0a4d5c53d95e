"""Batches under a token budget."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def token_budget_batches(lengths: Sequence[int], token_budget: int) -> list[list[int]]:
    """Group items of like length so that no padded batch exceeds ``token_budget`` positions.

    lengths: positions of each item. Returns lists of indices, the longest items first (the
    peak of memory comes at once, not after an hour); an item over the budget gets a batch alone.

    >>> token_budget_batches([5, 100, 6, 5], token_budget=12)
    [[1], [2, 0], [3]]
    """
    batches: list[list[int]] = []
    longest = 0
    for index in np.argsort(-np.asarray(lengths, np.int64), kind="stable").tolist():
        if not batches or longest * (len(batches[-1]) + 1) > token_budget:
            batches.append([])
            longest = lengths[index]
        batches[-1].append(index)
    return batches
