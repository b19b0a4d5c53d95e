"""Ranking metrics, by `ranx`, and how sure their means are, by the bootstrap."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from lmk_integrations._extras import require

Doubles = NDArray[np.float64]

METRICS = ("ndcg@10", "recall@10", "recall@100", "mrr@10")
DEPTH = 100
"""Documents of a ranking that the metrics look at."""
ROUNDS = 2000
"""Resamples behind an interval."""

_NOTHING = "\0nothing"  # ranx has no empty rankings; no document can be called this


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over queries with its 95 % interval."""

    mean: float
    low: float
    high: float

    def to_dict(self) -> dict[str, float]:
        """The three numbers by name."""
        return asdict(self)


def check_ranx() -> None:
    """Raise MissingExtraError now, rather than after an hour of encoding."""
    require("ranx", extra="bench")


def per_query(
    qrels: Mapping[str, Mapping[str, int]], rankings: Mapping[str, Sequence[str]]
) -> dict[str, Doubles]:
    """Each metric's value for each query, (n_queries,) in the order of ``rankings``.

    qrels: by query id, the grade of each document that answers it; nDCG's gain is the grade.
    rankings: by query id, at most DEPTH document ids, best first.

    ranx compiles itself at its first use on a machine, which takes about a minute, once.
    """
    ranx = require("ranx", extra="bench")
    judged = ranx.Qrels({query_id: dict(qrels[query_id]) for query_id in rankings})
    run = ranx.Run(
        {
            # Falling whole numbers: no ties for ranx to break in its own way.
            query_id: {doc_id: float(DEPTH - rank) for rank, doc_id in enumerate(ranked or ())}
            or {_NOTHING: 0.0}
            for query_id, ranked in rankings.items()
        }
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numba's, at the first compilation
        found = ranx.evaluate(judged, run, list(METRICS), return_mean=False)
    # ranx sorts the queries by id.
    place = {query_id: at for at, query_id in enumerate(judged.keys())}
    order = [place[query_id] for query_id in rankings]
    return {name: np.asarray(found[name], np.float64)[order] for name in METRICS}


def resamples(n_queries: int, seed: int, rounds: int = ROUNDS) -> NDArray[np.int64]:
    """(rounds, n_queries) int64 query indices, drawn with replacement.

    One draw serves all methods of a data set, so their resampled means can be compared in pairs.
    """
    return np.random.default_rng(seed).integers(0, n_queries, (rounds, n_queries))


def estimate(values: Doubles, draws: NDArray[np.int64]) -> Estimate:
    """The mean of (n_queries,) values with the 2.5 % and 97.5 % quantiles of resampled means.

    For the difference of two methods pass the differences: the draws are then paired.
    """
    low, high = np.quantile(values[draws].mean(axis=1), [0.025, 0.975])
    return Estimate(float(values.mean()), float(low), float(high))
