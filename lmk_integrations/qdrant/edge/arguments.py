"""Arguments that QdrantClient takes and that an embedded store can only honour in one way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lmk_integrations.errors import StoreError

# True of every embedded store, whatever the value: a write is applied before the call returns,
# there is one copy to read from, and no network to wait for.
_ALWAYS_HONOURED = frozenset({"wait", "ordering", "consistency", "timeout"})

# Settings of a cluster. One is what an embedded store has of each.
_ONE_ONLY = frozenset({"shard_number", "replication_factor", "write_consistency_factor"})


def check_options(method: str, options: Mapping[str, Any]) -> None:
    """Raise StoreError for an option that `method` was given and the store cannot honour."""
    for name, value in options.items():
        if name in _ALWAYS_HONOURED or value is None:
            continue
        if name in _ONE_ONLY and value == 1:
            continue
        if name == "sharding_method" and getattr(value, "value", value) == "auto":
            continue
        raise StoreError(
            f"EdgeClient.{method}: {name}={value!r} is not possible in an embedded store. "
            "Leave it out, or use a Qdrant server."
        )


def check_limit(name: str, value: Any, smallest: int) -> int:
    """`value` as an int. Raises StoreError unless it is a whole number of at least `smallest`."""
    if isinstance(value, bool) or not hasattr(value, "__index__") or int(value) < smallest:
        raise StoreError(f"{name} must be a whole number of at least {smallest}, got {value!r}.")
    return int(value)
