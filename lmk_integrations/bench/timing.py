"""Taking turns and summing up. Pure: what takes the time is given as functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np

Contender = Callable[[int], float]
"""A round's number -> the seconds that it took."""


@dataclass(frozen=True, slots=True)
class Spread:
    """A median, with the quartiles around it."""

    median: float
    low: float
    high: float
    n: int

    def to_dict(self) -> dict[str, float]:
        """The figures by name."""
        return asdict(self)


def spread(values: Sequence[float]) -> Spread:
    """Median and quartiles, interpolated between neighbours.

    >>> spread([4.0, 1.0, 2.0, 3.0, 5.0])
    Spread(median=3.0, low=2.0, high=4.0, n=5)
    """
    low, median, high = np.percentile(values, [25, 50, 75])
    return Spread(float(median), float(low), float(high), len(values))


def percentile(values: Sequence[float], percent: float) -> float:
    """The value that so many percent do not exceed, interpolated between neighbours.

    >>> percentile([10.0, 20.0, 30.0], 95)
    29.0
    """
    return float(np.percentile(values, percent))


def ratios(times: Sequence[float], reference: Sequence[float]) -> Spread:
    """How many times faster than the reference, round by round: both saw the same machine.

    >>> ratios([1.0, 2.0, 1.0], [2.0, 2.0, 3.0])
    Spread(median=2.0, low=1.5, high=2.5, n=3)
    """
    return spread([theirs / ours for ours, theirs in zip(times, reference, strict=True)])


def alternate(
    contenders: Mapping[str, Contender],
    rounds: int,
    *,
    warmup: int = 1,
    on_round: Callable[[int, int], None] | None = None,
) -> dict[str, list[float]]:
    """Let contenders take turns. Returns the seconds of each, by round.

    Every round has an order of its own, drawn from a fixed seed, since whoever always ran behind
    the same one would find its threads still spinning, or the caches full. warmup: rounds before
    the first, not counted; they have numbers from ``rounds`` on. on_round is called with (rounds
    done, all of them).
    """
    names = list(contenders)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    numbers = [*range(rounds, rounds + warmup), *range(rounds)]
    rng = np.random.default_rng(0)
    for turn, number in enumerate(numbers):
        for name in (names[place] for place in rng.permutation(len(names))):
            taken = contenders[name](number)
            if turn >= warmup:
                seconds[name].append(taken)
        if on_round is not None:
            on_round(turn + 1, len(numbers))
    return seconds
