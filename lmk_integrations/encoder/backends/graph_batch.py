"""Windows as the arrays that a graph takes, and a graph's rows dealt out to the windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lmk_integrations.encoder.backends.base import Floats, Ints, WindowInput

# Graph engines prepare themselves for each shape they meet: few lengths, few preparations.
_LENGTH_STEP = 16


@dataclass(frozen=True, slots=True)
class GraphBatch:
    """One padded batch.

    ids, mask: (b, n). batch, position: (r,), every position of every run, one after another.
    run_lengths: how many of them make each wanted row. rows: the number of rows of each window.
    """

    ids: Ints
    mask: Ints
    batch: Ints
    position: Ints
    run_lengths: Ints
    rows: list[int]

    @property
    def inputs(self) -> tuple[Ints, Ints, Ints, Ints]:
        """What the graph is called with."""
        return self.ids, self.mask, self.batch, self.position

    def deal(self, states: Floats) -> list[Floats]:
        """(r, dim) states of the positions -> each window's (n_rows, dim) rows, means of runs."""
        if len(states) != len(self.run_lengths):
            first = np.cumsum(self.run_lengths) - self.run_lengths
            sums = np.add.reduceat(states, first, axis=0)
            states = (sums / self.run_lengths[:, None]).astype(np.float32)
        return np.split(states, np.cumsum(self.rows)[:-1])


def pack(windows: Sequence[WindowInput], *, pad_id: int, max_length: int) -> GraphBatch:
    """Pad windows to one length, of at most ``max_length`` unless a window is longer."""
    lengths = np.array([len(window.ids) for window in windows])
    longest = int(lengths.max())
    rounded = -(-longest // _LENGTH_STEP) * _LENGTH_STEP
    ids = np.full((len(windows), max(longest, min(rounded, max_length))), pad_id, np.int64)
    for row, window in enumerate(windows):
        ids[row, : len(window.ids)] = window.ids
    # From the lengths, never from the ids: PAD may equal the landmark.
    mask = (np.arange(ids.shape[1]) < lengths[:, None]).astype(np.int64)
    rows = [len(window.starts) for window in windows]
    starts = np.concatenate([window.starts for window in windows])
    runs = np.concatenate([window.stops for window in windows]) - starts
    within = np.arange(int(runs.sum())) - np.repeat(np.cumsum(runs) - runs, runs)
    return GraphBatch(
        ids,
        mask,
        batch=np.repeat(np.repeat(np.arange(len(windows)), rows), runs),
        position=np.repeat(starts, runs) + within,
        run_lengths=runs,
        rows=rows,
    )
