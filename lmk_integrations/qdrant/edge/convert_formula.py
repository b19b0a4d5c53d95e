"""Scoring formulas of qdrant_client as formulas of the engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import qdrant_edge as qe

from lmk_integrations.errors import StoreError
from lmk_integrations.qdrant.edge.convert_filter import (
    is_condition,
    to_edge_condition,
    to_edge_geo_point,
)
from lmk_integrations.qdrant.edge.payload import prepare_payload


def to_edge_formula(query: Any) -> qe.Formula:
    """A models.FormulaQuery as the engine's Formula.

    Raises StoreError naming an expression that the engine does not know.
    """
    defaults = {
        key: value.model_dump() if hasattr(value, "model_dump") else value
        for key, value in (query.defaults or {}).items()
    }
    return qe.Formula(_expression(query.formula), prepare_payload(defaults, "Formula defaults"))


def _expression(value: Any) -> Any:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return qe.Expression.Constant(float(value))
    if isinstance(value, str):
        return qe.Expression.Variable(value)
    if is_condition(value):
        return qe.Expression.Condition(to_edge_condition(value))
    convert = _EXPRESSIONS.get(type(value).__name__)
    if convert is None:
        raise StoreError(
            f"The embedded engine does not know the formula expression {type(value).__name__}."
        )
    return convert(value)


def _all(values: Any) -> list[Any]:
    return [_expression(value) for value in values]


def _div(value: Any) -> Any:
    return qe.Expression.Div(
        _expression(value.div.left), _expression(value.div.right), value.div.by_zero_default
    )


def _decay(kind: Any, params: Any) -> Any:
    return qe.Expression.Decay(
        kind,
        _expression(params.x),
        None if params.target is None else _expression(params.target),
        params.midpoint,
        params.scale,
    )


_EXPRESSIONS: dict[str, Callable[[Any], Any]] = {
    "SumExpression": lambda value: qe.Expression.Sum(_all(value.sum)),
    "MultExpression": lambda value: qe.Expression.Mult(_all(value.mult)),
    "MaxExpression": lambda value: qe.Expression.Max(_all(value.max)),
    "MinExpression": lambda value: qe.Expression.Min(_all(value.min)),
    "NegExpression": lambda value: qe.Expression.Neg(_expression(value.neg)),
    "AbsExpression": lambda value: qe.Expression.Abs(_expression(value.abs)),
    "DivExpression": _div,
    "SqrtExpression": lambda value: qe.Expression.Sqrt(_expression(value.sqrt)),
    "PowExpression": lambda value: qe.Expression.Pow(
        _expression(value.pow.base), _expression(value.pow.exponent)
    ),
    "ExpExpression": lambda value: qe.Expression.Exp(_expression(value.exp)),
    "Log10Expression": lambda value: qe.Expression.Log10(_expression(value.log10)),
    "LnExpression": lambda value: qe.Expression.Ln(_expression(value.ln)),
    "AcoshExpression": lambda value: qe.Expression.Acosh(_expression(value.acosh)),
    "GeoDistance": lambda value: qe.Expression.GeoDistance(
        to_edge_geo_point(value.geo_distance.origin), value.geo_distance.to
    ),
    "DatetimeExpression": lambda value: qe.Expression.Datetime(value.datetime),
    "DatetimeKeyExpression": lambda value: qe.Expression.DatetimeKey(value.datetime_key),
    "LinDecayExpression": lambda value: _decay(qe.DecayKind.Lin, value.lin_decay),
    "ExpDecayExpression": lambda value: _decay(qe.DecayKind.Exp, value.exp_decay),
    "GaussDecayExpression": lambda value: _decay(qe.DecayKind.Gauss, value.gauss_decay),
}
