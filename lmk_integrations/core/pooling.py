"""Pooling: landmark states -> the vector of a text, a section or a passage.

One picture serves every mode. A window gives *rows*, each the mean of the token states in a
run of positions, and a text's vector is the weighted mean of all its rows over all windows:

    lmk    row = the state at a landmark, weight 1; landmarks that close a window count to its last
           row, each with weight 1
    mean   row = the mean over a chunk's tokens, weight = their number; the window's special
           tokens count to its first and last row, so the total is the mean over all tokens
    cls    rows as for mean, but the text's vector is the state of the first token
    last   rows as for mean, but the text's vector is the state of the last token
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]

Pooling = Literal["lmk", "mean", "cls", "last"]
POOLINGS: tuple[str, ...] = get_args(Pooling)

_TINY = 1e-12


@dataclass(frozen=True, slots=True)
class RowPlan:
    """Which runs of positions of one window become rows.

    starts, stops: (n_rows,) half-open runs of positions; row i is the mean of those states.
    weights: (n_owned,) what each owned row counts in the text's vector.
    text_row: index of a row that *is* the window's text vector (cls, last); None: the rows' mean.
    """

    starts: Ints
    stops: Ints
    weights: Floats
    text_row: int | None = None


def plan_rows(
    pooling: Pooling,
    positions: Ints,
    first_owned: int,
    n_prefix: int,
    length: int,
    *,
    pooled_prefix_start: int = 0,
    n_closing: int = 0,
) -> RowPlan:
    """Decide the rows of one window.

    positions: for "lmk" (n_chunks,), where each chunk's landmark stands; else (n_chunks + 1,),
        the positions where the chunks begin, and where the last one ends.
    first_owned: chunks before this one are context and give no row.
    n_prefix: special and prompt tokens before the first chunk; length: positions in the window.
    pooled_prefix_start: the first position that counts in a mean (past a prompt that a model
        leaves out of its pooling).
    n_closing: for "lmk", landmarks right behind that of the last chunk.
    """
    if pooling == "lmk":
        at, weights = positions[first_owned:], np.ones(len(positions) - first_owned, np.float32)
        stops = at + 1
        stops[-1] += n_closing
        weights[-1] += n_closing
        return RowPlan(at, stops, weights)
    starts, stops = positions[first_owned:-1].copy(), positions[first_owned + 1 :].copy()
    if pooling == "mean":
        if first_owned == 0:
            starts[0] = min(pooled_prefix_start, n_prefix)
        stops[-1] = length
        if stops[-1] == starts[-1]:  # an empty text behind a prompt that is left out
            starts[-1] = 0
        return RowPlan(starts, stops, (stops - starts).astype(np.float32))
    weights = (stops - starts).astype(np.float32)
    if stops[-1] == starts[-1]:  # an empty text: its row is all there is
        starts[-1], stops[-1], weights[-1] = 0, length, 1
    text_at = length - 1
    if pooling == "cls":
        text_at = pooled_prefix_start if pooled_prefix_start < length else 0
    return RowPlan(
        np.append(starts, text_at), np.append(stops, text_at + 1), weights, text_row=len(weights)
    )


def l2_normalize(vectors: Floats) -> Floats:
    """Scale vectors to unit length along the last axis; a zero vector stays zero.

    >>> l2_normalize(np.array([[3, 4], [0, 0]], np.float32)).round(1).tolist()
    [[0.6000000238418579, 0.800000011920929], [0.0, 0.0]]
    """
    norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors / np.maximum(norms, _TINY), np.float32)


def weighted_sum(rows: Floats, weights: Floats) -> NDArray[np.float64]:
    """Sum of ``weights[i] * rows[i]`` in double precision.

    rows: (n_rows, dim), weights: (n_rows,). Returns (dim,). Sums of sections add up to the
    document's, which is why sums and not means are carried.

    >>> weighted_sum(np.array([[3, 0], [0, 4]], np.float32), np.ones(2, np.float32)).tolist()
    [3.0, 4.0]
    """
    return np.asarray(weights.astype(np.float64) @ rows.astype(np.float64))


def pool_landmarks(
    rows: Floats, weights: Floats | None = None, *, normalize: bool = True
) -> Floats:
    """The vector of a text: the (weighted) mean of its landmark states, then L2.

    rows: (n_landmarks, dim), any number of windows in order; weights: (n_landmarks,), default 1.
    Returns (dim,) float32. Raises ValueError without rows.

    >>> pool_landmarks(np.array([[3, 0], [0, 4]], np.float32)).round(1).tolist()
    [0.6000000238418579, 0.800000011920929]
    """
    if len(rows) == 0:
        raise ValueError("there is no landmark to pool; an empty text has one too")
    if weights is None:
        weights = np.ones(len(rows), np.float32)
    mean = (weighted_sum(rows, weights) / max(float(weights.sum()), _TINY)).astype(np.float32)
    return l2_normalize(mean) if normalize else mean


def passage_vectors(rows: Floats, runs: Ints, weights: Floats | None = None) -> Floats:
    """Vectors of passages: the mean of the landmarks in each run, then L2.

    rows: (n_landmarks, dim); runs: (n_passages, 2) half-open landmark ranges, none empty.
    Returns (n_passages, dim) float32.
    """
    chosen = [pool_landmarks(rows[a:b], None if weights is None else weights[a:b]) for a, b in runs]
    return np.stack(chosen) if chosen else np.empty((0, rows.shape[1]), np.float32)


def unit_rows(rows: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Rows as a store keeps them, and what each contributes to the pooled vector.

    rows: (n, dim), weights: (n,). Returns unit rows (n, dim) and shares (n,) such that
    ``sum(shares[:, None] * unit)`` is the L2-normalised pooled vector; so with a query q the
    terms ``shares[i] * (q @ unit[i])`` add up to the pooled vector's score exactly.
    """
    norms = np.linalg.norm(rows, axis=1)
    total = float(np.linalg.norm(weighted_sum(rows, weights)))
    shares = weights * norms / max(total, _TINY)
    return l2_normalize(rows), shares.astype(np.float32)
