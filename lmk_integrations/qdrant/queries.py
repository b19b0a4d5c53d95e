"""The queries of each search mode, as Qdrant's own models. Equal on every backend."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

from qdrant_client import models

from lmk_integrations.errors import ConfigError
from lmk_integrations.qdrant.schema import BM25, DOCUMENT, LANDMARKS, LMK

Mode = Literal["hybrid", "dense", "landmark", "bm25", "document"]
MODES: tuple[str, ...] = get_args(Mode)
Fusion = Literal["formula", "rrf", "dbsf"]
FUSIONS: tuple[str, ...] = get_args(Fusion)

DEFAULT_PREFETCH = 128


@dataclass(frozen=True, slots=True)
class HybridWeights:
    """``landmark_weight * landmark + bm25_weight * bm25 / (bm25 + bm25_half)``.

    landmark is the best landmark's cosine; bm25_half is the BM25 score that counts one half.
    """

    landmark_weight: float = 1.0
    bm25_weight: float = 1.0
    bm25_half: float = 10.0

    def __post_init__(self) -> None:
        if min(self.landmark_weight, self.bm25_weight) < 0 or self.bm25_half <= 0:
            raise ConfigError(f"{self} must have weights of at least 0 and a bm25_half above 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryParts:
    """A query in the forms that the modes need. vector: (dim,) as a list, empty
    where the mode needs none; sparse: BM25 terms."""

    vector: list[float]
    sparse: models.SparseVector | None
    filter: models.Filter | None
    prefetch: int


def build_query(
    mode: Mode, fusion: Fusion, weights: HybridWeights, parts: QueryParts
) -> dict[str, Any]:
    """Arguments for ``client.query_points`` that rank sections (heads for "document")."""
    if mode == "bm25":
        return {"query": parts.sparse, "using": BM25, "query_filter": parts.filter}
    if mode == "dense":
        return {"query": parts.vector, "using": LMK, "query_filter": parts.filter}
    if mode == "document":
        return {"query": parts.vector, "using": DOCUMENT, "query_filter": parts.filter}
    if mode == "landmark":
        return {"query": [parts.vector], "using": LANDMARKS, "prefetch": [_dense(parts)]}
    return _hybrid(fusion, weights, parts)


def _hybrid(fusion: Fusion, weights: HybridWeights, parts: QueryParts) -> dict[str, Any]:
    if parts.sparse is None or not parts.sparse.indices:
        return build_query("landmark", fusion, weights, parts)  # no word of the query counts
    candidates = [_dense(parts), _bm25(parts)]
    both = [
        models.Prefetch(
            query=[parts.vector], using=LANDMARKS, limit=2 * parts.prefetch, prefetch=candidates
        ),
        models.Prefetch(
            query=parts.sparse, using=BM25, limit=2 * parts.prefetch, prefetch=candidates
        ),
    ]
    if fusion == "formula":
        return {"prefetch": both, "query": _formula(weights)}
    kind = models.Fusion.RRF if fusion == "rrf" else models.Fusion.DBSF
    return {"prefetch": both, "query": models.FusionQuery(fusion=kind)}


def _formula(weights: HybridWeights) -> models.FormulaQuery:
    bm25 = models.DivExpression(
        div=models.DivParams(
            left="$score[1]",
            right=models.SumExpression(sum=["$score[1]", weights.bm25_half]),
        )
    )
    terms: list[Any] = [
        models.MultExpression(mult=[weights.landmark_weight, "$score[0]"]),
        models.MultExpression(mult=[weights.bm25_weight, bm25]),
    ]
    return models.FormulaQuery(
        formula=models.SumExpression(sum=terms), defaults={"$score[0]": 0.0, "$score[1]": 0.0}
    )


def _dense(parts: QueryParts) -> models.Prefetch:
    return models.Prefetch(query=parts.vector, using=LMK, limit=parts.prefetch, filter=parts.filter)


def _bm25(parts: QueryParts) -> models.Prefetch:
    return models.Prefetch(
        query=parts.sparse, using=BM25, limit=parts.prefetch, filter=parts.filter
    )
