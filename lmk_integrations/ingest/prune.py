"""Which stored documents of a folder are gone from it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet


def gone(stored: Iterable[str], seen: AbstractSet[str]) -> Iterator[str]:
    """The ids of stored documents that a complete walk of their folder did not see.

    seen: ids of all that is there, files that failed or were left out among them. What lies in a
    folder that was left out (``docs/old/a.md``), or in a file that could not be read
    (``docs/data.jsonl#7``), was not looked for: it is not gone.
    """
    for doc_id in stored:
        if not any(name in seen for name in _containers(doc_id)):
            yield doc_id


def _containers(doc_id: str) -> Iterator[str]:
    """The id itself, the file that it may be an entry of, and the folders that these are in."""
    yield doc_id
    file = doc_id.rsplit("#", 1)[0]
    yield file
    parts = file.split("/")
    yield from ("/".join(parts[:i]) for i in range(2, len(parts)))
