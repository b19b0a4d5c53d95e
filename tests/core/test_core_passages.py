"""Passages: the best run of landmarks, grown to sentences."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmk_integrations.core.passages import best_run, grow_to_sentences


@pytest.mark.parametrize(
    ("scores", "tokens", "most", "expected"),
    [
        ([0.3], [32], 8, (0, 1)),  # one landmark always stays
        ([0.1, 0.5, 0.9, 0.8, 0.1], [32] * 5, 96, (2, 4)),  # the bar is at 0.7
        ([0.1, 0.8, 0.9, 0.8, 0.1, 0.1, 0.1], [32] * 7, 96, (1, 4)),
        ([0.1, 0.8, 0.9, 0.85, 0.1, 0.1], [32] * 6, 64, (2, 4)),  # room for the better one only
        ([0.1, 0.8, 0.9, 0.85, 0.1, 0.1], [9, 16, 32, 60, 9, 9], 64, (1, 3)),  # the one that fits
        ([0.2, 0.2, 0.2], [10] * 3, 100, (0, 3)),
    ],
)
def test_best_run(scores, tokens, most, expected):
    """The best landmark with the neighbours that score well and fit, worked out by hand."""
    assert best_run(np.array(scores, np.float32), np.array(tokens), most) == expected


# Three landmarks of ten characters and ten tokens each; sentences begin at 0, 8, 14, 27.
STARTS = np.array([0, 8, 14, 27])
SPANS = np.array([[0, 10], [10, 20], [20, 30]])
TOKENS = np.array([10, 10, 10])


@pytest.mark.parametrize(
    ("span", "most", "expected"),
    [
        ((10, 20), 30, (8, 27)),
        ((10, 20), 19, (8, 27)),
        ((10, 20), 18, (8, 20)),  # the beginning first, then the end has no room
        ((10, 20), 11, (10, 20)),  # neither fits
        ((8, 14), 100, (8, 14)),  # whole sentences stay as they are
        ((20, 30), 100, (14, 30)),
    ],
)
def test_grow_to_sentences(span, most, expected):
    """Both ends move out to sentence bounds while they fit, worked out by hand."""
    assert grow_to_sentences(span, STARTS, SPANS, TOKENS, most) == expected


def test_growth_without_sentences_reaches_the_ends():
    """Where no sentence start is known, what the landmarks cover is the sentence."""
    none = np.empty(0, np.int64)
    assert grow_to_sentences((10, 20), none, SPANS, TOKENS, 100) == (0, 30)


@given(
    st.lists(st.floats(-1, 1, width=32), min_size=1, max_size=40),
    st.integers(1, 40),
    st.integers(1, 300),
)
def test_best_run_holds_the_best_within_the_budget(scores, tokens, most):
    """The run is in range, holds the best landmark, and fits unless it is that one alone."""
    first, stop = best_run(np.array(scores, np.float32), np.full(len(scores), tokens), most)
    assert 0 <= first <= int(np.argmax(np.array(scores, np.float32))) < stop <= len(scores)
    assert stop - first == 1 or (stop - first) * tokens <= most


@st.composite
def stretches(draw):
    sizes = draw(st.lists(st.integers(0, 30), min_size=1, max_size=20))
    begin = draw(st.integers(0, 50))
    edges = begin + np.concatenate([[0], np.cumsum(sizes)])
    tokens = np.array(draw(st.lists(st.integers(1, 32), min_size=len(sizes), max_size=len(sizes))))
    run = sorted(draw(st.tuples(*[st.integers(0, len(sizes))] * 2)))
    starts = sorted(draw(st.sets(st.integers(0, int(edges[-1]) + 20))))
    spans = np.stack([edges[:-1], edges[1:]], axis=1)
    span = (int(edges[run[0]]), int(edges[run[1]]))
    return span, np.array(starts, np.int64), spans, tokens


@given(stretches(), st.integers(1, 400))
def test_growth_widens_within_the_budget(case, most):
    """The span never shrinks, stays on the landmarks' text, and grows within the budget only."""
    span, starts, spans, tokens = case
    first, stop = grow_to_sentences(span, starts, spans, tokens, most)
    assert spans[0, 0] <= first <= span[0] <= span[1] <= stop <= spans[-1, 1]
    # Characters spread evenly over each landmark's tokens, counted one by one.
    held = sum(
        float(n) * max(0, min(stop, b) - max(first, a)) / (b - a)
        for (a, b), n in zip(spans.tolist(), tokens.tolist(), strict=True)
        if b > a
    )
    assert (first, stop) == span or held <= most + 1e-6
    assert first == span[0] or first in starts or first == spans[0, 0]
    assert stop == span[1] or stop in starts or stop == spans[-1, 1]
