"""Batches under a token budget."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmk_integrations.core.batching import token_budget_batches


@pytest.mark.parametrize(
    ("lengths", "budget", "expected"),
    [
        ([], 10, []),
        ([7], 1, [[0]]),
        ([3, 3, 3], 9, [[0, 1, 2]]),
        ([3, 3, 3], 8, [[0, 1], [2]]),
        ([1, 100_000, 1], 64, [[1], [0, 2]]),
    ],
)
def test_batches(lengths, budget, expected):
    """Longest first, equal lengths in order, an item above the budget alone."""
    assert token_budget_batches(lengths, budget) == expected


@given(st.lists(st.integers(1, 300), max_size=120), st.integers(1, 1000))
def test_batches_partition_and_obey_the_budget(lengths, budget):
    """Each item once; padded, no batch of several exceeds the budget; lengths descend."""
    batches = token_budget_batches(lengths, budget)
    flat = [index for batch in batches for index in batch]
    assert sorted(flat) == list(range(len(lengths)))
    assert [lengths[i] for i in flat] == sorted(lengths, reverse=True)
    for batch in batches:
        assert len(batch) == 1 or max(lengths[i] for i in batch) * len(batch) <= budget
    # No batch could have taken the next one's first item.
    for batch in batches[:-1]:
        assert lengths[batch[0]] * (len(batch) + 1) > budget
