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
    """Split chunks into the fewest windows, filled as evenly as whole chunks allow.

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
    contexts = _contexts(costs, capacity, overlap)
    fewest = len(_fill(costs, capacity, contexts, first_owned, capacity))
    # The smallest fill that still needs no further window is the evenest one.
    low, high = int(owned.max()), capacity
    while low < high:
        middle = (low + high) // 2
        if len(_fill(costs, middle, contexts, first_owned, capacity)) <= fewest:
            high = middle
        else:
            low = middle + 1
    return _fill(costs, low, contexts, first_owned, capacity)


def _contexts(costs: Ints, capacity: int, overlap: int) -> Ints:
    """For each chunk, the first chunk that is read as context when a window starts at it."""
    begins = np.arange(len(costs), dtype=np.int64)
    if overlap <= 0:
        return begins
    ends = np.concatenate([[0], np.cumsum(costs)])
    wanted = np.searchsorted(ends, ends[:-1] - overlap, side="right") - 1
    allowed = np.searchsorted(ends, ends[:-1] - capacity // 2, side="left")
    return np.minimum(np.maximum(np.maximum(wanted, allowed), 0), begins)


def _fill(costs: Ints, fill: int, contexts: Ints, first: int, capacity: int) -> list[Window]:
    """Fill greedily: at most ``fill`` owned positions, at most ``capacity`` with the context."""
    ends = np.concatenate([[0], np.cumsum(costs)])
    windows: list[Window] = []
    while first < len(costs):
        context = int(contexts[first])
        # Context gives way where even one chunk would not fit beside it.
        while ends[first + 1] - ends[context] > capacity:
            context += 1
        room = min(ends[first] + fill, ends[context] + capacity)
        stop = max(first + 1, int(np.searchsorted(ends, room, side="right")) - 1)
        windows.append(Window(context, first, stop))
        first = stop
    return windows
