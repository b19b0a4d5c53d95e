"""What can be ingested: files and folders, documents of either framework, iterables of these.

Nothing of LangChain or LlamaIndex is imported: their documents are recognised by their parts.
"""

from __future__ import annotations

import fnmatch
import hashlib
import os
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from lmk_integrations.ingest.readers import ParserProcess, ReadOptions, SourceFile, read_source
from lmk_integrations.ingest.readers.files import root_name
from lmk_integrations.records import Document, Failure, Mark
from lmk_integrations.text.repair import repair, repair_marks, repair_metadata

__all__ = ["READER_VERSION", "ReadOptions", "Sources"]

READER_VERSION = "1"
"""Raised when reading gives another text for the same bytes: then all files count as changed."""

_PAGE_KEYS = ("page_label", "page")
_SOURCE_KEYS = ("source", "file_path", "file_name")
_Item = Document | Failure


class Sources:
    """The documents of anything that can be ingested, one after the other.

    complete_roots: names of the folders that were walked to their end; seen_ids: ids of all that
    was seen, failed items among them. Both are complete once `documents` is exhausted.
    """

    def __init__(self, sources: Any, options: ReadOptions | None = None) -> None:
        self._sources = sources
        self._options = options or ReadOptions()
        self._complete: list[str] = []
        self.seen_ids: set[str] = set()

    @property
    def complete_roots(self) -> tuple[str, ...]:
        """Names of the folders of which every file was seen."""
        return tuple(self._complete)

    def documents(self) -> Iterator[Document | Failure]:
        """The documents in order; what cannot be read is a Failure in its place."""
        with ParserProcess() as parser:
            for item in _join_pages(self._items(self._sources, parser)):
                name = item.name if isinstance(item, Failure) else item.id or item.source
                if name is not None:
                    self.seen_ids.add(name)
                yield item if isinstance(item, Failure) else _repaired(item)

    def _items(self, source: Any, parser: ParserProcess) -> Iterator[Any]:
        if isinstance(source, str | os.PathLike):
            yield from self._path(Path(source), parser)
        elif isinstance(source, Document | Failure):
            yield source
        elif (found := _from_framework(source)) is not None:
            yield found
        elif callable(getattr(source, "lazy_load", None)):
            yield from self._all(source.lazy_load(), parser)
        elif isinstance(source, Iterable) and not isinstance(source, bytes | Mapping):
            yield from self._all(source, parser)
        else:
            kind = type(source).__name__
            message = f"a {kind} is no path, document, loader or iterable of these"
            yield Failure(kind, "unsupported", message)

    def _all(self, sources: Iterable[Any], parser: ParserProcess) -> Iterator[Any]:
        try:
            for source in sources:
                yield from self._items(source, parser)
        except Exception as error:  # the user's own generator: what it gave before is kept
            message = f"the source ended with {type(error).__name__}: {error}"
            yield Failure(type(sources).__name__, "source_error", message)

    def _path(self, path: Path, parser: ParserProcess) -> Iterator[_Item]:
        path = path.expanduser()
        if path.is_dir():
            yield from self._folder(path.resolve(), parser)
        elif path.exists():
            resolved = path.resolve()
            file = SourceFile.below(resolved, resolved.parent)
            yield from read_source(file, self._options, parser)
        else:
            yield Failure(str(path), "missing", "there is no such file or folder")

    def _folder(self, root: Path, parser: ParserProcess) -> Iterator[_Item]:
        errors: list[OSError] = []
        for path in _walk(root, root, self._options, errors, {root}):
            yield from read_source(SourceFile.below(path, root), self._options, parser)
        for error in errors:
            name = str(error.filename or root)
            yield Failure(name, "unreadable", f"the folder cannot be listed: {error.strerror}")
        if not errors:
            self._complete.append(root_name(root))


def _walk(
    folder: Path, root: Path, options: ReadOptions, errors: list[OSError], seen: set[Path]
) -> Iterator[Path]:
    """Files below a folder, sorted; hidden ones and links are left out, see ReadOptions."""
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        errors.append(error)
        return
    for entry in entries:
        path = Path(entry.path)
        relative = path.relative_to(root).as_posix()
        if entry.name.startswith(".") or _matches(relative, entry.name, options.exclude):
            continue
        if entry.is_symlink():
            target = path.resolve()
            inside = target.is_relative_to(root) and target.exists()
            if not options.follow_symlinks or not inside or target in seen:
                continue
        if entry.is_dir():
            seen.add(path.resolve())
            yield from _walk(path, root, options, errors, seen)
        elif not options.include or _matches(relative, entry.name, options.include):
            yield path


def _matches(relative: str, name: str, globs: tuple[str, ...]) -> bool:
    return any(fnmatch.fnmatch(relative, g) or fnmatch.fnmatch(name, g) for g in globs)


def _from_framework(item: Any) -> Document | None:
    """A LangChain or LlamaIndex document as ours; None for anything else."""
    metadata = getattr(item, "metadata", None)
    if not isinstance(metadata, Mapping):
        return None
    if isinstance(getattr(item, "page_content", None), str):
        text, given = item.page_content, getattr(item, "id", None)
    elif callable(getattr(item, "get_content", None)) and hasattr(item, "id_"):
        text, given = item.get_content(), _chosen_id(item, metadata)
    else:
        return None
    source = next((str(metadata[key]) for key in _SOURCE_KEYS if metadata.get(key)), None)
    doc_id = given or source or f"text-{_digest(text)}"
    title = metadata.get("title")
    return Document(
        text=text,
        id=str(doc_id),
        metadata=dict(metadata),
        title=str(title) if title else None,
        source=source,
    )


def _chosen_id(item: Any, metadata: Mapping[str, Any]) -> str | None:
    """A LlamaIndex id, unless it was drawn at random: then the file's path is the better name."""
    given = str(item.id_)
    try:
        random = uuid.UUID(given).version == 4
    except ValueError:
        random = False
    return None if random else given


def _page_of(item: Any) -> str | None:
    """The page a document is, if it is one page of a file."""
    if not isinstance(item, Document) or item.source is None or item.id != item.source:
        return None
    found = (item.metadata.get(key) for key in _PAGE_KEYS)
    return next((str(page) for page in found if page is not None), None)


def _join_pages(items: Iterable[Any]) -> Iterator[_Item]:
    """Consecutive pages of one source become one document with page marks."""
    pages: list[Document] = []
    for item in items:
        is_next = bool(pages) and isinstance(item, Document) and item.source == pages[0].source
        if _page_of(item) is not None and (not pages or is_next):
            pages.append(item)
            continue
        if pages:
            yield _joined(pages)
            pages = []
        if _page_of(item) is not None:
            pages.append(item)
        else:
            yield item
    if pages:
        yield _joined(pages)


def _joined(pages: list[Document]) -> Document:
    texts: list[str] = []
    marks: list[Mark] = []
    position = 0
    for page in pages:
        assert isinstance(page.text, str)
        marks.append(Mark(position, "page", _page_of(page) or ""))
        texts.append(page.text)
        position += len(page.text) + 2
    first = pages[0].metadata
    common = {
        key: value
        for key, value in first.items()
        if all(key in page.metadata and page.metadata[key] == value for page in pages)
    }
    kept = {key: value for key, value in common.items() if key not in _PAGE_KEYS}
    return replace(pages[0], text="\n\n".join(texts), metadata=kept, marks=tuple(marks))


def _repaired(document: Document) -> Document:
    """Surrogates and NUL mended and counted; files are mended where they are read."""
    metadata, notes = repair_metadata(document.metadata)
    if isinstance(document.text, str):
        text = repair(document.text)
        notes.update(text.notes)
        if text.text is not document.text:
            marks = repair_marks(document.text, document.marks)
            document = replace(document, text=text.text, marks=marks)
    if not notes:
        return document
    notes.update(document.notes)
    return replace(document, metadata=metadata, notes=dict(notes))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
