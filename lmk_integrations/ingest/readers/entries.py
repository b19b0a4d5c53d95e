"""JSON objects as documents: the shape that jsonl and json files share."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from lmk_integrations.errors import DocumentError
from lmk_integrations.ingest.readers.files import SourceFile
from lmk_integrations.ingest.readers.shape import finish
from lmk_integrations.records import Document, Failure

TEXT_KEYS = ("text", "content", "page_content", "body")
ID_KEYS = ("id", "_id")
MAX_DEPTH = 64


def parse_json(text: str) -> Any:
    """A JSON value. Raises DocumentError: "invalid_json", "too_deep"."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise DocumentError(
            f"it is not valid JSON: {error.msg} ({where})", "invalid_json"
        ) from None
    except RecursionError:
        raise _too_deep() from None
    except ValueError as error:  # a number of too many digits
        raise DocumentError(f"it is not usable JSON: {error}", "invalid_json") from None
    _check_depth(value)
    return value


def entry_document(file: SourceFile, entry: Any, place: str) -> Document | Failure:
    """The document of one object.

    place: the id it gets if it has none, the file's own or with a line number.
    text, content, page_content or body: its text; id or _id; title; source or url; metadata, with
    the remaining keys.
    """
    try:
        return _document(file, entry, place)
    except DocumentError as error:
        return Failure(place, error.reason, str(error))


def _document(file: SourceFile, entry: Any, place: str) -> Document | Failure:
    if not isinstance(entry, Mapping):
        raise DocumentError(f"it is a {type(entry).__name__}, not a JSON object", "invalid")
    rest = dict(entry)
    text = _taken(rest, TEXT_KEYS)
    if text is None:
        raise DocumentError(f"it has none of the keys {', '.join(TEXT_KEYS)}", "invalid")
    if not isinstance(text, str):
        raise DocumentError(f"its text is a {type(text).__name__}, not a string", "invalid")
    doc_id = _taken(rest, ID_KEYS)
    if isinstance(doc_id, bool) or not isinstance(doc_id, str | int | None):
        raise DocumentError(f"its id is a {type(doc_id).__name__}, not a text", "invalid")
    title = rest.pop("title", None)
    metadata = rest.pop("metadata", None)
    if isinstance(metadata, Mapping):
        rest |= metadata
    elif metadata is not None:
        rest["metadata"] = metadata
    source = next((rest[key] for key in ("source", "url") if isinstance(rest.get(key), str)), None)
    return finish(
        file,
        text,
        doc_id=place if doc_id in (None, "") else str(doc_id),
        source=source,
        title=title if isinstance(title, str) else None,
        metadata=rest,
    )


def _taken(entry: dict[str, Any], keys: tuple[str, ...]) -> Any:
    """The first of these that is there, taken out; the others stay as metadata."""
    for key in keys:
        if entry.get(key) is not None:
            return entry.pop(key)
    return None


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            child
            for node in level
            if isinstance(node, dict | list)
            for child in (node.values() if isinstance(node, dict) else node)
        ]
        if not level:
            return
    raise _too_deep()


def _too_deep() -> DocumentError:
    return DocumentError(f"it is nested deeper than {MAX_DEPTH} levels", "too_deep")
