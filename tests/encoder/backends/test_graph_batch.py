"""Windows as arrays, and back."""

import numpy as np

from lmk_integrations.encoder.backends.base import WindowInput
from lmk_integrations.encoder.backends.graph_batch import pack


def window(ids, runs):
    starts, stops = np.array(runs, np.int64).reshape(-1, 2).T
    return WindowInput(np.array(ids, np.int64), starts, stops)


def test_padding_is_told_by_lengths():
    """The mask follows the lengths, even where windows hold the padding's id."""
    batch = pack([window([7, 0, 0], [(2, 3)]), window([7], [(0, 1)])], pad_id=0, max_length=3)
    assert batch.ids.tolist() == [[7, 0, 0], [7, 0, 0]]
    assert batch.mask.tolist() == [[1, 1, 1], [1, 0, 0]]


def test_lengths_are_rounded_up_but_not_beyond_the_positions_there_are():
    """16 positions to a step; a window of the full length gets no more."""
    assert pack([window([1] * 17, [(0, 1)])], pad_id=0, max_length=512).ids.shape == (1, 32)
    assert pack([window([1] * 17, [(0, 1)])], pad_id=0, max_length=20).ids.shape == (1, 20)
    assert pack([window([1] * 17, [(0, 1)])], pad_id=0, max_length=9).ids.shape == (1, 17)


def test_single_positions_come_back_as_they_are():
    """Each window gets its rows, also a window that wants none."""
    windows = [window([1, 2, 3], [(0, 1), (2, 3)]), window([4], []), window([5, 6], [(1, 2)])]
    batch = pack(windows, pad_id=0, max_length=16)
    assert batch.batch.tolist() == [0, 0, 2]
    assert batch.position.tolist() == [0, 2, 1]
    rows = batch.deal(np.arange(6, dtype=np.float32).reshape(3, 2))
    assert [row.tolist() for row in rows] == [[[0, 1], [2, 3]], [], [[4, 5]]]


def test_runs_come_back_as_means():
    """A run of positions gives the mean of their states, in float32."""
    windows = [window([1, 2, 3], [(0, 2), (2, 3)]), window([5, 6], [(0, 2)])]
    batch = pack(windows, pad_id=0, max_length=16)
    assert batch.batch.tolist() == [0, 0, 0, 1, 1]
    assert batch.position.tolist() == [0, 1, 2, 0, 1]
    rows = batch.deal(np.array([[0], [2], [9], [4], [7]], np.float32))
    assert [row.tolist() for row in rows] == [[[1], [9]], [[5.5]]]
    assert {row.dtype for row in rows} == {np.dtype(np.float32)}
