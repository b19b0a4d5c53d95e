"""Writing points with an EdgeClient."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

import qdrant_edge as qe
from qdrant_client.http import models

from lmk_integrations.errors import StoreError
from lmk_integrations.qdrant.edge.arguments import check_limit, check_options
from lmk_integrations.qdrant.edge.client_base import COMPLETED, ClientBase, edge_filter
from lmk_integrations.qdrant.edge.collection import EdgeCollection
from lmk_integrations.qdrant.edge.convert_point import iter_points, to_edge_vector
from lmk_integrations.qdrant.edge.engine import engine_call
from lmk_integrations.qdrant.edge.payload import prepare_payload
from lmk_integrations.qdrant.edge.validate import PreparedPoint, prepare_id, prepare_point

# How QdrantClient.upload_points is called by frameworks; neither has a meaning without a network.
_UPLOAD_OPTIONS = frozenset({"parallel", "method", "max_retries"})


class PointMethods(ClientBase):
    """Upserting, deleting and changing points. Every call is applied when it returns."""

    def upsert(
        self,
        collection_name: str,
        points: Any,
        *,
        update_filter: models.Filter | None = None,
        update_mode: Any = None,
        **options: Any,
    ) -> models.UpdateResult:
        """Insert points, replacing those with the same id.

        points: a list of models.PointStruct, a models.Batch, or any iterable of objects with
            `id`, `vector` and `payload`. Vectors may be NumPy arrays, which is faster than lists.

        Every point is checked first: one bad point raises StoreError, and nothing is written.
        """
        check_options("upsert", options)
        collection = self._collection(collection_name)
        prepared = _prepare(points, collection)
        if not prepared:
            raise StoreError("upsert was given no points. Leave the call out when there are none.")
        collection.upsert(prepared, edge_filter(update_filter), _update_mode(update_mode))
        return COMPLETED

    def upload_points(
        self,
        collection_name: str,
        points: Iterable[Any],
        batch_size: int = 64,
        *,
        update_filter: models.Filter | None = None,
        update_mode: Any = None,
        **options: Any,
    ) -> None:
        """Upsert an iterable of points, `batch_size` at a time.

        A list is checked as a whole before anything is written. Other iterables are read and
        checked batch by batch, so that they need not fit in memory.
        """
        check_options(
            "upload_points", {k: v for k, v in options.items() if k not in _UPLOAD_OPTIONS}
        )
        size = check_limit("batch_size", batch_size, 1)
        collection = self._collection(collection_name)
        condition, mode = edge_filter(update_filter), _update_mode(update_mode)
        if isinstance(points, Sequence):
            stream = iter(_prepare(points, collection))
            while batch := list(islice(stream, size)):
                collection.upsert(batch, condition, mode)
            return
        raw = iter(points)
        while unchecked := list(islice(raw, size)):
            collection.upsert(_prepare(unchecked, collection), condition, mode)

    def delete(
        self, collection_name: str, points_selector: Any, **options: Any
    ) -> models.UpdateResult:
        """Delete points by a list of ids, PointIdsList, Filter or FilterSelector."""
        check_options("delete", options)
        return self._update_selected(
            collection_name,
            points_selector,
            "Deleting points from",
            qe.UpdateOperation.delete_points,
            qe.UpdateOperation.delete_points_by_filter,
            removes_vectors=True,
        )

    def set_payload(
        self,
        collection_name: str,
        payload: Mapping[str, Any],
        points: Any,
        key: str | None = None,
        **options: Any,
    ) -> models.UpdateResult:
        """Merge `payload` into that of the selected points, below `key` if given."""
        check_options("set_payload", options)
        clean = prepare_payload(payload, "set_payload")
        return self._update_selected(
            collection_name,
            points,
            "Setting the payload in",
            lambda ids: qe.UpdateOperation.set_payload(ids, clean, key),
            lambda condition: qe.UpdateOperation.set_payload_by_filter(condition, clean, key),
        )

    def overwrite_payload(
        self, collection_name: str, payload: Mapping[str, Any], points: Any, **options: Any
    ) -> models.UpdateResult:
        """Replace the whole payload of the selected points."""
        check_options("overwrite_payload", options)
        clean = prepare_payload(payload, "overwrite_payload")
        return self._update_selected(
            collection_name,
            points,
            "Overwriting the payload in",
            lambda ids: qe.UpdateOperation.overwrite_payload(ids, clean),
            lambda condition: qe.UpdateOperation.overwrite_payload_by_filter(condition, clean),
        )

    def delete_payload(
        self, collection_name: str, keys: Sequence[str], points: Any, **options: Any
    ) -> models.UpdateResult:
        """Remove payload keys from the selected points."""
        check_options("delete_payload", options)
        names = list(keys)
        return self._update_selected(
            collection_name,
            points,
            "Deleting payload from",
            lambda ids: qe.UpdateOperation.delete_payload(ids, names),
            lambda condition: qe.UpdateOperation.delete_payload_by_filter(condition, names),
        )

    def clear_payload(
        self, collection_name: str, points_selector: Any, **options: Any
    ) -> models.UpdateResult:
        """Remove the whole payload of the selected points."""
        check_options("clear_payload", options)
        return self._update_selected(
            collection_name,
            points_selector,
            "Clearing the payload in",
            qe.UpdateOperation.clear_payload,
            qe.UpdateOperation.clear_payload_by_filter,
        )

    def update_vectors(
        self, collection_name: str, points: Sequence[Any], **options: Any
    ) -> models.UpdateResult:
        """Replace the named vectors of existing points, leaving their other vectors alone."""
        check_options("update_vectors", options)
        collection = self._collection(collection_name)
        prepared = _prepare(points, collection)
        if not prepared:
            raise StoreError("update_vectors was given no points.")
        with engine_call("Reading the vectors"):
            changes = [_point_vectors(point) for point in prepared]
        operation = qe.UpdateOperation.update_vectors(changes)
        collection.update(operation, "Updating vectors in", removes_vectors=True)
        return COMPLETED

    def delete_vectors(
        self, collection_name: str, vectors: Sequence[str], points: Any, **options: Any
    ) -> models.UpdateResult:
        """Remove the named vectors from the selected points."""
        check_options("delete_vectors", options)
        names = list(vectors)
        collection = self._collection(collection_name)
        for name in names:
            if name not in collection.fields:
                raise StoreError(f"Collection {collection.name!r} has no vector named {name!r}.")
        return self._update_selected(
            collection_name,
            points,
            "Deleting vectors from",
            lambda ids: qe.UpdateOperation.delete_vectors(ids, names),
            lambda condition: qe.UpdateOperation.delete_vectors_by_filter(condition, names),
            removes_vectors=True,
        )

    def _update_selected(
        self,
        collection_name: str,
        selector: Any,
        what: str,
        by_ids: Any,
        by_filter: Any,
        removes_vectors: bool = False,
    ) -> models.UpdateResult:
        collection = self._collection(collection_name)
        with engine_call("Reading the selection of points"):
            condition = _selected_filter(selector)
            if condition is not None:
                operation = by_filter(condition)
            else:
                operation = by_ids(_selected_ids(selector))
        collection.update(operation, what, removes_vectors)
        return COMPLETED


def _prepare(points: Any, collection: EdgeCollection) -> list[PreparedPoint]:
    return [
        prepare_point(point_id, vector, payload, collection.fields)
        for point_id, vector, payload in iter_points(points)
    ]


def _point_vectors(point: PreparedPoint) -> qe.PointVectors:
    vectors: Any = {name: to_edge_vector(vector) for name, vector in point.vectors.items()}
    return qe.PointVectors(point.id, vectors)


def _update_mode(value: Any) -> Any:
    if value is None:
        return None
    names = {"upsert": "Upsert", "insert_only": "InsertOnly", "update_only": "UpdateOnly"}
    name = names.get(getattr(value, "value", value))
    if name is None:
        raise StoreError(f"update_mode {value!r} is not one of {', '.join(names)}.")
    return getattr(qe.UpdateMode, name)


def _selected_filter(selector: Any) -> qe.Filter | None:
    if isinstance(selector, models.FilterSelector):
        return edge_filter(selector.filter)
    return edge_filter(selector) if isinstance(selector, models.Filter) else None


def _selected_ids(selector: Any) -> list[int | str]:
    values = selector.points if isinstance(selector, models.PointIdsList) else selector
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise StoreError(
            "Points are selected by a list of ids, PointIdsList, Filter or FilterSelector, "
            f"got {type(selector).__name__}."
        )
    ids = [prepare_id(value) for value in values]
    if not ids:
        # As a server does: an empty list is more often a mistake than a wish.
        raise StoreError("No points are selected: the list of ids is empty.")
    return ids
