"""Metrics by hand and by a plain computation; intervals that repeat."""

import math
import random
import sys

import numpy as np
import pytest

from lmk_integrations.errors import MissingExtraError
from lmk_integrations.evaluation.metrics import check_ranx, estimate, per_query, resamples


def plain_metrics(grades: dict[str, int], ranked: list[str]) -> dict[str, float]:
    """The definitions, for one query."""

    def dcg(gains: list[int]) -> float:
        return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, 1))

    gains = [grades.get(doc, 0) for doc in ranked]
    firsts = [1 / rank for rank, gain in enumerate(gains[:10], 1) if gain]
    return {
        "ndcg@10": dcg(gains[:10]) / dcg(sorted(grades.values(), reverse=True)[:10]),
        "recall@10": sum(gain > 0 for gain in gains[:10]) / len(grades),
        "recall@100": sum(gain > 0 for gain in gains[:100]) / len(grades),
        "mrr@10": firsts[0] if firsts else 0.0,
    }


def test_metrics_by_hand():
    """Grades, a document beyond ten, and an empty ranking; ids in no order."""
    qrels = {"b": {"d1": 1, "d2": 2}, "c": {"d3": 1}, "a": {"d4": 1}}
    rankings = {
        "b": ["d9", "d1", "d2"],
        "c": [*(f"x{n}" for n in range(10)), "d3"],
        "a": [],
    }
    found = per_query(qrels, rankings)
    log3 = math.log2(3)
    ndcg = (1 / log3 + 2 / 2) / (2 + 1 / log3)
    assert found["ndcg@10"] == pytest.approx([ndcg, 0, 0])
    assert found["recall@10"] == pytest.approx([1, 0, 0])
    assert found["recall@100"] == pytest.approx([1, 1, 0])
    assert found["mrr@10"] == pytest.approx([0.5, 0, 0])


def test_metrics_as_defined():
    """Each query gets its own value, whatever the order and number of queries."""
    source = random.Random(3)
    docs = [f"d{n}" for n in range(130)]
    keys = [f"q{n}" for n in source.sample(range(1000), 40)]
    qrels = {
        key: {doc: source.randint(1, 3) for doc in source.sample(docs, source.randint(1, 14))}
        for key in keys
    }
    rankings = {key: source.sample(docs, source.choice([0, 3, 50, 100])) for key in keys}
    found = per_query(qrels, rankings)
    expected = [plain_metrics(qrels[key], rankings[key]) for key in keys]
    for name, values in found.items():
        assert values == pytest.approx([one[name] for one in expected]), name


def test_intervals_repeat_and_hold_the_mean():
    """One seed, one interval; another seed, another draw; about 95 % of normal theory's width."""
    values = np.random.default_rng(0).random(400)
    first, again, other = (estimate(values, resamples(400, seed)) for seed in (1, 1, 2))
    assert first == again
    assert (first.low, first.high) != (other.low, other.high)
    assert first.mean == pytest.approx(values.mean())
    width = 2 * 1.96 * values.std() / math.sqrt(400)
    assert first.high - first.low == pytest.approx(width, rel=0.1)
    assert first.low < first.mean < first.high


def test_a_constant_has_no_spread():
    """All queries alike: an interval of one point, also for a single query."""
    assert estimate(np.ones(1), resamples(1, 0)).to_dict() == {"mean": 1, "low": 1, "high": 1}


def test_without_ranx_the_extra_is_named(monkeypatch):
    """The error holds the pip command, before any work is done."""
    monkeypatch.setitem(sys.modules, "ranx", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'lmk-integrations\[bench\]'"):
        check_ranx()
