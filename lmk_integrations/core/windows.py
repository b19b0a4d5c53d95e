"""Windows: what the encoder reads at once. Each landmark is owned by exactly one window."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Window:
    """A run of whole chunks.

    The window owns the chunks ``first:stop`` and also reads ``context:first``, which another
    window owns, so that its own chunks see what stands before them.
    """

    context: int
    first: int
    stop: int


def plan_windows(
    costs: Ints, capacity: int, *, overlap: int = 0, first_owned: int = 0
) -> list[Window]:
    """Split chunks into the fewest windows, each as near to an even share as whole chunks allow.

    costs: (n_chunks,) positions that each chunk takes, its landmark included.
    capacity: positions one window has for chunks (the encoder's limit less prefix and suffix).
    overlap: positions of context wanted before a window's own chunks; whole chunks that cover it
        are taken, never more than half of the capacity.
    first_owned: the chunks before this one are context only (owned by earlier windows).
    Raises ValueError if a chunk alone exceeds the capacity.

    >>> [(w.first, w.stop) for w in plan_windows(np.array([33] * 16), 512)]
    [(0, 8), (8, 16)]
    """
    owned = costs[first_owned:]
    if len(owned) == 0:
        return []
    if int(owned.max()) > capacity:
        raise ValueError(
            f"a chunk of {int(owned.max())} positions does not fit a window of {capacity}"
        )
    ends = np.concatenate([[0], np.cumsum(costs)]).astype(np.int64)
    contexts = _contexts(ends, capacity, overlap)
    furthest = np.searchsorted(ends, ends[contexts] + capacity, side="right") - 1
    needed = _windows_needed(furthest, first_owned)
    windows: list[Window] = []
    first = first_owned
    for left in range(int(needed[first_owned]), 0, -1):
        share = ends[first] + (ends[-1] - ends[first]) / left
        nearest = int(np.searchsorted(ends, share))
        nearest -= bool(share - ends[nearest - 1] <= ends[nearest] - share)
        # What stays must fit the windows left; -needed ascends.
        fewest = first_owned + int(np.searchsorted(-needed[first_owned:], 1 - left))
        stop = min(max(nearest, fewest, first + 1), int(furthest[first]))
        windows.append(Window(int(contexts[first]), first, stop))
        first = stop
    return windows


def _contexts(ends: Ints, capacity: int, overlap: int) -> Ints:
    """For each chunk, the first chunk that is read as context when a window starts at it."""
    begins = np.arange(len(ends) - 1, dtype=np.int64)
    if overlap <= 0:
        return begins
    wanted = np.searchsorted(ends, ends[:-1] - overlap, side="right") - 1
    allowed = np.searchsorted(ends, ends[:-1] - capacity // 2, side="left")
    # Context gives way where even one chunk would not fit beside it.
    fitting = np.searchsorted(ends, ends[1:] - capacity, side="left")
    return np.minimum(np.maximum.reduce([wanted, allowed, fitting, np.zeros_like(begins)]), begins)


def _windows_needed(furthest: Ints, first: int) -> Ints:
    """(n_chunks + 1,) how few windows can own the chunks from each one on to the last.

    furthest: (n_chunks,) where a window that starts at a chunk must stop at the latest.
    """
    reach = furthest.tolist()
    needed = [0] * (len(reach) + 1)
    for chunk in range(len(reach) - 1, first - 1, -1):
        needed[chunk] = needed[reach[chunk]] + 1
    return np.array(needed, np.int64)
