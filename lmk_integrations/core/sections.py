"""Sections: what the store holds as one point. A document is a sequence of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

MULTIVECTOR_LIMIT = 1 << 20
"""Qdrant refuses a multivector of ``rows * dim`` floats at or above this (its validation.rs)."""

DEFAULT_SECTION_TOKENS = 1024


def max_section_rows(dim: int) -> int:
    """The most landmarks one point may hold: ``rows * dim < 2**20``.

    >>> max_section_rows(384), max_section_rows(1024)
    (2730, 1023)
    """
    return (MULTIVECTOR_LIMIT - 1) // dim


def default_section_tokens(window_tokens: int, most: int = DEFAULT_SECTION_TOKENS) -> int:
    """The largest whole number of windows up to 1,024 tokens; 1,024 for a longer window.

    window_tokens: how many text tokens one window takes. most: what a point can hold, if less.

    >>> default_section_tokens(480), default_section_tokens(7936), default_section_tokens(480, 500)
    (960, 1024, 480)
    """
    most = min(most, DEFAULT_SECTION_TOKENS)
    return max(1, most // window_tokens) * min(window_tokens, most)


def section_end(start: int, n_tokens: int, budget: int, levels: Sequence[Ints]) -> int:
    """Where the section that begins at token ``start`` ends.

    n_tokens: tokens known so far; ``start + budget`` or fewer means that the text ends there.
    budget: the most tokens a section may have.
    levels: arrays of ascending token indices where a heading, a paragraph, a sentence, a word
        begins, the best kind of place first. The latest place of the first kind that has one in
        the last quarter of the budget wins; without any the section is cut at its budget.

    >>> heads, sentences = np.array([10]), np.array([0, 10, 90, 97, 101])
    >>> section_end(0, 200, 100, [heads, sentences]), section_end(97, 150, 100, [heads])
    (97, 150)
    """
    limit = start + budget
    if n_tokens <= limit:
        return n_tokens
    earliest = max(start + 1, limit - budget // 4)
    for places in levels:
        at = int(np.searchsorted(places, limit, side="right")) - 1
        if at >= 0 and places[at] >= earliest:
            return int(places[at])
    return limit
