"""The documents of a collection by their ids: listed, and looked for by half a name."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

from lmk_integrations.cli.render import safe
from lmk_integrations.errors import StoreError

if TYPE_CHECKING:
    from lmk_integrations.qdrant import LandmarkIndex

_FEW = 3  # ids worth proposing; of more, none is the likely one


def print_documents(index: LandmarkIndex, *, as_json: bool) -> None:
    """One line a document, as they are read: `lmk info --documents`."""
    if not index.exists:
        raise StoreError(f"there is no collection {index.collection!r}")
    count = 0
    if not as_json:
        print(f"{'sections':>8} {'tokens':>11}  document")
    for found in index.documents():
        count += 1
        if as_json:
            print(json.dumps({"type": "document", **found.to_dict()}))
        else:
            print(f"{found.n_sections:>8,} {found.n_tokens:>11,}  {safe(found.doc_id)}")
    if as_json:
        print(json.dumps({"type": "result", "command": "info", "documents": count}))


def similar_ids(index: LandmarkIndex, names: Iterable[str]) -> dict[str, list[str]]:
    """For each name the ids of the documents that end with it, or have it as their source."""
    found: dict[str, list[str]] = {name: [] for name in names}
    if not found:
        return found
    for document in index.documents():
        for name, ids in found.items():
            if document.doc_id.endswith(f"/{name}") or document.source == name:
                ids.append(document.doc_id)
    return found


def did_you_mean(ids: list[str]) -> str:
    """The end of a complaint about an unknown id.

    >>> did_you_mean(["docs/a.txt"])
    "; did you mean 'docs/a.txt'?"
    """
    if not 0 < len(ids) <= _FEW:
        return ""
    return f"; did you mean {' or '.join(map(repr, sorted(ids)))}?"
