"""The queries of each search mode, as Qdrant's own models. Equal on every backend."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

from qdrant_client import models

from lmk_integrations.encoder.settings import check_range
from lmk_integrations.errors import ConfigError
from lmk_integrations.qdrant.schema import BM25, DOCUMENT, LANDMARKS, LMK

Mode = Literal["hybrid", "dense", "landmark", "bm25", "document"]
MODES: tuple[str, ...] = get_args(Mode)
Fusion = Literal["formula", "rrf", "dbsf"]
FUSIONS: tuple[str, ...] = get_args(Fusion)

DEFAULT_PREFETCH = 64


@dataclass(frozen=True, slots=True)
class HybridWeights:
    """``landmark_weight * landmark + bm25_weight * bm25``.

    landmark is the best landmark's cosine. BM25 scores grow with the number and the rarity of the
    query's words, so the more words there are to go by, the more they decide. Chosen by
    examples/tune_search.py, where 0.03 to 0.05 were alike on four sets.
    rrf_k: of fusion "rrf", where a rank counts 1 / (rrf_k + rank): the smaller, the more the first
        few ranks decide.
    """

    landmark_weight: float = 1.0
    bm25_weight: float = 0.04
    rrf_k: int = 2

    def __post_init__(self) -> None:
        if not all(0 <= weight < math.inf for weight in (self.landmark_weight, self.bm25_weight)):
            raise ConfigError(f"{self} must have weights of at least 0")
        check_range("rrf_k", self.rrf_k, 1, 1 << 20)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryParts:
    """A query in the forms that the modes need. vector: (dim,) as a list, empty
    where the mode needs none; sparse: BM25 terms; landmarks: whether the collection has them."""

    vector: list[float]
    sparse: models.SparseVector | None
    filter: models.Filter | None
    prefetch: int
    landmarks: bool = True


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
        return _landmark(parts)
    return _hybrid(fusion, weights, parts)


def _landmark(parts: QueryParts) -> dict[str, Any]:
    """By the best landmark; points without landmarks by the vector they have."""
    if not parts.landmarks:
        return {"query": parts.vector, "using": LMK, "query_filter": parts.filter}
    arms = [
        models.Prefetch(
            query=[parts.vector], using=LANDMARKS, limit=parts.prefetch, prefetch=[_dense(parts)]
        ),
        _foreign(parts),
    ]
    best = models.FormulaQuery(
        formula=models.SumExpression(sum=["$score[0]", "$score[1]"]),
        defaults={"$score[0]": 0.0, "$score[1]": 0.0},
    )
    return {"prefetch": arms, "query": best}


def _hybrid(fusion: Fusion, weights: HybridWeights, parts: QueryParts) -> dict[str, Any]:
    if parts.sparse is None or not parts.sparse.indices:
        return build_query("landmark", fusion, weights, parts)  # no word of the query counts
    candidates = [_dense(parts), _bm25(parts)]
    words = models.Prefetch(
        query=parts.sparse, using=BM25, limit=2 * parts.prefetch, prefetch=candidates
    )
    nearest = models.Prefetch(
        query=[parts.vector] if parts.landmarks else parts.vector,
        using=LANDMARKS if parts.landmarks else LMK,
        limit=2 * parts.prefetch,
        prefetch=candidates,
    )
    arms = [nearest, words, _foreign(parts)] if parts.landmarks else [nearest, words]
    if fusion == "formula":
        return {"prefetch": arms, "query": _formula(weights, len(arms))}
    ranked: Any = models.FusionQuery(fusion=models.Fusion.DBSF)
    if fusion == "rrf":
        ranked = models.RrfQuery(rrf=models.Rrf(k=weights.rrf_k))
    return {"prefetch": arms, "query": ranked}


def _formula(weights: HybridWeights, n_arms: int) -> models.FormulaQuery:
    # A point has a score in the first arm or in the last one.
    nearest: list[Any] = [f"$score[{arm}]" for arm in range(n_arms) if arm != 1]
    terms: list[Any] = [
        models.MultExpression(mult=[weights.landmark_weight, models.SumExpression(sum=nearest)]),
        models.MultExpression(mult=[weights.bm25_weight, "$score[1]"]),
    ]
    return models.FormulaQuery(
        formula=models.SumExpression(sum=terms),
        defaults={f"$score[{arm}]": 0.0 for arm in range(n_arms)},
    )


def _foreign(parts: QueryParts) -> models.Prefetch:
    """Points without landmarks, as other stores write them: their one vector stands for them."""
    lacking = models.Filter(must_not=[models.HasVectorCondition(has_vector=LANDMARKS)])
    wanted = lacking if parts.filter is None else models.Filter(must=[parts.filter, lacking])
    return models.Prefetch(query=parts.vector, using=LMK, limit=parts.prefetch, filter=wanted)


def _dense(parts: QueryParts) -> models.Prefetch:
    return models.Prefetch(query=parts.vector, using=LMK, limit=parts.prefetch, filter=parts.filter)


def _bm25(parts: QueryParts) -> models.Prefetch:
    return models.Prefetch(
        query=parts.sparse, using=BM25, limit=parts.prefetch, filter=parts.filter
    )
