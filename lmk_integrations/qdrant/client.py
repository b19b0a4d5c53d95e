"""The clients that everything here works with, and how they are called."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from qdrant_client import QdrantClient
from qdrant_client.local.qdrant_local import QdrantLocal

from lmk_integrations.qdrant.retry import call_with_retry

if TYPE_CHECKING:
    from lmk_integrations.qdrant.edge import EdgeClient

    StoreClient = QdrantClient | EdgeClient
else:
    StoreClient = QdrantClient

Result = TypeVar("Result")

# qdrant-client's in-memory store cannot be read in one thread while another one writes.
_LOCAL_GUARD = threading.RLock()


def call(client: StoreClient, request: Callable[[], Result]) -> Result:
    """`request()`, a request of this client, repeated while the network is in the way.

    Raises StoreError, StoreUnreachableError: see `call_with_retry`.
    """
    if isinstance(getattr(client, "_client", None), QdrantLocal):
        with _LOCAL_GUARD:
            return request()
    return call_with_retry(request)
