"""Maximal marginal relevance over hits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from langchain_core.vectorstores.utils import maximal_marginal_relevance

from lmk_integrations.errors import ConfigError
from lmk_integrations.qdrant import LandmarkIndex, SearchHit
from lmk_integrations.qdrant.schema import LMK


def diverse(
    index: LandmarkIndex,
    hits: Sequence[SearchHit],
    query: Sequence[float],
    k: int,
    lambda_mult: float,
) -> list[SearchHit]:
    """The ``k`` hits that are near the query and unlike each other, the best first.

    query: (dim,). lambda_mult: 1 for nearness alone, 0 for difference alone. Sections are compared
    by their pooled vectors.
    """
    if not 0 <= lambda_mult <= 1:
        raise ConfigError(f"lambda_mult={lambda_mult!r} must be from 0 to 1")
    records = index.points([hit.id for hit in hits], with_vectors=True)
    found: list[tuple[SearchHit, list[float]]] = []
    for hit in hits:
        record = records.get(hit.id)
        vectors = None if record is None else record.vector
        # A point deleted since the search is left out.
        if isinstance(vectors, dict) and LMK in vectors:
            found.append((hit, np.asarray(vectors[LMK], np.float32).tolist()))
    chosen = maximal_marginal_relevance(
        np.asarray(query, np.float32), [vector for _, vector in found], lambda_mult, k
    )
    return [found[position][0] for position in chosen]
