"""Maximal marginal relevance over hits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from qdrant_client import models

from lmk_integrations.core.pooling import l2_normalize
from lmk_integrations.qdrant import SearchHit
from lmk_integrations.qdrant.schema import LMK

Floats = NDArray[np.float32]


def diverse(
    hits: Sequence[SearchHit], points: Mapping[str, models.Record], k: int, threshold: float
) -> list[SearchHit]:
    """The ``k`` hits that are near the query and unlike those before them, the best first.

    hits: with cosines as scores; points: theirs, with vectors. threshold: 1 for nearness alone,
    0 for difference alone. Each keeps its cosine as score, so scores need not descend.
    """
    there = [hit for hit in hits if hit.id in points]  # others were deleted since the search
    if not there:
        return []
    vectors = l2_normalize(np.array([_vector(points[hit.id]) for hit in there], np.float32))
    near = np.array([hit.score for hit in there], np.float32)
    return [there[place] for place in _mmr(near, vectors, k, threshold)]


def _vector(point: models.Record) -> list[float]:
    vectors: dict[str, list[float]] = point.vector  # type: ignore[assignment]
    return vectors[LMK]


def _mmr(near: Floats, vectors: Floats, k: int, threshold: float) -> list[int]:
    # LlamaIndex's get_top_k_mmr_embeddings compares with the last one chosen only, not with all.
    chosen = [int(np.argmax(near))]
    alike = vectors @ vectors[chosen[0]]  # to the most alike of those chosen
    while len(chosen) < min(k, len(near)):
        gain = threshold * near - (1 - threshold) * alike
        gain[chosen] = -np.inf
        chosen.append(int(np.argmax(gain)))
        alike = np.maximum(alike, vectors @ vectors[chosen[-1]])
    return chosen
