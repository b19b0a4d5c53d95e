"""Runs of landmarks: few, even, and never over the limit unless one landmark is."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmk_integrations.core.runs import even_runs


@settings(deadline=None)
@given(st.lists(st.integers(0, 60), min_size=1, max_size=40), st.integers(1, 150))
def test_runs_tile_and_fit(sizes, limit):
    """Runs follow each other without gaps, and only single landmarks are longer than the limit."""
    tokens = np.array(sizes, np.int64)
    runs = even_runs(tokens, limit)
    assert runs[0, 0] == 0
    assert runs[-1, 1] == len(tokens)
    assert (runs[1:, 0] == runs[:-1, 1]).all()
    for first, stop in runs.tolist():
        assert stop > first
        filled = [size for size in sizes[first:stop] if size]
        assert sum(filled) <= limit or len(filled) == 1


@pytest.mark.parametrize("count", range(1, 30))
def test_equal_landmarks_make_few_and_even_runs(count):
    """As few runs as hold them, of which none has two landmarks more than another."""
    lengths = np.diff(even_runs(np.full(count, 32), 128), axis=1).ravel()
    assert len(lengths) == -(-count // 4)
    assert lengths.max() - lengths.min() <= 1
    assert even_runs(np.empty(0, np.int64), 128).shape == (0, 2)
