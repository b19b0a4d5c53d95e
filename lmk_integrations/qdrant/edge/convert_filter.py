"""Filters of qdrant_client as filters of the engine. Nothing is dropped: what does not fit raises.

Classes are told apart by name, so that a qdrant_client too old to have one of them still works.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import qdrant_edge as qe

from lmk_integrations.errors import StoreError
from lmk_integrations.qdrant.edge.validate import prepare_id


def to_edge_filter(value: Any) -> qe.Filter | None:
    """A models.Filter as the engine's Filter; None stays None.

    Raises StoreError naming the condition that the engine does not know.
    """
    if value is None:
        return None
    if type(value).__name__ != "Filter":
        raise StoreError(f"A filter must be a models.Filter, got {type(value).__name__}.")
    minimum = value.min_should
    return qe.Filter(
        must=_conditions(value.must),
        should=_conditions(value.should),
        must_not=_conditions(value.must_not),
        min_should=None
        if minimum is None
        else qe.MinShould(_conditions(minimum.conditions) or [], minimum.min_count),
    )


def excluding(base: qe.Filter | None, point_ids: Iterable[int | str]) -> qe.Filter | None:
    """`base` without the given points; `base` itself when there are none."""
    ids = set(point_ids)
    if not ids:
        return base
    return qe.Filter(
        must=None if base is None else [base], must_not=[qe.HasIdCondition(_edge_ids(ids))]
    )


def to_edge_condition(value: Any) -> Any:
    """One condition of a filter, or of a formula."""
    convert = _CONDITIONS.get(type(value).__name__)
    if convert is None:
        raise StoreError(
            f"The embedded engine does not know the filter condition {type(value).__name__}."
        )
    return convert(value)


def is_condition(value: Any) -> bool:
    """Whether `value` is a filter condition (they may stand in formulas too)."""
    return type(value).__name__ in _CONDITIONS


def _conditions(value: Any) -> list[Any] | None:
    if value is None:
        return None
    items = value if isinstance(value, Sequence) else [value]
    return [to_edge_condition(item) for item in items]


def _edge_ids(values: Iterable[Any]) -> set[Any]:
    return {prepare_id(value) for value in values}


_FIELD_PARTS = (
    "match",
    "range",
    "geo_bounding_box",
    "geo_radius",
    "geo_polygon",
    "values_count",
    "is_empty",
    "is_null",
)


def _field(value: Any) -> qe.FieldCondition:
    parts = {
        name: getattr(value, name)
        for name in _FIELD_PARTS
        if getattr(value, name, None) is not None
    }
    if len(parts) != 1:
        found = ", ".join(parts) or "none"
        raise StoreError(
            f"The condition on field {value.key!r} must have exactly one test, it has: {found}. "
            "Put several tests into several FieldConditions under `must`."
        )
    ((name, test),) = parts.items()
    converted = test if name in ("is_empty", "is_null") else _test(value.key, test)
    return qe.FieldCondition(value.key, **{name: converted})


def _test(key: str, test: Any) -> Any:
    convert = _TESTS.get(type(test).__name__)
    if convert is None:
        raise StoreError(
            f"The embedded engine does not know the test {type(test).__name__} on field {key!r}."
        )
    return convert(test)


def _match_value(test: Any) -> qe.MatchValue:
    # The binding reads a Python bool as an integer, which then matches nothing; NumPy's bool is
    # no integer and arrives as what it is.
    value: Any = np.bool_(test.value) if isinstance(test.value, bool) else test.value
    return qe.MatchValue(value)


def _iso(value: Any) -> str | None:
    return None if value is None else value.isoformat()


def _datetime_range(test: Any) -> qe.RangeDateTime:
    return qe.RangeDateTime(
        gte=_iso(test.gte), gt=_iso(test.gt), lte=_iso(test.lte), lt=_iso(test.lt)
    )


def to_edge_geo_point(value: Any) -> qe.GeoPoint:
    """A models.GeoPoint as the engine's."""
    return qe.GeoPoint(value.lon, value.lat)


def _ring(line: Any) -> list[qe.GeoPoint]:
    return [to_edge_geo_point(point) for point in line.points]


def _polygon(test: Any) -> qe.GeoPolygon:
    interiors = None if test.interiors is None else [_ring(line) for line in test.interiors]
    return qe.GeoPolygon(_ring(test.exterior), interiors)


def _slice(value: Any) -> Any:
    # The class exists in the binding but is missing from its type stub.
    return getattr(qe, "SliceCondition")(value.slice.total, value.slice.index)  # noqa: B009


_TESTS: dict[str, Callable[[Any], Any]] = {
    "MatchValue": _match_value,
    "MatchText": lambda test: qe.MatchText(test.text),
    "MatchTextAny": lambda test: qe.MatchTextAny(test.text_any),
    "MatchPhrase": lambda test: qe.MatchPhrase(test.phrase),
    "MatchPrefix": lambda test: qe.MatchPrefix(test.prefix),
    "MatchSubstring": lambda test: qe.MatchSubstring(test.substring),
    "MatchAny": lambda test: qe.MatchAny(test.any),
    "MatchExcept": lambda test: qe.MatchExcept(test.except_),
    "Range": lambda test: qe.RangeFloat(gte=test.gte, gt=test.gt, lte=test.lte, lt=test.lt),
    "DatetimeRange": _datetime_range,
    "GeoBoundingBox": lambda test: qe.GeoBoundingBox(
        to_edge_geo_point(test.top_left), to_edge_geo_point(test.bottom_right)
    ),
    "GeoRadius": lambda test: qe.GeoRadius(to_edge_geo_point(test.center), test.radius),
    "GeoPolygon": _polygon,
    "ValuesCount": lambda test: qe.ValuesCount(lt=test.lt, gt=test.gt, lte=test.lte, gte=test.gte),
}

_CONDITIONS: dict[str, Callable[[Any], Any]] = {
    "FieldCondition": _field,
    "IsEmptyCondition": lambda value: qe.IsEmptyCondition(value.is_empty.key),
    "IsNullCondition": lambda value: qe.IsNullCondition(value.is_null.key),
    "HasIdCondition": lambda value: qe.HasIdCondition(_edge_ids(value.has_id)),
    "HasVectorCondition": lambda value: qe.HasVectorCondition(value.has_vector),
    "SliceCondition": _slice,
    "NestedCondition": lambda value: qe.NestedCondition(
        value.nested.key, to_edge_filter(value.nested.filter) or qe.Filter()
    ),
    "Filter": to_edge_filter,
}
