"""Queries of qdrant_client as queries of the engine.

A point id in a query stands for that point's vector, as with QdrantClient: the vector is fetched
and the point itself is left out of the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import qdrant_edge as qe
from pydantic import BaseModel

from lmk_integrations.errors import StoreError
from lmk_integrations.qdrant.edge.convert_filter import excluding, to_edge_filter
from lmk_integrations.qdrant.edge.convert_formula import to_edge_formula
from lmk_integrations.qdrant.edge.convert_vector import QueryVectors
from lmk_integrations.qdrant.edge.validate import VectorField

DEFAULT_LIMIT = 10
_RRF_DEFAULT_K = 2
_DEFAULT_DIVERSITY = 0.5


@dataclass(frozen=True)
class QueryContext:
    """What converting a query needs to know of its collection.

    fields: the vectors by name. fetch: the stored vector of a point, by (lookup, name, id), where
    lookup is None for the collection itself. live_statistics: compute IDF over live points.
    """

    fields: Mapping[str, VectorField]
    fetch: Callable[[Any, str, int | str], Any]
    live_statistics: bool


def to_edge_query(
    context: QueryContext,
    *,
    query: Any,
    using: str | None,
    prefetch: Any,
    query_filter: Any,
    params: Any,
    limit: int,
    offset: int,
    score_threshold: float | None,
    with_payload: Any,
    with_vector: Any,
    lookup_from: Any,
) -> qe.QueryRequest:
    """The engine's request for the arguments of QdrantClient.query_points."""
    converted, mentioned = _query(context, query, using, lookup_from, limit)
    return qe.QueryRequest(
        limit=limit,
        offset=offset,
        query=converted,
        prefetches=_prefetches(context, prefetch),
        filter=excluding(to_edge_filter(query_filter), mentioned),
        score_threshold=score_threshold,
        params=_params(context, params, query, using),
        with_payload=with_payload,
        with_vector=with_vector,
    )


def as_prefetch_list(value: Any) -> list[Any]:
    """Prefetches as a list, whether one, several or none were given."""
    if value is None:
        return []
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _prefetches(context: QueryContext, value: Any) -> list[qe.Prefetch]:
    converted = []
    for item in as_prefetch_list(value):
        if type(item).__name__ != "Prefetch":
            raise StoreError(f"A prefetch must be a models.Prefetch, got {type(item).__name__}.")
        limit = DEFAULT_LIMIT if item.limit is None else item.limit
        query, mentioned = _query(context, item.query, item.using, item.lookup_from, limit)
        converted.append(
            qe.Prefetch(
                limit=limit,
                query=query,
                prefetches=_prefetches(context, item.prefetch),
                params=_params(context, item.params, item.query, item.using),
                filter=excluding(to_edge_filter(item.filter), mentioned),
                score_threshold=item.score_threshold,
            )
        )
    return converted


def _query(
    context: QueryContext, query: Any, using: str | None, lookup_from: Any, limit: int
) -> tuple[Any, set[int | str]]:
    """The engine's query, and the ids of the points it mentions."""
    if query is None:
        return None, set()
    vectors = QueryVectors(context.fields, context.fetch, using or "", lookup_from)
    kind = type(query).__name__
    if kind in _WITHOUT_VECTORS:
        return _WITHOUT_VECTORS[kind](query, using), set()
    if kind in _WITH_VECTORS:
        return _WITH_VECTORS[kind](query, vectors, limit), vectors.mentioned
    if isinstance(query, BaseModel) and kind != "SparseVector":
        raise StoreError(
            f"The embedded store does not offer {kind}. "
            "Encode texts before the query; for other query kinds use a Qdrant server."
        )
    return qe.Query.Nearest(vectors.edge(query), using=vectors.name), vectors.mentioned


def _nearest(query: Any, vectors: QueryVectors, limit: int) -> Any:
    vector = vectors.edge(query.nearest)
    mmr = getattr(query, "mmr", None)
    if mmr is None:
        return qe.Query.Nearest(vector, using=vectors.name)
    diversity = _DEFAULT_DIVERSITY if mmr.diversity is None else mmr.diversity
    candidates = limit if mmr.candidates_limit is None else mmr.candidates_limit
    return qe.Mmr(vector, 1.0 - diversity, candidates, using=vectors.name)


def _recommend(query: Any, vectors: QueryVectors, limit: int) -> Any:
    given = query.recommend
    positives, negatives = given.positive or [], given.negative or []
    strategy = "average_vector" if given.strategy is None else given.strategy.value
    if strategy == "average_vector":
        return qe.Query.Nearest(vectors.edge_average(positives, negatives), using=vectors.name)
    if not positives and not negatives:
        raise StoreError("A recommendation needs positive or negative examples, it has neither.")
    examples = qe.RecommendQuery(
        [vectors.edge(item) for item in positives], [vectors.edge(item) for item in negatives]
    )
    if strategy == "best_score":
        return qe.Query.RecommendBestScore(examples, using=vectors.name)
    if strategy == "sum_scores":
        return qe.Query.RecommendSumScores(examples, using=vectors.name)
    raise StoreError(f"The embedded engine does not know the recommend strategy {strategy!r}.")


def _pairs(value: Any, vectors: QueryVectors) -> list[qe.ContextPair]:
    items = value if isinstance(value, list) else [value]
    return [
        qe.ContextPair(vectors.edge(item.positive), vectors.edge(item.negative)) for item in items
    ]


def _discover(query: Any, vectors: QueryVectors, limit: int) -> Any:
    target = vectors.edge(query.discover.target)
    pairs = _pairs(query.discover.context, vectors)
    return qe.Query.Discover(qe.DiscoverQuery(target, pairs), using=vectors.name)


def _context(query: Any, vectors: QueryVectors, limit: int) -> Any:
    return qe.Query.Context(qe.ContextQuery(_pairs(query.context, vectors)), using=vectors.name)


def _fusion(query: Any, using: str | None) -> Any:
    if query.fusion.value == "rrf":
        return qe.Fusion.Rrf(k=_RRF_DEFAULT_K)
    if query.fusion.value == "dbsf":
        return qe.Fusion.Dbsf()
    raise StoreError(f"The embedded engine does not know the fusion {query.fusion.value!r}.")


def _rrf(query: Any, using: str | None) -> Any:
    k = _RRF_DEFAULT_K if query.rrf.k is None else query.rrf.k
    return qe.Fusion.Rrf(k=k, weights=getattr(query.rrf, "weights", None))


def to_edge_order_by(value: Any) -> qe.OrderBy:
    """A key or a models.OrderBy as the engine's OrderBy."""
    if isinstance(value, str):
        return qe.OrderBy(value)
    direction = None
    if value.direction is not None:
        descending = value.direction.value == "desc"
        direction = qe.Direction.Desc if descending else qe.Direction.Asc
    start = value.start_from
    return qe.OrderBy(
        value.key, direction, start.isoformat() if hasattr(start, "isoformat") else start
    )


def _text(query: Any, using: str | None) -> Any:
    if using is None:
        raise StoreError("A text query needs `using` to name the payload field to search.")
    if isinstance(query.text, str):
        return qe.TextQuery(using, query.text)
    scoring = query.text.scoring
    bm25 = None if scoring is None else qe.Bm25Params(k=scoring.bm25.k, b=scoring.bm25.b)
    return qe.TextQuery(using, query.text.query, bm25)


_WITH_VECTORS: dict[str, Callable[[Any, QueryVectors, int], Any]] = {
    "NearestQuery": _nearest,
    "RecommendQuery": _recommend,
    "DiscoverQuery": _discover,
    "ContextQuery": _context,
}
_WITHOUT_VECTORS: dict[str, Callable[[Any, str | None], Any]] = {
    "FusionQuery": _fusion,
    "RrfQuery": _rrf,
    "FormulaQuery": lambda query, using: to_edge_formula(query),
    "OrderByQuery": lambda query, using: to_edge_order_by(query.order_by),
    "SampleQuery": lambda query, using: qe.Sample.Random,
    "TextQuery": _text,
}


def _params(
    context: QueryContext, params: Any, query: Any, using: str | None
) -> qe.SearchParams | None:
    idf = _idf(context, getattr(params, "idf", None), query, using)
    if params is None:
        return None if idf is None else qe.SearchParams(idf=idf)
    quantization, acorn = params.quantization, getattr(params, "acorn", None)
    return qe.SearchParams(
        hnsw_ef=params.hnsw_ef,
        exact=bool(params.exact),
        indexed_only=bool(params.indexed_only),
        quantization=None
        if quantization is None
        else qe.QuantizationSearchParams(
            ignore=bool(quantization.ignore),
            rescore=quantization.rescore,
            oversampling=quantization.oversampling,
        ),
        acorn=None
        if acorn is None
        else qe.AcornSearchParams(enable=bool(acorn.enable), max_selectivity=acorn.max_selectivity),
        idf=idf,
    )


def _idf(context: QueryContext, scope: Any, query: Any, using: str | None) -> qe.IdfParams | None:
    """The points over which IDF is computed; None leaves it to the engine's index statistics.

    Those go on counting deleted and replaced points until the segment is rewritten. Where that
    can be the case, the live points with this vector are named as the corpus, which is what
    `QdrantClient(":memory:")` counts. `IdfScope.GLOBAL` asks for the index statistics anyway.
    """
    field = context.fields.get(using or "")
    if field is None or not field.idf or query is None:
        return None
    corpus = getattr(scope, "corpus", None)
    if corpus is not None:
        return qe.IdfParams(to_edge_filter(corpus))
    if scope is not None or not context.live_statistics:
        return None
    return qe.IdfParams(qe.Filter(must=[qe.HasVectorCondition(field.name)]))
