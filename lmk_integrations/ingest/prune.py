"""Which stored documents of a folder are gone from it."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet

from lmk_integrations.ingest.readers import ReadOptions


def gone(
    root: str, stored: Iterable[str], seen: AbstractSet[str], options: ReadOptions
) -> Iterator[str]:
    """The ids of stored documents that a complete walk of their folder did not see.

    root: the folder's name, with which its documents' ids begin. A document that include or
    exclude left out of the walk is not gone: it was not looked for. Nor are the entries
    (``data.jsonl#7``) of a file that could not be read.
    """
    for doc_id in stored:
        file = doc_id.rsplit("#", 1)[0]
        if doc_id in seen or file in seen:
            continue
        if any(_was_looked_for(name.removeprefix(f"{root}/"), options) for name in (doc_id, file)):
            yield doc_id


def _was_looked_for(relative: str, options: ReadOptions) -> bool:
    parts = relative.split("/")
    folders = ["/".join(parts[: i + 1]) for i in range(len(parts))]
    if any(_matches(path, options.exclude) for path in folders):
        return False
    return not options.include or _matches(relative, options.include)


def _matches(relative: str, globs: tuple[str, ...]) -> bool:
    name = relative.rsplit("/", 1)[-1]
    return any(fnmatch.fnmatch(relative, g) or fnmatch.fnmatch(name, g) for g in globs)
