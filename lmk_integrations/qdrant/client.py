"""The clients that everything here works with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qdrant_client import QdrantClient

if TYPE_CHECKING:
    from lmk_integrations.qdrant.edge import EdgeClient

    StoreClient = QdrantClient | EdgeClient
else:
    StoreClient = QdrantClient
