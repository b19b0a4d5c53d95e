"""A retrieval set and methods in, their figures out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmk_integrations.encoder.encoder import Cancelled
from lmk_integrations.errors import ConfigError
from lmk_integrations.evaluation.bm25 import bm25_scores
from lmk_integrations.evaluation.dataset import Half, RetrievalSet
from lmk_integrations.evaluation.methods import DEFAULT_METHODS, Method, Source, parse_method
from lmk_integrations.evaluation.metrics import (
    DEPTH,
    METRICS,
    Doubles,
    Estimate,
    check_ranx,
    estimate,
    per_query,
    resamples,
)
from lmk_integrations.evaluation.scoring import best_documents, score_documents
from lmk_integrations.evaluation.sources import DocumentVectors, Encoders, iter_vectors

Floats = NDArray[np.float32]
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The figures of one method on one retrieval set.

    metrics: by name (`METRICS`), from 0 to 1. values: the same for each of ``query_ids``,
    (n_queries,). seconds: for the vectors, which methods of one source share.
    """

    dataset: str
    method: str
    half: str
    n_documents: int
    metrics: Mapping[str, Estimate]
    query_ids: tuple[str, ...] = field(repr=False)
    values: Mapping[str, Doubles] = field(repr=False, compare=False)
    seconds: float = field(compare=False)

    def to_dict(self) -> dict[str, Any]:
        """All but the values of single queries, as JSON values."""
        return {
            "dataset": self.dataset,
            "method": self.method,
            "half": self.half,
            "n_queries": len(self.query_ids),
            "n_documents": self.n_documents,
            "metrics": {name: found.to_dict() for name, found in self.metrics.items()},
            "seconds": round(self.seconds, 3),
        }


def evaluate(
    dataset: RetrievalSet,
    methods: Sequence[str] = DEFAULT_METHODS,
    *,
    model: str | Path | None = None,
    base: str | Path | None = None,
    device: str = "auto",
    dtype: str = "auto",
    backend: str = "auto",
    compile: bool = False,  # noqa: A002 - the encoder's word for it
    half: Half = "all",
    queries: int | None = None,
    granularity: int | str | None = None,
    titles: bool = False,
    seed: int = 0,
    progress: Progress | None = None,
    cancelled: Cancelled | None = None,
) -> list[Result]:
    """Rank a set's documents for its queries by each method, and measure the rankings.

    methods: names as in `methods.EXPLANATION`. model, base: the landmark model and the encoder
        that it is compared with; None: those of the package. device, dtype, backend, compile: of
        both, as in `LMKEncoder`.
    half, queries: as in `RetrievalSet.select`. granularity: of landmark methods that name none.
    titles: put each document's title before its text. seed: of the bootstrap.
    progress: called with (what is read, documents done, documents).
    cancelled: asked between batches; once it returns True, EncodingCancelled is raised.
    Returns one Result for each method, in order.
    Raises ConfigError for an unknown method or an impossible choice, MissingExtraError without
    the "bench" extra, ModelError for a model that cannot be opened.
    """
    if len(set(methods)) < len(methods):
        raise ConfigError(f"a method is named twice in {', '.join(methods)}")
    parsed = [parse_method(name, granularity) for name in methods]
    chosen = dataset.select(half, queries)
    check_ranx()
    encoders = Encoders(model, base, device=device, dtype=dtype, backend=backend, compile=compile)
    by_source: dict[Source, list[Method]] = {}
    for method in parsed:  # opens every encoder once: a wrong name is told before any work
        by_source.setdefault(encoders.resolve(method.source), []).append(method)
    draws = resamples(len(chosen.queries), seed)
    texts = chosen.documents(titles=titles)
    results: dict[str, Result] = {}
    for number, (source, sharing) in enumerate(by_source.items(), 1):
        started = time.monotonic()
        watch = _Watch(progress, f"{number}/{len(by_source)} {_label(source)}", len(texts))
        scores = _scores(source, sharing, encoders, chosen.queries, texts, watch, cancelled)
        seconds = time.monotonic() - started
        for method in sharing:
            values = _measure(chosen, method, scores[method.name])
            results[method.name] = Result(
                dataset=chosen.name,
                method=method.name,
                half=half,
                n_documents=len(texts),
                metrics={name: estimate(values[name], draws) for name in METRICS},
                query_ids=chosen.query_ids,
                values=values,
                seconds=seconds,
            )
    return [results[name] for name in methods]


def difference(
    result: Result, reference: Result, *, metric: str = "ndcg@10", seed: int = 0
) -> Estimate:
    """How much one method exceeds another on the same queries, query by query.

    The interval of the paired difference is narrower than the two methods' own intervals suggest:
    what makes a query hard is hard for both. Raises ConfigError where the queries differ.
    """
    if (result.dataset, result.query_ids) != (reference.dataset, reference.query_ids):
        raise ConfigError(
            f"{result.method!r} and {reference.method!r} were measured on different queries; "
            "evaluate them in one call"
        )
    values = result.values[metric] - reference.values[metric]
    return estimate(values, resamples(len(values), seed))


@dataclass(frozen=True, slots=True)
class _Watch:
    """Counts documents as they pass."""

    progress: Progress | None
    label: str
    total: int

    def at(self, done: int) -> None:
        if self.progress is not None:
            self.progress(self.label, done, self.total)

    def over(self, documents: Iterator[DocumentVectors]) -> Iterator[DocumentVectors]:
        self.at(0)
        for done, document in enumerate(documents, 1):
            yield document
            self.at(done)


def _scores(
    source: Source,
    methods: Sequence[Method],
    encoders: Encoders,
    queries: Sequence[str],
    texts: Sequence[str],
    watch: _Watch,
    cancelled: Cancelled | None,
) -> dict[str, Floats]:
    encoder = encoders.of(source)
    if source.kind == "bm25":
        watch.at(0)
        found = bm25_scores(encoder, queries, texts, watch.at)
        return {method.name: found for method in methods}
    vectors = encoder.encode_queries(queries, cancelled=cancelled)
    documents = watch.over(iter_vectors(source, encoder, texts, cancelled))
    return score_documents(methods, vectors, documents, len(texts))


def _measure(dataset: RetrievalSet, method: Method, scores: Floats) -> dict[str, Doubles]:
    # BM25 finds only what shares a term with the query; a vector is near or far, never absent.
    above = 0.0 if method.source.kind == "bm25" else -np.inf
    ranked = best_documents(scores, DEPTH, above=above)
    rankings = {
        query_id: [dataset.doc_ids[at] for at in order]
        for query_id, order in zip(dataset.query_ids, ranked, strict=True)
    }
    return per_query(dataset.qrels, rankings)


def _label(source: Source) -> str:
    return source.kind if source.size is None else f"{source.kind}-{source.size}"
