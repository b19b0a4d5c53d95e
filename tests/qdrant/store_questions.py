"""Filters and queries of every kind, to put to the points of store_backends."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from qdrant_client import models as m
from store_backends import dense_query, point_id, rows_query, sparse_query


def field(key: str, **test: Any) -> m.Filter:
    return m.Filter(must=[m.FieldCondition(key=key, **test)])


def match(key: str, value: Any) -> m.FieldCondition:
    return m.FieldCondition(key=key, match=m.MatchValue(value=value))


SQUARE = [(0.0, 42.0), (20.0, 42.0), (20.0, 50.0), (0.0, 50.0), (0.0, 42.0)]
HOLE = [(5.0, 43.0), (12.0, 43.0), (12.0, 46.0), (5.0, 46.0), (5.0, 43.0)]


def ring(corners: list[tuple[float, float]]) -> m.GeoLineString:
    return m.GeoLineString(points=[m.GeoPoint(lon=lon, lat=lat) for lon, lat in corners])


FILTERS: dict[str, m.Filter] = {
    "match keyword": field("kind", match=m.MatchValue(value="red")),
    "match integer": field("number", match=m.MatchValue(value=5)),
    "match true": field("flag", match=m.MatchValue(value=True)),
    "match false": field("flag", match=m.MatchValue(value=False)),
    "match uuid": field("uid", match=m.MatchValue(value="00000000-0000-0000-0000-000000000002")),
    "match in list": field("tags", match=m.MatchValue(value="b")),
    "match any": field("kind", match=m.MatchAny(any=["red", "blue"])),
    "match any integers": field("number", match=m.MatchAny(any=[1, 2, 3])),
    "match any of nothing": field("kind", match=m.MatchAny(any=[])),
    "match except": field("kind", match=m.MatchExcept(**{"except": ["red"]})),
    "match except integers": field("number", match=m.MatchExcept(**{"except": [1, 2]})),
    "match text": field("text", match=m.MatchText(text="lazy")),
    "match nested path": field("deep.a.b", match=m.MatchValue(value=3)),
    "match array path": field("items[].size", match=m.MatchValue(value=5)),
    "match one element": field("items[1].size", match=m.MatchValue(value=2)),
    "range": field("price", range=m.Range(gte=1.0, lt=4.0)),
    "range of integers": field("number", range=m.Range(gt=-3, lte=9)),
    "datetime range": field(
        "time",
        range=m.DatetimeRange(
            gte=datetime(2024, 3, 1, tzinfo=timezone.utc),
            lt=datetime(2024, 9, 1, 5, 30, tzinfo=timezone.utc),
        ),
    ),
    "datetime without zone": field("time", range=m.DatetimeRange(gt=datetime(2024, 6, 1, 5))),
    "geo box": field(
        "place",
        geo_bounding_box=m.GeoBoundingBox(
            top_left=m.GeoPoint(lon=0.0, lat=50.0), bottom_right=m.GeoPoint(lon=15.0, lat=42.0)
        ),
    ),
    "geo radius": field(
        "place", geo_radius=m.GeoRadius(center=m.GeoPoint(lon=5.0, lat=44.0), radius=600_000.0)
    ),
    "geo polygon": field(
        "place", geo_polygon=m.GeoPolygon(exterior=ring(SQUARE), interiors=[ring(HOLE)])
    ),
    "values count": field("tags", values_count=m.ValuesCount(gte=2, lt=4)),
    "is empty field": field("tags", is_empty=True),
    "is not empty field": field("tags", is_empty=False),
    "is null field": field("number", is_null=True),
    "is not null field": field("number", is_null=False),
    "is empty": m.Filter(must=[m.IsEmptyCondition(is_empty=m.PayloadField(key="kind"))]),
    "is null": m.Filter(must=[m.IsNullCondition(is_null=m.PayloadField(key="number"))]),
    "has id": m.Filter(must=[m.HasIdCondition(has_id=[1, 2, point_id(3), 999])]),
    "has no id": m.Filter(must=[m.HasIdCondition(has_id=[])]),
    "has vector": m.Filter(must=[m.HasVectorCondition(has_vector="sparse")]),
    "lacks vector": m.Filter(must_not=[m.HasVectorCondition(has_vector="dense")]),
    "nested": m.Filter(
        must=[
            m.NestedCondition(
                nested=m.Nested(
                    key="items", filter=m.Filter(must=[match("size", 1), match("color", "y")])
                )
            )
        ]
    ),
    "must and must not": m.Filter(must=[match("kind", "red")], must_not=[match("flag", True)]),
    "should": m.Filter(should=[match("kind", "red"), match("deep.a.b", 2)]),
    "should and must": m.Filter(
        must=[match("flag", True)], should=[match("kind", "red"), match("deep.a.b", 2)]
    ),
    "min should": m.Filter(
        min_should=m.MinShould(
            conditions=[match("kind", "red"), match("flag", True), match("deep.a.b", 1)],
            min_count=2,
        )
    ),
    "filter in filter": m.Filter(
        must=[m.Filter(should=[match("kind", "red"), m.Filter(must_not=[match("flag", True)])])]
    ),
    "one condition, no list": m.Filter(must=match("kind", "blue")),
    "empty filter": m.Filter(),
    "empty lists": m.Filter(must=[], should=[], must_not=[]),
    "missing key": field("nowhere", match=m.MatchValue(value=1)),
}


DENSE, ROWS, SPARSE = dense_query(1), rows_query(2), sparse_query(3)


def near(using: str, limit: int, vector: Any = None, **options: Any) -> m.Prefetch:
    default = {"rows": ROWS, "sparse": SPARSE, "plain": SPARSE}.get(using, DENSE)
    query = default if vector is None else vector
    return m.Prefetch(query=query, using=using, limit=limit, **options)


def two_stage(using: str) -> m.Prefetch:
    """Candidates of both kinds, rescored by one vector."""
    return near(using, 20, prefetch=[near("dense", 15), near("sparse", 15)])


HYBRID = m.FormulaQuery(
    formula=m.SumExpression(
        sum=[
            m.MultExpression(mult=[0.7, "$score[0]"]),
            m.MultExpression(
                mult=[
                    0.3,
                    m.DivExpression(
                        div=m.DivParams(
                            left="$score[1]", right=m.SumExpression(sum=["$score[1]", 5.0])
                        )
                    ),
                ]
            ),
        ]
    ),
    defaults={"$score[0]": 0.0, "$score[1]": 0.0},
)


def decay(cls: Any, name: str) -> Any:
    return cls(**{name: m.DecayParamsExpression(x="price", target=3.0, scale=2.0, midpoint=0.4)})


FORMULAS: dict[str, Any] = {
    "payload": m.SumExpression(sum=["$score", "price"]),
    "condition": m.SumExpression(sum=["$score", m.MultExpression(mult=[2.0, match("flag", True)])]),
    "neg abs": m.NegExpression(neg=m.AbsExpression(abs=m.SumExpression(sum=["price", -3.0]))),
    "sqrt": m.SqrtExpression(sqrt="price"),
    "pow": m.PowExpression(pow=m.PowParams(base=m.SumExpression(sum=["price", 1.0]), exponent=1.5)),
    "exp": m.ExpExpression(exp="$score"),
    "log10": m.Log10Expression(log10=m.SumExpression(sum=["price", 1.0])),
    "ln": m.LnExpression(ln=m.SumExpression(sum=["price", 1.0])),
    "div by zero default": m.DivExpression(
        div=m.DivParams(left=1.0, right="price", by_zero_default=9.0)
    ),
    "geo distance": m.GeoDistance(
        geo_distance=m.GeoDistanceParams(origin=m.GeoPoint(lon=0.0, lat=45.0), to="place")
    ),
    "linear decay": decay(m.LinDecayExpression, "lin_decay"),
    "exponential decay": decay(m.ExpDecayExpression, "exp_decay"),
    "gauss decay": decay(m.GaussDecayExpression, "gauss_decay"),
    "datetime decay": m.ExpDecayExpression(
        exp_decay=m.DecayParamsExpression(
            x=m.DatetimeKeyExpression(datetime_key="time"),
            target=m.DatetimeExpression(datetime="2024-05-01T00:00:00Z"),
            scale=86400.0 * 30,
        )
    ),
    "default of payload": m.MultExpression(mult=["absent", "price"]),
}


def formula(expression: Any) -> dict[str, Any]:
    query = m.FormulaQuery(formula=expression, defaults={"absent": 2.0})
    return {"query": query, "prefetch": [near("dense", 30)]}


def fused(query: Any, **options: Any) -> dict[str, Any]:
    return {
        "query": query,
        "prefetch": [near("dense", 20), near("sparse", 20), near("rows", 20)],
        **options,
    }


RRF, DBSF = m.FusionQuery(fusion=m.Fusion.RRF), m.FusionQuery(fusion=m.Fusion.DBSF)
RED = FILTERS["match keyword"]

QUERIES: dict[str, dict[str, Any]] = {
    "dense cosine": {"query": DENSE, "using": "dense"},
    "dense dot": {"query": DENSE, "using": "other"},
    "dense euclid": {"query": DENSE, "using": "euclid"},
    "dense filtered": {"query": DENSE, "using": "dense", "query_filter": RED},
    "dense threshold": {"query": DENSE, "using": "dense", "score_threshold": 0.1},
    "euclid threshold": {"query": DENSE, "using": "euclid", "score_threshold": 3.0},
    "dense page": {"query": DENSE, "using": "dense", "limit": 5, "offset": 7},
    "nearest query": {"query": m.NearestQuery(nearest=DENSE), "using": "dense"},
    "maxsim": {"query": ROWS, "using": "rows"},
    "maxsim filtered": {"query": ROWS, "using": "rows", "query_filter": RED},
    "sparse idf": {"query": SPARSE, "using": "sparse"},
    "sparse idf filtered": {"query": SPARSE, "using": "sparse", "query_filter": RED},
    "sparse idf corpus": {
        "query": SPARSE,
        "using": "sparse",
        "search_params": m.SearchParams(idf=m.IdfCorpusParams(corpus=RED)),
    },
    "sparse plain": {"query": SPARSE, "using": "plain"},
    "by id": {"query": 1, "using": "dense"},
    "by uuid": {"query": point_id(6), "using": "rows"},
    "by id, sparse": {"query": 1, "using": "sparse"},
    "rrf": fused(RRF),
    "rrf filtered": fused(RRF, query_filter=RED),
    "rrf page": fused(RRF, limit=6, offset=3),
    "rrf threshold": fused(RRF, score_threshold=0.3),
    "rrf k": fused(m.RrfQuery(rrf=m.Rrf(k=60))),
    "rrf weights": fused(m.RrfQuery(rrf=m.Rrf(k=5, weights=[3.0, 1.0, 0.5]))),
    "dbsf": fused(DBSF),
    "rescoring": {"query": ROWS, "using": "rows", "prefetch": [near("dense", 12)]},
    "rescoring of two": {
        "query": SPARSE,
        "using": "sparse",
        "prefetch": [near("dense", 12), near("rows", 12)],
    },
    "filter in prefetch": {
        "query": ROWS,
        "using": "rows",
        "prefetch": [near("dense", 12, filter=FILTERS["match true"])],
        "query_filter": FILTERS["range"],
    },
    "threshold in prefetch": {
        "query": ROWS,
        "using": "rows",
        "prefetch": [near("dense", 30, score_threshold=0.2)],
    },
    "hybrid": {"query": HYBRID, "prefetch": [two_stage("rows"), two_stage("sparse")]},
    "hybrid filtered": {
        "query": HYBRID,
        "prefetch": [two_stage("rows"), two_stage("sparse")],
        "query_filter": FILTERS["match true"],
    },
    "hybrid page": {
        "query": HYBRID,
        "prefetch": [two_stage("rows"), two_stage("sparse")],
        "limit": 4,
        "offset": 4,
        "score_threshold": 0.2,
    },
    "fusion in prefetch": {
        "query": ROWS,
        "using": "rows",
        "prefetch": m.Prefetch(
            query=RRF, limit=15, prefetch=[near("dense", 20), near("sparse", 20)]
        ),
    },
    "mmr relevant": {
        "query": m.NearestQuery(nearest=DENSE, mmr=m.Mmr(diversity=0.1, candidates_limit=30)),
        "using": "dense",
        "limit": 8,
    },
    "mmr diverse": {
        "query": m.NearestQuery(nearest=DENSE, mmr=m.Mmr(diversity=0.9, candidates_limit=30)),
        "using": "dense",
        "limit": 8,
    },
    "mmr defaults": {
        "query": m.NearestQuery(nearest=DENSE, mmr=m.Mmr()),
        "using": "dense",
        "limit": 8,
    },
    "recommend average": {
        "query": m.RecommendQuery(recommend=m.RecommendInput(positive=[1, DENSE], negative=[2])),
        "using": "dense",
    },
    "recommend average rows": {
        "query": m.RecommendQuery(recommend=m.RecommendInput(positive=[1, ROWS], negative=[2])),
        "using": "rows",
    },
    "recommend best": {
        "query": m.RecommendQuery(
            recommend=m.RecommendInput(
                positive=[1, DENSE], negative=[2], strategy=m.RecommendStrategy.BEST_SCORE
            )
        ),
        "using": "dense",
    },
    "recommend sum": {
        "query": m.RecommendQuery(
            recommend=m.RecommendInput(
                positive=[1, SPARSE], negative=[2], strategy=m.RecommendStrategy.SUM_SCORES
            )
        ),
        "using": "sparse",
    },
    "discover": {
        "query": m.DiscoverQuery(
            discover=m.DiscoverInput(
                target=DENSE, context=[m.ContextPair(positive=1, negative=dense_query(9))]
            )
        ),
        "using": "dense",
    },
    "context": {
        "query": m.ContextQuery(context=m.ContextPair(positive=DENSE, negative=2)),
        "using": "dense",
    },
    "order by": {"query": m.OrderByQuery(order_by="number"), "limit": 20},
    "order by descending": {
        "query": m.OrderByQuery(
            order_by=m.OrderBy(key="number", direction=m.Direction.DESC, start_from=12)
        ),
        "limit": 20,
    },
    "no query": {"limit": 7, "offset": 2, "query_filter": RED},
    **{f"formula {name}": formula(expression) for name, expression in FORMULAS.items()},
}
