"""What can be ingested: files and folders, documents of either framework, iterables of these."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from lmk_integrations.ingest.frameworks import Page, as_page, join_pages
from lmk_integrations.ingest.mend import mended
from lmk_integrations.ingest.readers import ParserProcess, ReadOptions, SourceFile, read_source
from lmk_integrations.ingest.readers.files import root_key, root_name, spelled
from lmk_integrations.ingest.walk import Walk
from lmk_integrations.records import Document, Failure

__all__ = ["READER_VERSION", "ReadOptions", "Sources"]

logger = logging.getLogger(__name__)

READER_VERSION = "1"
"""Raised when reading gives another text for the same bytes: then all files count as changed."""

_MAX_NESTING = 16
_GONE = "it was to be read again, and is not there any more, or not below the paths that were given"
_WITH_ENTRIES = (".jsonl", ".ndjson", ".json")  # which have ids of their own
_Found = Document | Failure | Page


class Sources:
    """The documents of anything that can be ingested, one after the other.

    sources: a path of a file or folder, a `Document`, a LangChain or LlamaIndex document, a
        LangChain loader, or any iterable or generator of these; a text in it is a path.

    complete_roots: names of the folders that were walked to their end, with which the ids of their
    documents begin. seen_ids: ids of all that is there, failed items and the files that were left
    out among them. Both are complete once `documents` is exhausted; it can be called again.
    """

    def __init__(self, sources: Any, options: ReadOptions | None = None) -> None:
        self._sources = sources
        self._options = options or ReadOptions()
        only = self._options.only
        # An entry is told from its file by what stands behind the last "#".
        self._only = None if only is None else {*only, *(name.rpartition("#")[0] for name in only)}
        self._roots: dict[str, bool] = {}  # whether the walk of all folders of a name was complete
        self._folders: set[tuple[str, str]] = set()
        self._files: dict[str, Path] = {}  # by document id
        self._n_origins = 0
        self.seen_ids: set[str] = set()

    @property
    def complete_roots(self) -> tuple[str, ...]:
        """Names of the folders of which every file was seen."""
        return tuple(name for name, complete in self._roots.items() if complete)

    @property
    def complete_folders(self) -> tuple[tuple[str, str], ...]:
        """The same folders, each with what tells it from others of its name (`root_key`)."""
        return tuple((n, key) for n, key in sorted(self._folders) if self._roots[n])

    def documents(self) -> Iterator[Document | Failure]:
        """The documents in order; what cannot be read is a Failure in its place."""
        self._roots.clear()
        self._folders.clear()
        self._files.clear()
        self.seen_ids.clear()
        given: set[str] = set()
        with ParserProcess() as parser:
            for item in join_pages(self._guarded(self._sources, parser, 0)):
                name = _name(item)
                if not isinstance(name, str):
                    yield item  # a document that has no name: the store refuses it
                    continue
                self.seen_ids.add(name)
                if isinstance(item, Document) and name in given:
                    item = _duplicate(name)
                elif isinstance(item, Document):
                    given.add(name)
                yield item
        yield from self._not_met()

    def _not_met(self) -> Iterator[Failure]:
        """Of those that were to be read, what is not there any more."""
        folders = {str(parent) for name in self.seen_ids for parent in PurePosixPath(name).parents}
        for name in sorted(set(self._options.only or ()) - self.seen_ids - folders):
            yield Failure(name, "missing", _GONE)

    def _guarded(self, source: Any, parser: ParserProcess, depth: int) -> Iterator[_Found]:
        try:
            yield from self._items(source, parser, depth)
        except Exception as error:  # one odd item never stops the rest
            message = f"it cannot be used: {type(error).__name__}: {error}"
            yield Failure(type(source).__name__, "invalid", message)

    def _items(self, source: Any, parser: ParserProcess, depth: int) -> Iterator[_Found]:
        if isinstance(source, str | os.PathLike):
            yield from self._path(Path(source), parser)
        elif isinstance(source, Document):
            yield mended(source)
        elif isinstance(source, Failure):
            yield source
        elif (page := as_page(source, self._n_origins)) is not None:
            yield page
        elif callable(load := getattr(source, "lazy_load", None)):
            yield from self._all(load, type(source).__name__, parser, depth)
        elif isinstance(source, Iterable) and not isinstance(source, bytes | bytearray | Mapping):
            yield from self._all(lambda: source, type(source).__name__, parser, depth)
        else:
            kind = type(source).__name__
            yield Failure(
                kind,
                "unsupported",
                f"a {kind} cannot be ingested; give paths, documents of lmk_integrations, "
                "LangChain or LlamaIndex, a LangChain loader, or an iterable of these",
            )

    def _all(self, load: Any, kind: str, parser: ParserProcess, depth: int) -> Iterator[_Found]:
        """The items of an iterable; an exception out of it is a Failure, and its end."""
        if depth > _MAX_NESTING:
            yield Failure(kind, "unsupported", "iterables are nested too deeply")
            return
        self._n_origins += 1
        try:
            items = iter(load())
        except Exception as error:
            yield _source_error(kind, error)
            return
        while True:
            try:
                item = next(items)
            except StopIteration:
                return
            except Exception as error:  # what it gave before is kept
                yield _source_error(kind, error)
                return
            yield from self._guarded(item, parser, depth + 1)

    def _path(self, path: Path, parser: ParserProcess) -> Iterator[Document | Failure]:
        try:
            path = path.expanduser()
            is_folder = path.is_dir()
            if not is_folder and not path.exists():
                raise FileNotFoundError
            resolved = path.resolve()
        except FileNotFoundError:
            yield Failure(spelled(str(path)), "missing", "there is no such file or folder")
        except (OSError, ValueError, RuntimeError) as error:
            # A loop of links, a NUL in the name, a home that is not known.
            yield Failure(ascii(str(path)), "unreadable", f"it is no usable path: {error}")
        else:
            if is_folder:
                yield from self._folder(resolved, parser)
            else:
                # The name it was given by, should it be a link.
                folder = path.parent.resolve()
                yield from self._read(SourceFile.below(folder / path.name, folder), parser)

    def _folder(self, root: Path, parser: ParserProcess) -> Iterator[Document | Failure]:
        walk = Walk(root, self._options)
        name = root_name(root)
        unfinished = not self._roots.get(name, True)
        self._roots[name] = False
        self._folders.add((name, root_key(root)))
        for entry in walk:
            if isinstance(entry, SourceFile):
                yield from self._read(entry, parser)
            elif self._is_wanted(entry.name):
                yield entry
        self.seen_ids |= walk.left_out
        self._roots[name] = walk.complete and not unfinished

    def _is_wanted(self, name: str) -> bool:
        """Whether it is among those to read, or in a folder that is."""
        if self._only is None or name in self._only:
            return True
        return any(str(parent) in self._only for parent in PurePosixPath(name).parents)

    def _read(self, file: SourceFile, parser: ParserProcess) -> Iterator[Document | Failure]:
        is_wanted = self._is_wanted(file.doc_id)
        if not is_wanted and file.path.suffix.lower() not in _WITH_ENTRIES:
            self.seen_ids.add(file.doc_id)
            return
        before = self._files.setdefault(file.doc_id, file.path)
        if before is not file.path and _same_file(before, file.path):
            message = "it was given twice, and read before"
            yield Failure(file.doc_id, "duplicate_id", message, skipped=True)
            return
        logger.debug("reading %r", file.doc_id)
        for item in read_source(file, self._options, parser):
            if is_wanted or _name(item) in (self._only or ()):
                yield item


def _name(item: Document | Failure) -> str | None:
    return item.name if isinstance(item, Failure) else item.id


def _duplicate(name: str) -> Failure:
    message = "another document of this id came before in this run; ids must differ"
    return Failure(name, "duplicate_id", message)


def _same_file(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return one == other


def _source_error(kind: str, error: Exception) -> Failure:
    return Failure(kind, "source_error", f"the source ended with {type(error).__name__}: {error}")
