"""Documents of LangChain and LlamaIndex, recognised by their parts: neither is imported."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lmk_integrations.ingest.mend import mended
from lmk_integrations.records import Document, Failure, Mark

_JOIN = "\n\n"
_PAGE_KEYS = ("page_label", "page", "page_number")
_SOURCE_KEYS = ("source", "file_path", "url")


@dataclass(frozen=True, slots=True)
class Page:
    """A document of a framework: a whole text, or one page of a file.

    id: what the user named it, None where no one did. source: the file it comes from.
    origin: of which iterable it is; pages are joined within one.
    """

    text: str
    id: str | None
    source: str | None
    label: str | None
    metadata: Mapping[str, Any]
    origin: int

    def continues(self, first: Page) -> bool:
        """Whether it is another page of the same file."""
        if self.source is None or self.source != first.source or self.origin != first.origin:
            return False
        return self.id is None or first.id is None or self.id == first.id


def as_page(item: Any, origin: int = 0) -> Page | None:
    """A LangChain or LlamaIndex document as a Page; None for anything else."""
    metadata = getattr(item, "metadata", None)
    if not isinstance(metadata, Mapping):
        return None
    label = _first(metadata, _PAGE_KEYS)
    source = _first(metadata, _SOURCE_KEYS)
    if isinstance(getattr(item, "page_content", None), str):
        given = getattr(item, "id", None) or None
        # Splitters and stores number the pages of a file at random.
        random = source is not None and label is not None and _is_random(given)
        text: str = item.page_content
    elif callable(getattr(item, "get_content", None)) and hasattr(item, "id_"):
        given = item.id_ or None
        source = source or getattr(item, "ref_doc_id", None) or _first(metadata, ("file_name",))
        random = _is_random(given)
        text = item.get_content()
    else:
        return None
    doc_id = None if given is None or random else str(given)
    return Page(text, doc_id, source, label, metadata, origin)


def join_pages(items: Iterable[Page | Document | Failure]) -> Iterator[Document | Failure]:
    """Consecutive pages of one file become one document; the rest passes."""
    pages: list[Page] = []
    for item in items:
        if pages and not (isinstance(item, Page) and item.continues(pages[0])):
            yield mended(joined(pages))
            pages = []
        if isinstance(item, Page):
            pages.append(item)
        else:
            yield item
    if pages:
        yield mended(joined(pages))


def joined(pages: Sequence[Page]) -> Document:
    """One document of the pages of one file: texts a blank line apart, metadata that all share."""
    marks: list[Mark] = []
    texts: list[str] = []
    length = 0
    for page in pages:
        if not page.text.strip() and len(pages) > 1:
            continue
        start = length + len(_JOIN) if texts else 0
        if page.label is not None:
            marks.append(Mark(start, "page", page.label))
        texts.append(page.text)
        length = start + len(page.text)
    text = _JOIN.join(texts)
    first = pages[0]
    title = first.metadata.get("title")
    named = next((page.id for page in pages if page.id is not None), None)
    if len(pages) > 1 and any(page.id != named for page in pages):
        named = None  # only some of them have it: it is a page's name, not the file's
    return Document(
        text,
        id=named or first.source or f"text-{_digest(text)}",
        metadata=_common(pages),
        title=title if isinstance(title, str) and title.strip() else None,
        source=first.source,
        marks=tuple(marks),
    )


def _common(pages: Sequence[Page]) -> dict[str, Any]:
    first, *others = pages
    keys = [key for key in first.metadata if not (others and key in _PAGE_KEYS)]
    return {
        key: first.metadata[key]
        for key in keys
        if all(
            key in page.metadata and _same(page.metadata[key], first.metadata[key])
            for page in others
        )
    }


def _same(one: Any, other: Any) -> bool:
    try:
        return one is other or bool(one == other)
    except Exception:  # arrays compare element by element, others in ways of their own
        return False


def _first(metadata: Mapping[str, Any], keys: tuple[str, ...]) -> str | None:
    values = (metadata.get(key) for key in keys)
    return next((str(value) for value in values if value is not None and str(value)), None)


def _is_random(given: Any) -> bool:
    try:
        return uuid.UUID(str(given)).version == 4
    except ValueError:
        return False


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
