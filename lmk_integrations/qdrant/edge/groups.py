"""Grouping search results by a payload field, which the engine does not do itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from qdrant_client.http import models
from qdrant_client.local.payload_value_extractor import value_by_key

from lmk_integrations.qdrant.edge.convert_query import as_prefetch_list


def widen_prefetches(prefetch: Any, factor: int) -> list[Any] | None:
    """Copies of the prefetches with their limits multiplied by `factor`, nested ones included."""
    widened = [
        item.model_copy(
            update={
                "limit": (item.limit or 10) * factor,
                "prefetch": widen_prefetches(item.prefetch, factor),
            }
        )
        for item in as_prefetch_list(prefetch)
    ]
    return widened or None


def collect_groups(
    fetch: Callable[[int], list[models.ScoredPoint]], group_by: str, limit: int, group_size: int
) -> list[models.PointGroup]:
    """The first `limit` groups, best first.

    fetch: gives the best n points with the payload field in question. It is asked for more until
        the groups are full or the points run out.
    """
    count = limit * group_size
    while True:
        points = fetch(count)
        groups = _group(points, group_by, group_size)
        chosen = list(groups.values())[:limit]
        full = len(chosen) == limit and all(len(group.hits) == group_size for group in chosen)
        if full or len(points) < count:
            return chosen
        count *= 4


def _group(
    points: list[models.ScoredPoint], group_by: str, group_size: int
) -> dict[Any, models.PointGroup]:
    groups: dict[Any, models.PointGroup] = {}
    for point in points:
        for value in _group_ids(point.payload or {}, group_by):
            group = groups.get(value)
            if group is None:
                group = groups[value] = models.PointGroup.model_construct(
                    id=value, hits=[], lookup=None
                )
            if len(group.hits) < group_size:
                group.hits.append(point.model_copy())
    return groups


def _group_ids(payload: dict[str, Any], group_by: str) -> list[Any]:
    """The values a point is grouped under. As on a server, one unfit value excludes the point."""
    values = value_by_key(payload, group_by) or []
    if any(type(value) not in (int, str) for value in values):
        return []
    return list(dict.fromkeys(values))
