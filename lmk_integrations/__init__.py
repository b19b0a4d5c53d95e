"""Long documents into Qdrant through a landmark-pooled encoder, for LangChain and LlamaIndex."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from lmk_integrations.errors import (
    ConfigError,
    DocumentError,
    LMKError,
    MissingExtraError,
    ModelError,
    SpaceMismatchError,
    StoreError,
    StoreLockedError,
    StoreUnreachableError,
)
from lmk_integrations.records import Document, Failure, Mark, TextSource

if TYPE_CHECKING:
    from lmk_integrations.encoder import LandmarkEncoding, LMKEncoder
    from lmk_integrations.ingest import IngestReport
    from lmk_integrations.qdrant import LandmarkIndex, SearchHit, connect

__version__ = "0.1.0"

# PEP 562: the heavy half is imported at its first use, so `import lmk_integrations` stays light.
_LAZY = {
    "LMKEncoder": "lmk_integrations.encoder",
    "LandmarkEncoding": "lmk_integrations.encoder",
    "IngestReport": "lmk_integrations.ingest",
    "LandmarkIndex": "lmk_integrations.qdrant",
    "SearchHit": "lmk_integrations.qdrant",
    "connect": "lmk_integrations.qdrant",
}

__all__ = [
    "ConfigError",
    "Document",
    "DocumentError",
    "Failure",
    "IngestReport",
    "LMKEncoder",
    "LMKError",
    "LandmarkEncoding",
    "LandmarkIndex",
    "Mark",
    "MissingExtraError",
    "ModelError",
    "SearchHit",
    "SpaceMismatchError",
    "StoreError",
    "StoreLockedError",
    "StoreUnreachableError",
    "TextSource",
    "connect",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
