"""Landmarks: chunks, spans and positions."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmk_integrations.core.landmarks import (
    MAX_CUT_TOKENS,
    chunk_bounds,
    chunk_bounds_at,
    insert_landmarks,
    landmark_spans,
    token_boundaries,
)


@pytest.mark.parametrize(
    ("n_tokens", "granularity", "expected"),
    [
        (0, 32, [0, 0]),
        (1, 32, [0, 1]),
        (32, 32, [0, 32]),
        (33, 32, [0, 32, 33]),
        (7, 3, [0, 3, 6, 7]),
        (3, 1, [0, 1, 2, 3]),
    ],
)
def test_chunk_bounds(n_tokens, granularity, expected):
    """Chunks are full but for the last, which may be short; an empty text has one empty chunk."""
    assert chunk_bounds(n_tokens, granularity).tolist() == expected


@pytest.mark.parametrize(("n_tokens", "granularity"), [(-1, 32), (5, 0), (5, -3)])
def test_chunk_bounds_refuses_nonsense(n_tokens, granularity):
    """A granularity or count that cannot be is an error, not an empty result."""
    with pytest.raises(ValueError, match=r"granularity|n_tokens"):
        chunk_bounds(n_tokens, granularity)


@pytest.mark.parametrize(
    ("n_tokens", "cuts", "most", "expected"),
    [
        (10, [], 256, [0, 10]),
        (10, [0, 4, 10, 99, -2], 256, [0, 4, 10]),
        (10, [4, 4, 4], 256, [0, 4, 10]),
        (10, [9], 4, [0, 4, 8, 9, 10]),
        (0, [0, 3], 4, [0, 0]),
        (600, [], MAX_CUT_TOKENS, [0, 256, 512, 600]),
    ],
)
def test_chunk_bounds_at(n_tokens, cuts, most, expected):
    """Cuts outside the text or repeated are ignored; a sentence over the limit is cut again."""
    assert chunk_bounds_at(n_tokens, np.array(cuts, np.int64), most).tolist() == expected


@pytest.mark.parametrize(
    ("offsets", "floor", "expected"),
    [
        ([], 5, [5]),
        ([(0, 2), (3, 4)], 0, [0, 3, 4]),  # white space belongs to the token before it
        ([(0, 1), (0, 1), (0, 1), (1, 2)], 0, [0, 1, 1, 1, 2]),  # a split emoji to the first
        ([(2, 4), (1, 3), (5, 6)], 0, [2, 4, 5, 6]),  # out of order: never back
        ([(0, 3)], 2, [2, 3]),  # nothing before the floor is owned twice
        ([(4, 4), (5, 7)], 0, [4, 5, 7]),  # an empty token
    ],
)
def test_token_boundaries(offsets, floor, expected):
    """The share of each token, for the odd offsets that real tokenizers give."""
    assert token_boundaries(np.array(offsets, np.int64).reshape(-1, 2), floor).tolist() == expected


def test_insert_landmarks_from_the_middle():
    """Bounds may start past 0: only their chunks are taken, and positions count the prefix."""
    ids, at = insert_landmarks(np.arange(10, 20), np.array([4, 6, 9]), 99, prefix=[1, 2])
    assert ids.tolist() == [1, 2, 14, 15, 99, 16, 17, 18, 99]
    assert at.tolist() == [4, 8]


def test_insert_landmark_after_an_empty_chunk():
    """An empty text is [CLS] [LMK]."""
    ids, at = insert_landmarks(np.empty(0, np.int64), np.array([0, 0]), 99, prefix=[1])
    assert (ids.tolist(), at.tolist()) == ([1, 99], [1])


offset_lists = st.lists(st.tuples(st.integers(0, 200), st.integers(0, 9)), max_size=60)


@given(offset_lists, st.integers(0, 50), st.integers(1, 70))
def test_spans_tile_whatever_the_offsets(raw, floor, granularity):
    """Spans are in order, without gap or overlap, from the first token to the furthest end."""
    offsets = np.array([(a, a + n) for a, n in raw], np.int64).reshape(-1, 2)
    boundaries = token_boundaries(offsets, floor)
    assert len(boundaries) == len(offsets) + 1
    assert np.all(np.diff(boundaries) >= 0)
    assert boundaries[0] >= floor
    spans = landmark_spans(boundaries, chunk_bounds(len(offsets), granularity))
    assert len(spans) == max(1, -(-len(offsets) // granularity))
    assert np.all(spans[:, 0] <= spans[:, 1])
    assert spans[1:, 0].tolist() == spans[:-1, 1].tolist()
    if len(offsets):
        assert spans[0, 0] == max(offsets[0, 0], floor)
        assert spans[-1, 1] == max(floor, offsets[:, 1].max())


@given(st.integers(0, 600), st.lists(st.integers(-5, 605)), st.integers(1, 300))
def test_cuts_are_kept_and_chunks_bounded(n_tokens, cuts, most):
    """Every passed cut inside the text is a bound, and no chunk is empty or above the limit."""
    bounds = chunk_bounds_at(n_tokens, np.array(cuts, np.int64), most).tolist()
    assert bounds[0] == 0
    assert bounds[-1] == n_tokens
    sizes = [b - a for a, b in itertools.pairwise(bounds)]
    assert max(sizes) <= most
    assert min(sizes) >= min(1, n_tokens)
    assert {cut for cut in cuts if 0 < cut < n_tokens} <= set(bounds)


@given(st.lists(st.integers(3, 9), max_size=80), st.integers(1, 40), st.lists(st.just(1)))
def test_landmarks_taken_out_again_leave_the_tokens(tokens, granularity, prefix):
    """The positions name exactly the inserted tokens: without them the input is the text's."""
    bounds = chunk_bounds(len(tokens), granularity)
    ids, at = insert_landmarks(np.array(tokens, np.int64), bounds, 99, prefix)
    assert np.all(ids[at] == 99)
    assert np.delete(ids, at).tolist() == [*prefix, *tokens]
    assert at[-1] == len(ids) - 1
