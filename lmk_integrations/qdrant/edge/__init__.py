"""The embedded Qdrant engine behind the interface of QdrantClient."""

from lmk_integrations.qdrant.edge.client import EdgeClient

__all__ = ["EdgeClient"]
