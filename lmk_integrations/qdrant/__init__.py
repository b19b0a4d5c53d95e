"""Qdrant: an engine in process or a server, one schema, one index class over both."""

from lmk_integrations.qdrant.connect import connect
from lmk_integrations.qdrant.edge import EdgeClient
from lmk_integrations.qdrant.hits import Passage, SearchHit
from lmk_integrations.qdrant.index import LandmarkIndex
from lmk_integrations.qdrant.queries import HybridWeights
from lmk_integrations.qdrant.schema import collection_names
from lmk_integrations.qdrant.verify import verify
from lmk_integrations.qdrant.verify_report import Problem, VerifyReport

__all__ = [
    "EdgeClient",
    "HybridWeights",
    "LandmarkIndex",
    "Passage",
    "Problem",
    "SearchHit",
    "VerifyReport",
    "collection_names",
    "connect",
    "verify",
]
