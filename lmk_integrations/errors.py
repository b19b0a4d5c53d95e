"""Every error this package raises on purpose.

LMKError
├── ConfigError            a setting is wrong, before any work is done (also a ValueError)
├── DocumentError          one document cannot be used; the others go on (also a ValueError)
├── ModelError             a model cannot be found, or cannot be opened safely
├── StoreError             Qdrant refused, or holds something that does not fit
│   ├── SpaceMismatchError     the collection was filled by an encoder of another space
│   ├── StoreLockedError       another process holds the local store
│   └── StoreUnreachableError  the network is down; everything done so far is kept
└── MissingExtraError      an optional dependency is absent (also an ImportError)
"""

from __future__ import annotations


class LMKError(Exception):
    """Base of all errors of this package."""


class ConfigError(LMKError, ValueError):
    """A setting has a value that cannot work. Names the setting, the value and the remedy."""


class DocumentError(LMKError, ValueError):
    """One document cannot be processed.

    reason: a short machine-readable word such as ``"encrypted"``; it becomes the reason in an
        ingest report.
    """

    def __init__(self, message: str, reason: str = "invalid") -> None:
        super().__init__(message)
        self.reason = reason


class ModelError(LMKError):
    """A model cannot be found or cannot be opened safely."""


class StoreError(LMKError):
    """Qdrant refused an operation, or holds data that does not fit what is asked."""


class SpaceMismatchError(StoreError):
    """The collection's vectors come from an encoder whose space differs: not comparable."""


class StoreLockedError(StoreError):
    """Another process holds the local store. The message names it."""


class StoreUnreachableError(StoreError):
    """The store did not answer within the retries allowed. Run again to resume."""


class MissingExtraError(LMKError, ImportError):
    """An optional dependency is not installed. The message holds the pip command."""
