"""Landmarks: cut a token sequence in chunks, put a landmark token after each, know its span.

``[CLS] c1 [LMK] c2 [LMK] ...`` as in "LMK > CLS" (arXiv 2601.21525, section 3). Positions are
carried from here on and never found again by token id: PAD may equal the landmark's id, and a
literal "[SEP]" in a document is text.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

MAX_CUT_TOKENS = 256
"""A chunk made from passed cut positions (a sentence) is cut again past this many tokens."""


def chunk_bounds(n_tokens: int, granularity: int) -> Ints:
    """Cut ``n_tokens`` tokens in chunks of ``granularity``; the last one may be shorter.

    Returns (n_chunks + 1,) int64: chunk i holds the tokens ``bounds[i]:bounds[i + 1]``. No tokens
    give one empty chunk, so that an empty text still has a landmark.

    >>> chunk_bounds(70, 32).tolist()
    [0, 32, 64, 70]
    >>> chunk_bounds(0, 32).tolist()
    [0, 0]
    """
    if granularity < 1:
        raise ValueError(f"granularity must be at least 1 token, got {granularity}")
    if n_tokens < 0:
        raise ValueError(f"n_tokens must not be negative, got {n_tokens}")
    inner = np.arange(0, n_tokens, granularity, dtype=np.int64)
    return np.append(inner if n_tokens else np.zeros(1, np.int64), n_tokens)


def chunk_bounds_at(n_tokens: int, cuts: Ints, max_tokens: int = MAX_CUT_TOKENS) -> Ints:
    """Cut at given token positions (sentence starts); longer chunks are cut at ``max_tokens``.

    cuts: (n_cuts,) ascending token indices; those outside ``0 < cut < n_tokens`` are ignored.
    Returns (n_chunks + 1,) int64 as `chunk_bounds` does.

    >>> chunk_bounds_at(10, np.array([3, 9]), max_tokens=4).tolist()
    [0, 3, 7, 9, 10]
    """
    if max_tokens < 1:
        raise ValueError(f"max_tokens must be at least 1, got {max_tokens}")
    if n_tokens == 0:
        return np.zeros(2, np.int64)
    inside = np.unique(cuts[(cuts > 0) & (cuts < n_tokens)])
    edges = np.concatenate([[0], inside, [n_tokens]]).astype(np.int64)
    parts = [np.arange(a, b, max_tokens) for a, b in itertools.pairwise(edges)]
    return np.append(np.concatenate(parts), n_tokens).astype(np.int64)


def token_boundaries(offsets: Ints, floor: int = 0) -> Ints:
    """The character position where each token's share of the text begins, and the last end.

    offsets: (n_tokens, 2) half-open character ranges as tokenizers give them: with gaps (white
        space), repeats (a character split between byte-level tokens), rarely out of order.
    floor: the end of everything before the first token.
    Returns (n_tokens + 1,) int64, never descending. The tokens ``i:j`` own the characters
    ``boundaries[i]:boundaries[j]``, so neighbouring ranges tile the text: white space belongs to
    the token before it, and a split character to the earlier token (a later share may be empty).

    >>> token_boundaries(np.array([[0, 2], [3, 4], [3, 4], [4, 6]])).tolist()
    [0, 3, 4, 4, 6]
    """
    if len(offsets) == 0:
        return np.array([floor], np.int64)
    ends = np.maximum.accumulate(np.maximum(offsets[:, 1], floor))
    before = np.concatenate([[floor], ends[:-1]])
    return np.append(np.maximum(offsets[:, 0], before), ends[-1]).astype(np.int64)


def landmark_spans(boundaries: Ints, bounds: Ints) -> Ints:
    """One half-open character span per chunk.

    boundaries: (n_tokens + 1,) from `token_boundaries`; bounds: (n_chunks + 1,).
    Returns (n_chunks, 2) int64; each span starts where the one before ends.

    >>> landmark_spans(np.array([0, 3, 4, 6]), np.array([0, 2, 3])).tolist()
    [[0, 4], [4, 6]]
    """
    edges = boundaries[bounds]
    return np.stack([edges[:-1], edges[1:]], axis=1)


def insert_landmarks(
    ids: Ints, bounds: Ints, landmark_id: int, prefix: Sequence[int] = ()
) -> tuple[Ints, Ints]:
    """Put ``landmark_id`` after every chunk, behind the ``prefix`` tokens ([CLS], a prompt).

    ids: (n_tokens,); bounds: (n_chunks + 1,), may start past 0: only its chunks are taken.
    Returns the encoder's input ids, (len(prefix) + tokens + n_chunks,) int64, and the positions
    of the landmarks in it, (n_chunks,) int64.

    >>> ids, at = insert_landmarks(np.array([7, 8, 9]), np.array([0, 2, 3]), 102, prefix=[101])
    >>> ids.tolist(), at.tolist()
    ([101, 7, 8, 102, 9, 102], [3, 5])
    """
    first = int(bounds[0])
    inner = ids[first : int(bounds[-1])]
    with_landmarks = np.insert(inner, bounds[1:] - first, landmark_id)
    positions = len(prefix) + (bounds[1:] - first) + np.arange(len(bounds) - 1)
    return np.concatenate([np.asarray(prefix, np.int64), with_landmarks]), positions
