"""The clients that everything here works with, and how they are called."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

from qdrant_client import QdrantClient, models
from qdrant_client.local.qdrant_local import QdrantLocal
from qdrant_client.qdrant_remote import QdrantRemote

from lmk_integrations.qdrant.retry import applied, call_with_retry

if TYPE_CHECKING:
    from lmk_integrations.qdrant.edge import EdgeClient

    StoreClient = QdrantClient | EdgeClient
else:
    StoreClient = QdrantClient

Result = TypeVar("Result")

PAGE = 256  # points read at once

# qdrant-client's in-memory store cannot be read in one thread while another one writes.
_LOCAL_GUARD = threading.RLock()


def guard(client: StoreClient) -> AbstractContextManager[Any]:
    """To be held during requests of this client."""
    return _LOCAL_GUARD if is_local(client) else nullcontext()


def is_local(client: StoreClient) -> bool:
    """Whether the store is qdrant-client's own, in this process. It keeps no payload indexes."""
    return isinstance(getattr(client, "_client", None), QdrantLocal)


def is_remote(client: StoreClient) -> bool:
    """Whether the store is another program, to which a network leads."""
    return isinstance(getattr(client, "_client", None), QdrantRemote)


def call(client: StoreClient, request: Callable[[], Result]) -> Result:
    """`request()`, a request of this client, repeated while the network is in the way.

    Raises StoreError, StoreUnreachableError: see `call_with_retry`.
    """
    with guard(client):
        return call_with_retry(request)


def scroll(
    client: StoreClient,
    collection: str,
    wanted: models.Filter | None,
    *,
    payload: Any,
    vectors: Any = False,
    page: int = PAGE,
) -> Iterator[models.Record]:
    """All points that a filter chooses, as `scroll_pages` reads them."""
    pages = scroll_pages(client, collection, wanted, payload=payload, vectors=vectors, page=page)
    return chain.from_iterable(pages)


def scroll_pages(
    client: StoreClient,
    collection: str,
    wanted: models.Filter | None,
    *,
    payload: Any,
    vectors: Any = False,
    page: int = PAGE,
) -> Iterator[list[models.Record]]:
    """All points that a filter chooses, in the order of their ids, in pages of so many.

    payload, vectors: as `scroll`'s with_payload and with_vectors of a client.
    """
    offset: Any = None
    while True:
        records, offset = call(
            client,
            lambda offset=offset: client.scroll(  # type: ignore[misc]
                collection,
                scroll_filter=wanted,
                limit=page,
                offset=offset,
                with_payload=payload,
                with_vectors=vectors,
            ),
        )
        yield records
        if offset is None:
            return


def write(client: StoreClient, request: Callable[[], models.UpdateResult]) -> None:
    """The same for a write: returns when it is applied, and not only accepted."""
    call(client, lambda: applied(request()))
