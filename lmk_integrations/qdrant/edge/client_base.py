"""What the parts of EdgeClient share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import qdrant_edge as qe
from qdrant_client.http import models

from lmk_integrations.errors import StoreError
from lmk_integrations.qdrant.edge.convert_filter import to_edge_filter
from lmk_integrations.qdrant.edge.engine import engine_call

if TYPE_CHECKING:
    from lmk_integrations.qdrant.edge.collection import EdgeCollection
    from lmk_integrations.qdrant.edge.shards import EdgeStore


class ClientBase(ABC):
    """Access to the open store."""

    @property
    @abstractmethod
    def _store(self) -> EdgeStore:
        """The open store. Raises StoreError once this client is closed."""

    def _collection(self, name: str) -> EdgeCollection:
        return self._store.collection(name)


COMPLETED = models.UpdateResult(operation_id=None, status=models.UpdateStatus.COMPLETED)


def edge_filter(value: Any) -> qe.Filter | None:
    """A filter for the engine; what the binding refuses (a malformed key, say) is a StoreError."""
    with engine_call("Reading the filter"):
        return to_edge_filter(value)


def payload_selector(value: Any) -> Any:
    """`with_payload` as the engine takes it."""
    if value is None or isinstance(value, bool):
        return bool(value)
    if isinstance(value, models.PayloadSelectorInclude):
        return qe.PayloadSelector.Include(list(value.include))
    if isinstance(value, models.PayloadSelectorExclude):
        return qe.PayloadSelector.Exclude(list(value.exclude))
    if isinstance(value, (list, tuple)):
        return qe.PayloadSelector.Include(list(value))
    raise StoreError(
        "with_payload must be a bool, a list of keys, PayloadSelectorInclude or "
        f"PayloadSelectorExclude, got {value!r}."
    )


def vector_selector(value: Any, collection: EdgeCollection) -> Any:
    """`with_vectors` as the engine takes it. Raises StoreError for an unknown vector name."""
    if value is None or isinstance(value, bool):
        return bool(value)
    if isinstance(value, (list, tuple)):
        unknown = [name for name in value if name not in collection.fields]
        if unknown:
            raise StoreError(
                f"Collection {collection.name!r} has no vector named {unknown[0]!r} "
                f"(it has {', '.join(repr(name) for name in sorted(collection.fields))})."
            )
        return list(value)
    raise StoreError(f"with_vectors must be a bool or a list of vector names, got {value!r}.")
