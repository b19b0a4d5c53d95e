"""What a store holds, for tests that compare stores."""

from __future__ import annotations

from typing import Any


def dump(client: Any, collection: str = "c") -> dict[str, Any]:
    """Every point by id: its payload and its vectors."""
    found: dict[str, Any] = {}
    offset = None
    while True:
        records, offset = client.scroll(
            collection, limit=500, offset=offset, with_payload=True, with_vectors=True
        )
        found |= {str(record.id): (record.payload, record.vector) for record in records}
        if offset is None:
            return found
