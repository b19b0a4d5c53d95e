"""Sections: where they end, and how large they may be."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmk_integrations.core.sections import (
    MULTIVECTOR_LIMIT,
    default_section_tokens,
    max_section_rows,
    section_end,
)


@pytest.mark.parametrize(
    ("start", "n_tokens", "levels", "expected"),
    [
        (0, 100, [[50]], 100),  # fits: nothing is cut
        (0, 101, [[]], 100),  # nowhere better: at the budget
        (0, 200, [[74]], 100),  # a heading before the last quarter does not count
        (0, 200, [[75]], 75),  # the first place that does
        (0, 200, [[100]], 100),
        (0, 200, [[101]], 100),  # past the budget
        (0, 200, [[80, 90], [99]], 90),  # the latest heading, not the later paragraph
        (0, 200, [[], [80, 99], [100]], 99),  # else a paragraph
        (0, 200, [[], [], [76, 98]], 98),  # else a sentence
        (150, 400, [[160, 240]], 240),
    ],
)
def test_section_end(start, n_tokens, levels, expected):
    """The best kind of place within the last quarter, worked out by hand (budget 100)."""
    places = [np.array(level, np.int64) for level in levels]
    assert section_end(start, n_tokens, 100, places) == expected


levels = st.lists(st.lists(st.integers(0, 500), unique=True), min_size=1, max_size=4)


@given(st.integers(0, 500), st.integers(1, 120), levels)
def test_sections_tile_within_the_budget(n_tokens, budget, raw):
    """Sections follow each other, none is empty or over budget, all but the last are 3/4 full."""
    places = [np.array(sorted(level), np.int64) for level in raw]
    edges = [0]
    while edges[-1] < n_tokens:
        edges.append(section_end(edges[-1], n_tokens, budget, places))
    assert edges[-1] == n_tokens
    sizes = [b - a for a, b in itertools.pairwise(edges)]
    assert all(0 < size <= budget for size in sizes)
    assert all(size >= budget - budget // 4 for size in sizes[:-1])
    # A cut is at the budget or at a place of some kind, and then of the best kind there was.
    for first, stop in list(itertools.pairwise(edges))[:-1]:
        window = range(max(first + 1, first + budget - budget // 4), first + budget + 1)
        present = [sorted(set(level) & set(window)) for level in raw]
        best = next((level for level in present if level), [first + budget])
        assert stop == best[-1]


@pytest.mark.parametrize("dim", [1, 32, 384, 768, 1024, 1025, 4096, 1 << 20])
def test_max_section_rows_is_the_very_limit(dim):
    """One row more would be refused by Qdrant: rows * dim must stay below 2**20."""
    rows = max_section_rows(dim)
    assert rows * dim < MULTIVECTOR_LIMIT <= (rows + 1) * dim


@pytest.mark.parametrize(
    ("window", "expected"),
    [(480, 960), (512, 1024), (1024, 1024), (1025, 1024), (7936, 1024), (96, 960), (1, 1024)],
)
def test_default_section_tokens(window, expected):
    """A whole number of windows up to 1,024; 1,024 where the window is longer."""
    assert default_section_tokens(window) == expected


@pytest.mark.parametrize(
    ("window", "most", "expected"), [(480, 959, 480), (480, 479, 479), (7936, 1023, 1023)]
)
def test_default_sections_fit_a_point(window, most, expected):
    """Where a point holds less, the default is what it holds."""
    assert default_section_tokens(window, most) == expected
