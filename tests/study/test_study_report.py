"""Means, paired gains and intervals, of hand-made scores."""

import numpy as np
import pytest

from lmk_integrations.study.report import ALL, build_report
from lmk_integrations.study.scores import Scores


def scores(task, length, values, depths=None):
    ids = tuple(f"{task}{n}" for n in range(len(values)))
    return Scores(task, length, ids, tuple(values), tuple(depths or [None] * len(values)))


@pytest.fixture
def report():
    """Two seeds; a short task, and two that reach the longest length."""

    def seed(short, needle, story):
        return [
            scores("short", 256, short),
            scores("needle", 256, needle, [0.0, 0.9]),
            scores("story", 256, story, [0.5, 0.5]),
            scores("needle", 1024, needle, [0.0, 0.9]),
            scores("story", 1024, story, [0.5, 1.0]),
        ]

    return build_report(
        {
            "cls": [seed([0, 0], [1, 0], [0, 0]), seed([1, 0], [1, 0], [0, 1])],
            "lmk": [seed([1, 1], [1, 1], [0.5, 0.5]), seed([1, 1], [1, 1], [0.5, 0.5])],
        },
        planted=("needle",),
        trained=512,
    )


def test_seeds_are_averaged(report):
    [short] = [row for row in report.by_length if row.task == "short"]
    assert short.queries == 2
    assert short.scores["cls"].mean == pytest.approx(0.25)  # ((0 + 1) / 2 + 0) / 2
    assert short.scores["lmk"].mean == 1
    assert short.gains["cls"].mean == pytest.approx(0.75)
    assert (short.gains["cls"].low, short.gains["cls"].high) == (0.5, 1.0)


def test_the_mean_over_long_tasks_weighs_each_the_same(report):
    over = [row for row in report.by_length if row.task == ALL]
    assert [row.length for row in over] == [256, 1024]
    for row in over:  # needle 0.5, story 0.25; "short" does not reach 1,024 tokens
        assert row.queries == 4
        assert row.scores["cls"].mean == pytest.approx(0.375)
        assert row.gains["cls"].mean == pytest.approx((0.5 + 0.25) / 2)
        assert row.scores["cls"].low < 0.375 < row.scores["cls"].high


def test_depths_are_those_past_the_trained_length(report):
    found = {(row.tasks, row.low): row for row in report.by_depth}
    assert set(found) == {
        ("planted", 0.0),
        ("planted", 0.8),
        ("documents", 0.4),
        ("documents", 0.8),
    }
    assert found["planted", 0.0].scores["cls"].mean == 1
    assert found["planted", 0.8].scores["cls"].mean == 0
    assert found["documents", 0.8].scores["cls"].mean == 0.5
    assert all(row.queries == 1 for row in report.by_depth)


def test_intervals_narrow_with_more_queries():
    rng = np.random.default_rng(0)

    def width(n):
        values = rng.random(n).tolist()
        report = build_report(
            {"cls": [[scores("a", 1024, values)]], "lmk": [[scores("a", 1024, values)]]},
            planted=(),
            trained=512,
        )
        found = report.by_length[0].scores["cls"]
        return found.high - found.low

    assert width(2000) < width(20) / 4
