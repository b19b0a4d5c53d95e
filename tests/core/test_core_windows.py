"""Windows: every chunk owned once, none too full, few, and evenly filled."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmk_integrations.core.windows import plan_windows


def owned(windows):
    return [(window.first, window.stop) for window in windows]


@pytest.mark.parametrize(
    ("costs", "capacity", "expected"),
    [
        ([], 10, []),
        ([10], 10, [(0, 1)]),
        ([4, 4, 2], 10, [(0, 3)]),
        ([4, 4, 3], 10, [(0, 1), (1, 3)]),
        # 10 chunks of which 4 fit: 3, 3, 4 and not 4, 4, 2.
        ([33] * 10, 132, [(0, 3), (3, 6), (6, 10)]),
        # 13 of which 4 fit: none is left with a single chunk.
        ([33] * 13, 132, [(0, 3), (3, 6), (6, 9), (9, 13)]),
    ],
)
def test_windows(costs, capacity, expected):
    """The windows of small cases, worked out by hand."""
    assert owned(plan_windows(np.array(costs, np.int64), capacity)) == expected


def test_context_is_read_but_not_owned():
    """Overlap takes whole chunks that cover it; the first window has none before it."""
    windows = plan_windows(np.array([10] * 6), 40, overlap=15)
    assert [(w.context, w.first, w.stop) for w in windows] == [(0, 0, 4), (2, 4, 6)]


def test_context_from_earlier_windows():
    """Chunks before first_owned are context of the first window, and owned by none."""
    windows = plan_windows(np.array([10] * 6), 40, overlap=10, first_owned=2)
    assert [(w.context, w.first, w.stop) for w in windows] == [(1, 2, 4), (3, 4, 6)]


def test_context_gives_way_to_a_large_chunk():
    """Context shrinks, down to none, where a chunk would not fit beside it."""
    windows = plan_windows(np.array([10, 10, 35, 40]), 40, overlap=20)
    assert [(w.context, w.first, w.stop) for w in windows] == [(0, 0, 2), (2, 2, 3), (3, 3, 4)]


def test_a_chunk_above_the_capacity_is_an_error():
    """Nothing is truncated, so what cannot fit is refused, with both numbers."""
    with pytest.raises(ValueError, match="41 positions does not fit a window of 40"):
        plan_windows(np.array([3, 41]), 40)


chunk_costs = st.lists(st.integers(1, 40), min_size=1, max_size=120)


@st.composite
def cases(draw):
    costs = draw(chunk_costs)
    capacity = draw(st.integers(max(costs), 160))
    overlap = draw(st.integers(0, 200))
    first = draw(st.integers(0, len(costs)))
    return np.array(costs, np.int64), capacity, overlap, first


@settings(max_examples=300)
@given(cases())
def test_each_chunk_is_owned_once_within_capacity(case):
    """Windows partition the owned chunks in order, and never exceed the capacity with context."""
    costs, capacity, overlap, first = case
    windows = plan_windows(costs, capacity, overlap=overlap, first_owned=first)
    found = [chunk for w in windows for chunk in range(w.first, w.stop)]
    assert found == list(range(first, len(costs)))
    for window in windows:
        assert 0 <= window.context <= window.first < window.stop
        assert costs[window.context : window.stop].sum() <= capacity
        context = costs[window.context : window.first]
        assert context.sum() <= capacity // 2
        assert context[1:].sum() < max(overlap, 1)  # no chunk more than needed to cover it


def fewest_windows(costs, capacity):
    """By dynamic programming over all partitions into runs within the capacity."""
    best = [0] + [len(costs) + 1] * len(costs)
    for stop in range(1, len(costs) + 1):
        for first in range(stop):
            if sum(costs[first:stop]) <= capacity:
                best[stop] = min(best[stop], best[first] + 1)
    return best[-1]


@settings(max_examples=150)
@given(st.lists(st.integers(1, 20), min_size=1, max_size=24), st.integers(20, 70))
def test_fewest_windows(costs, capacity):
    """No partition needs fewer windows."""
    assert len(plan_windows(np.array(costs), capacity)) == fewest_windows(costs, capacity)


@given(st.integers(1, 400), st.integers(1, 50), st.integers(0, 49))
def test_equal_chunks_are_dealt_out_evenly(count, cost, room):
    """With equal chunks, windows differ by one chunk at most."""
    windows = plan_windows(np.full(count, cost), 8 * cost + room % cost)
    sizes = [window.stop - window.first for window in windows]
    assert max(sizes) - min(sizes) <= 1


@settings(max_examples=300)
@given(chunk_costs, st.integers(2, 6))
def test_uneven_chunks_are_dealt_out_nearly_evenly(costs, factor):
    """Fills differ by little more than the largest chunk where the capacity leaves a choice."""
    largest = max(costs)
    windows = plan_windows(np.array(costs), factor * largest * 4)
    fills = [sum(costs[w.first : w.stop]) for w in windows]
    assert max(fills) - min(fills) <= 2 * largest


@given(cases())
def test_more_capacity_never_needs_more_windows(case):
    """A larger window never makes more of them."""
    costs, capacity, overlap, _ = case
    counts = [len(plan_windows(costs, c, overlap=0)) for c in (capacity, capacity + 7)]
    assert counts[1] <= counts[0]
    with_context = len(plan_windows(costs, capacity, overlap=overlap))
    assert with_context >= counts[0]


def test_a_hundred_thousand_chunks_take_no_time():
    """A whole library in one text is planned at once: the work is linear."""
    windows = plan_windows(np.full(100_000, 33), 512, overlap=64)
    assert sum(w.stop - w.first for w in windows) == 100_000
    assert all(a.stop == b.first for a, b in itertools.pairwise(windows))
