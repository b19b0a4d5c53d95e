"""Taking turns and summing up, by hand-computed values."""

from __future__ import annotations

from itertools import pairwise, permutations

import pytest

from lmk_integrations.bench.timing import Spread, alternate, percentile, ratios, spread


def test_spread():
    """Median and quartiles; of an even number, halfway between neighbours."""
    assert spread([4, 1, 3, 2]) == Spread(2.5, 1.75, 3.25, 4)
    assert spread([7.0]) == Spread(7.0, 7.0, 7.0, 1)
    assert spread([7.0]).to_dict() == {"median": 7.0, "low": 7.0, "high": 7.0, "n": 1}


def test_percentile():
    """Of 1..101 the 95th is 96: the value that 95 of the 100 steps lie below."""
    assert percentile(list(range(1, 102)), 95) == 96
    assert percentile([3.0, 1.0, 2.0], 50) == 2.0


def test_ratios_are_paired():
    """Each round is divided by the same round of the other: a slow moment cancels."""
    ours, theirs = [1.0, 10.0, 1.0], [3.0, 30.0, 3.0]
    assert ratios(ours, theirs) == Spread(3.0, 3.0, 3.0, 3)
    with pytest.raises(ValueError, match="shorter"):
        ratios(ours, theirs[:2])


def test_everyone_has_a_turn_each_round_and_the_warm_up_is_not_counted():
    """Three rounds after one to warm up, which has a number of its own."""
    calls: list[tuple[str, int]] = []

    def contender(name: str, factor: float):
        def run(number: int) -> float:
            calls.append((name, number))
            return factor * (number + 1)

        return run

    rounds: list[tuple[int, int]] = []
    seconds = alternate(
        {"a": contender("a", 1.0), "b": contender("b", 10.0)},
        3,
        warmup=1,
        on_round=lambda done, total: rounds.append((done, total)),
    )
    assert seconds == {"a": [1.0, 2.0, 3.0], "b": [10.0, 20.0, 30.0]}
    assert [number for _, number in calls] == [3, 3, 0, 0, 1, 1, 2, 2]
    assert all({calls[at][0], calls[at + 1][0]} == {"a", "b"} for at in range(0, 8, 2))
    assert rounds == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert alternate({}, 2) == {}


def test_no_one_runs_behind_the_same_one_always():
    """In 50 rounds each of three runs right behind each other, in an order that repeats."""

    def order() -> list[str]:
        calls: list[str] = []

        def contender(name: str):
            def run(_: int) -> float:
                calls.append(name)
                return 1.0

            return run

        alternate({name: contender(name) for name in "abc"}, 50, warmup=0)
        return calls

    assert order() == order()
    rounds = [order()[at : at + 3] for at in range(0, 150, 3)]
    assert {pair for one in rounds for pair in pairwise(one)} == set(permutations("abc", 2))
