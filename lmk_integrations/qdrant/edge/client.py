"""QdrantClient's interface over the embedded engine, qdrant-edge."""

from __future__ import annotations

import os
import weakref
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from lmk_integrations.errors import StoreError
from lmk_integrations.qdrant.edge.client_collections import CollectionMethods
from lmk_integrations.qdrant.edge.client_points import PointMethods
from lmk_integrations.qdrant.edge.client_queries import QueryMethods
from lmk_integrations.qdrant.edge.shards import EdgeStore, open_store, release_store


class EdgeClient(CollectionMethods, PointMethods, QueryMethods):
    """The part of `qdrant_client.QdrantClient` that this package and the Qdrant vector stores of
    LangChain and LlamaIndex use, over a directory of this machine instead of a server.

    Answers are the models of qdrant_client. What the engine cannot do raises StoreError; nothing
    is silently ignored. Safe to use from several threads.

    One process at a time can open a directory; StoreLockedError names the one that has it.
    Several clients within one process share the open store, and the last one to be closed or
    garbage collected closes it. After a fork, only the parent may go on using it.
    """

    def __init__(self, path: str | os.PathLike[str], *, lock_wait_s: float = 0.0) -> None:
        """Open the store at `path`, making it if the directory is new or empty.

        lock_wait_s: seconds to wait for another process to close the store.

        Raises ConfigError where `path` is a file or holds something else, StoreLockedError where
        another process has the store, StoreError where it is damaged.
        """
        self._shared = open_store(Path(path), lock_wait_s)
        self._release = weakref.finalize(self, release_store, self._shared)

    @property
    def path(self) -> Path:
        """The directory of the store."""
        return self._shared.directory

    @property
    def _store(self) -> EdgeStore:
        if not self._release.alive:
            raise StoreError(f"This client of {self.path} is closed. Open the store again.")
        return self._shared

    def close(self, **_options: Any) -> None:
        """Flush and let go of the store. The client cannot be used afterwards. Idempotent."""
        self._release()

    def __enter__(self) -> EdgeClient:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"EdgeClient({str(self.path)!r})"

    if not TYPE_CHECKING:  # a checker shall go on finding misspelt names

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(
                f"EdgeClient has no {name!r}: an embedded store offers a part of QdrantClient "
                "only. Use a Qdrant server for the rest."
            )
