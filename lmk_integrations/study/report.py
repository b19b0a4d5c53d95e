"""Scores of single queries -> means with intervals, by length and by the evidence's depth."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from lmk_integrations.evaluation.metrics import Estimate, estimate, resamples
from lmk_integrations.study.scores import Scores

Doubles = NDArray[np.float64]

DEPTH_BINS = 5
ALL = "all long tasks"
_SEED = 0


@dataclass(frozen=True, slots=True)
class LengthRow:
    """A task at one length. scores: by pooling; gains: lmk minus the pooling, query by query."""

    task: str
    length: int
    queries: int
    scores: dict[str, Estimate]
    gains: dict[str, Estimate]


@dataclass(frozen=True, slots=True)
class DepthRow:
    """Tasks beyond the trained length, the queries whose evidence begins in [low, high)."""

    tasks: str
    low: float
    high: float
    queries: int
    scores: dict[str, Estimate]


@dataclass(frozen=True, slots=True)
class Report:
    """by_length: every task at every length, then the mean of those that have all lengths."""

    by_length: tuple[LengthRow, ...]
    by_depth: tuple[DepthRow, ...]

    def to_dict(self) -> dict[str, object]:
        """All rows as JSON values."""
        return asdict(self)


def build_report(
    scores: Mapping[str, Sequence[Sequence[Scores]]], *, planted: Sequence[str], trained: int
) -> Report:
    """scores: by pooling, of every seed, in the same order of tasks. Seeds are averaged, query by
    query, and queries resampled. planted: names of the tasks with made-up documents. trained:
    tokens of the longest text in training."""
    merged = {
        pooling: [_mean_of_seeds(of) for of in zip(*seeds, strict=True)]
        for pooling, seeds in scores.items()
    }
    tasks = next(iter(merged.values()))
    rows = [_length_row(number, merged) for number in range(len(tasks))]
    lengths = sorted({task.length for task in tasks})
    names = [task.task for task in tasks]
    reach = {name for name in names if names.count(name) == len(lengths)}
    over = [_mean_row(length, merged, reach) for length in lengths if reach]
    depths = []
    for name, wanted in (("planted", True), ("documents", False)):
        chosen = [
            number
            for number, task in enumerate(tasks)
            if task.length > trained and (task.task in planted) is wanted
        ]
        depths += _depth_rows(name, chosen, merged)
    return Report(tuple(rows + over), tuple(depths))


def _mean_of_seeds(of: Sequence[Scores]) -> Scores:
    values = np.mean([one.values for one in of], axis=0)
    first = of[0]
    return Scores(first.task, first.length, first.query_ids, tuple(values.tolist()), first.depths)


Merged = Mapping[str, Sequence[Scores]]


def _length_row(number: int, merged: Merged) -> LengthRow:
    values = {pooling: np.array(tasks[number].values) for pooling, tasks in merged.items()}
    task = next(iter(merged.values()))[number]
    draws = resamples(len(task.values), _SEED)
    return LengthRow(
        task.task,
        task.length,
        len(task.values),
        {pooling: estimate(found, draws) for pooling, found in values.items()},
        {
            pooling: estimate(values["lmk"] - found, draws)
            for pooling, found in values.items()
            if pooling != "lmk" and "lmk" in values
        },
    )


def _mean_row(length: int, merged: Merged, reach: set[str]) -> LengthRow:
    """The mean over tasks, each weighing the same; queries are resampled within their task."""
    chosen = [
        number
        for number, task in enumerate(next(iter(merged.values())))
        if task.length == length and task.task in reach
    ]
    draws = [
        resamples(len(next(iter(merged.values()))[number].values), _SEED + place)
        for place, number in enumerate(chosen)
    ]

    def over(values: Sequence[Doubles]) -> Estimate:
        means = np.mean(
            [one[drawn].mean(axis=1) for one, drawn in zip(values, draws, strict=True)], axis=0
        )
        low, high = np.quantile(means, [0.025, 0.975])
        return Estimate(float(np.mean([one.mean() for one in values])), float(low), float(high))

    values = {
        pooling: [np.array(tasks[number].values) for number in chosen]
        for pooling, tasks in merged.items()
    }
    return LengthRow(
        ALL,
        length,
        sum(len(drawn[0]) for drawn in draws),
        {pooling: over(found) for pooling, found in values.items()},
        {
            pooling: over([a - b for a, b in zip(values["lmk"], found, strict=True)])
            for pooling, found in values.items()
            if pooling != "lmk" and "lmk" in values
        },
    )


def _depth_rows(name: str, chosen: Sequence[int], merged: Merged) -> list[DepthRow]:
    binned: dict[int, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for pooling, tasks in merged.items():
        for number in chosen:
            for value, depth in zip(tasks[number].values, tasks[number].depths, strict=True):
                if depth is not None:
                    place = min(DEPTH_BINS - 1, int(depth * DEPTH_BINS))
                    binned[place][pooling].append(value)
    rows = []
    for place in sorted(binned):
        count = len(next(iter(binned[place].values())))
        draws = resamples(count, _SEED)
        rows.append(
            DepthRow(
                name,
                place / DEPTH_BINS,
                (place + 1) / DEPTH_BINS,
                count,
                {
                    pooling: estimate(np.array(values), draws)
                    for pooling, values in binned[place].items()
                },
            )
        )
    return rows
