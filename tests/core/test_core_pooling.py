"""Pooling: hand-computed values, and what must add up."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmk_integrations.core.pooling import (
    l2_normalize,
    passage_vectors,
    plan_rows,
    pool_landmarks,
    unit_rows,
    weighted_sum,
)

# One window, seven positions: [CLS] a b c d e [SEP]; chunks (a b) (c d) (e).
STATES = np.array([[1, 0], [2, 4], [4, 2], [0, 6], [6, 0], [3, 3], [5, 6]], np.float32)
CHUNKS = np.array([1, 3, 5, 6])


def rows_of(plan):
    return [
        [sum(Fraction(float(x)) for x in column) / (stop - start) for column in piece.T]
        for start, stop in zip(plan.starts, plan.stops, strict=True)
        for piece in [STATES[start:stop]]
    ]


def pooled(plan):
    if plan.text_row is not None:
        return rows_of(plan)[plan.text_row]
    rows = rows_of(plan)
    weights = [Fraction(float(w)) for w in plan.weights]
    return [
        sum(w * r[d] for w, r in zip(weights, rows, strict=True)) / sum(weights) for d in (0, 1)
    ]


def test_mean_is_the_mean_over_all_tokens():
    """[CLS] counts to the first row and [SEP] to the last; the total is the mean of all states."""
    plan = plan_rows("mean", CHUNKS, 0, 1, 7)
    assert rows_of(plan) == [[Fraction(7, 3), 2], [3, 3], [4, Fraction(9, 2)]]
    assert plan.weights.tolist() == [3, 2, 2]
    assert pooled(plan) == [3, 3]  # 21 / 7 in both dimensions


def test_mean_without_the_prompt():
    """A prompt left out of the pooling: the first row begins behind it."""
    # [CLS] and `a` are the prompt's.
    plan = plan_rows("mean", np.array([2, 3, 5, 6]), 0, 2, 7, pooled_prefix_start=2)
    assert plan.weights.tolist() == [1, 2, 2]
    assert pooled(plan) == [Fraction(18, 5), Fraction(17, 5)]


def test_context_gives_no_row():
    """Chunks owned by the window before give no row, and the first tokens no weight here."""
    plan = plan_rows("mean", CHUNKS, 1, 1, 7)
    assert (plan.starts.tolist(), plan.stops.tolist()) == ([3, 5], [5, 7])
    plan = plan_rows("lmk", np.array([3, 6]), 1, 1, 7)
    assert (plan.starts.tolist(), plan.stops.tolist()) == ([6], [7])


def test_lmk_rows_are_single_states():
    """Landmark pooling reads one state per landmark, weight 1 each."""
    plan = plan_rows("lmk", np.array([2, 4, 6]), 0, 1, 7)
    assert rows_of(plan) == [[4, 2], [6, 0], [5, 6]]
    assert plan.weights.tolist() == [1, 1, 1]
    assert pooled(plan) == [5, Fraction(8, 3)]


@pytest.mark.parametrize(("mode", "expected"), [("cls", [1, 0]), ("last", [5, 6])])
def test_cls_and_last_are_one_state(mode, expected):
    """The text's vector is one state; the chunks' rows stay the means of their tokens."""
    plan = plan_rows(mode, CHUNKS, 0, 1, 7)
    assert pooled(plan) == expected
    assert rows_of(plan)[:3] == [[3, 3], [3, 3], [3, 3]]
    assert plan.weights.tolist() == [2, 2, 1]


@pytest.mark.parametrize("mode", ["mean", "cls", "last"])
@pytest.mark.parametrize(("n_prefix", "length"), [(1, 2), (1, 1), (0, 1), (3, 3), (3, 4)])
@pytest.mark.parametrize("skip_prompt", [False, True])
def test_an_empty_text_has_one_real_row(mode, n_prefix, length, skip_prompt):
    """Whatever frames it, an empty text has a row over at least one position inside the window."""
    at = np.array([n_prefix, n_prefix])
    start = n_prefix if skip_prompt else 0
    plan = plan_rows(mode, at, 0, n_prefix, length, pooled_prefix_start=start)
    assert len(plan.weights) == 1
    assert np.all(plan.starts < plan.stops)
    assert plan.starts.min() >= 0
    assert plan.stops.max() <= length
    assert plan.weights[0] >= 1


def test_pool_landmarks_by_hand():
    """(3, 0) and (0, 4) with weights 1 and 3: the mean is (3/4, 3), its norm 3 * sqrt(17) / 4."""
    rows = np.array([[3, 0], [0, 4]], np.float32)
    weights = np.array([1, 3], np.float32)
    assert pool_landmarks(rows, weights, normalize=False).tolist() == [0.75, 3.0]
    expected = [1 / 17**0.5, 4 / 17**0.5]
    np.testing.assert_allclose(pool_landmarks(rows, weights), expected, rtol=1e-7)


def test_nothing_to_pool_is_an_error():
    """Even an empty text has a landmark, so no rows at all is a fault of the caller."""
    with pytest.raises(ValueError, match="no landmark"):
        pool_landmarks(np.empty((0, 2), np.float32))


def test_a_zero_vector_stays_zero():
    """No division by zero: a zero row is a zero row."""
    assert l2_normalize(np.zeros((2, 3), np.float32)).tolist() == [[0, 0, 0]] * 2
    units, shares = unit_rows(np.zeros((2, 3), np.float32), np.ones(2, np.float32))
    assert np.isfinite(units).all()
    assert np.isfinite(shares).all()


def test_passages_are_pooled_runs():
    """Each run of landmarks is pooled by itself; no run gives no vector."""
    rows = np.array([[3, 0], [0, 4], [2, 2]], np.float32)
    vectors = passage_vectors(rows, np.array([[0, 1], [0, 2]]), np.array([1, 3, 1], np.float32))
    np.testing.assert_allclose(vectors, [[1, 0], [1 / 17**0.5, 4 / 17**0.5]], rtol=1e-6)
    assert passage_vectors(rows, np.empty((0, 2), np.int64)).shape == (0, 2)


@st.composite
def row_sets(draw):
    n, dim = draw(st.integers(1, 40)), draw(st.integers(1, 24))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rows = rng.normal(size=(n, dim)) * rng.lognormal(sigma=2, size=(n, 1))
    return rows.astype(np.float32), rng.integers(1, 33, n).astype(np.float32)


@given(row_sets(), st.integers(0, 2**32 - 1))
def test_shares_add_up_to_the_pooled_score(case, seed):
    """The terms shares[i] * (q @ unit[i]) sum to q @ the pooled vector, for any query."""
    rows, weights = case
    query = l2_normalize(np.random.default_rng(seed).normal(size=rows.shape[1]).astype(np.float32))
    unit, shares = unit_rows(rows, weights)
    np.testing.assert_allclose(np.linalg.norm(unit, axis=1), 1, rtol=1e-5)
    vector = pool_landmarks(rows, weights)
    terms = shares.astype(np.float64) * (unit.astype(np.float64) @ query)
    scale = max(1.0, float(shares.sum()))  # rows that cancel out leave large terms
    assert abs(terms.sum() - float(vector.astype(np.float64) @ query)) < 1e-5 * scale


@given(row_sets(), st.data())
def test_sums_of_parts_are_the_sum_of_the_whole(case, data):
    """A document's vector is the same from all its rows as from its sections' sums."""
    rows, weights = case
    cut = data.draw(st.integers(0, len(rows)))
    parts = weighted_sum(rows[:cut], weights[:cut]) + weighted_sum(rows[cut:], weights[cut:])
    whole = weighted_sum(rows, weights)
    np.testing.assert_allclose(parts, whole, rtol=1e-9, atol=1e-9 * np.abs(rows).max() * 40)
