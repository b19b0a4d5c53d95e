"""The vectors inside a query: checked, fetched where a point id stands for one, averaged."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from lmk_integrations.errors import StoreError
from lmk_integrations.qdrant.edge.convert_point import to_edge_vector
from lmk_integrations.qdrant.edge.validate import (
    DENSE,
    MULTI,
    SPARSE,
    FloatArray,
    PreparedVector,
    VectorField,
    as_float_array,
    check_size,
    prepare_id,
    prepare_sparse,
)


class QueryVectors:
    """Turns the vector inputs of one query into the engine's vectors.

    mentioned: ids of points of the searched collection that stood for their vectors.
    """

    def __init__(
        self,
        fields: Mapping[str, VectorField],
        fetch: Callable[[Any, str, int | str], Any],
        name: str,
        lookup_from: Any,
    ) -> None:
        self.name = name
        self.mentioned: set[int | str] = set()
        self._fields = fields
        self._fetch = fetch
        self._lookup = lookup_from

    @property
    def _field(self) -> VectorField:
        field = self._fields.get(self.name)
        if field is None:
            known = ", ".join(repr(name) for name in sorted(self._fields)) or "none"
            raise StoreError(
                f"The collection has no vector named {self.name!r} (it has {known}). "
                "Pass one of them as `using`."
            )
        return field

    def edge(self, value: Any) -> Any:
        """One vector, or the vector of the point with this id, as the engine takes it."""
        return to_edge_vector(self._prepare(value))

    def edge_average(self, positives: Sequence[Any], negatives: Sequence[Any]) -> Any:
        """Qdrant's `average_vector`: mean of positives moved away from the mean of negatives."""
        if not positives:
            raise StoreError("The strategy average_vector needs at least one positive example.")
        if self._field.kind == SPARSE:
            raise StoreError(
                "The embedded store does not average sparse vectors. "
                "Use the recommend strategy best_score or sum_scores."
            )
        ups: list[Any] = [self._prepare(item) for item in positives]
        downs: list[Any] = [self._prepare(item) for item in negatives]
        if self._field.kind == MULTI:
            rows = [np.atleast_2d(item) for item in ups] + [-np.atleast_2d(item) for item in downs]
            return to_edge_vector(np.concatenate(rows))
        average = np.mean(ups, axis=0)
        if downs:
            average = 2 * average - np.mean(downs, axis=0)
        return to_edge_vector(average.astype(np.float32))

    def _prepare(self, value: Any) -> PreparedVector:
        field = self._field
        if isinstance(value, (str, uuid.UUID, int)) and not isinstance(value, bool):
            point_id = prepare_id(value)
            name = getattr(self._lookup, "vector", None) or self.name
            if self._lookup is None:
                self.mentioned.add(point_id)
            value = self._fetch(self._lookup, name, point_id)
        where = f"Query on vector {self.name!r}"
        if field.kind == SPARSE:
            return prepare_sparse(value, where)
        return self._prepare_floats(value, field, where)

    def _prepare_floats(self, value: Any, field: VectorField, where: str) -> FloatArray:
        if hasattr(value, "indices"):
            raise StoreError(f"{where}: is a {field.kind} vector, got a sparse vector.")
        array = as_float_array(value, where)
        # One row against a multivector is MaxSim with a single query row.
        if array.ndim > (1 if field.kind == DENSE else 2) or array.size == 0:
            raise StoreError(
                f"{where}: a query of shape {array.shape} does not fit a {field.kind}."
            )
        check_size(array, field, where)
        return array
