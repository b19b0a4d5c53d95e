"""Files to documents: one module a format; `FILE_TYPES` says what a suffix means."""

from __future__ import annotations

import shlex
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from lmk_integrations.errors import DocumentError, MissingExtraError
from lmk_integrations.file_types import FILE_TYPES, Kind
from lmk_integrations.ingest.readers.files import SourceFile, read_unchanged, spelled
from lmk_integrations.ingest.readers.html import parse_html
from lmk_integrations.ingest.readers.json_file import read_json
from lmk_integrations.ingest.readers.jsonl import read_jsonl
from lmk_integrations.ingest.readers.options import ReadOptions
from lmk_integrations.ingest.readers.parsed import Parsed
from lmk_integrations.ingest.readers.plain import read_text
from lmk_integrations.ingest.readers.process import ParserProcess
from lmk_integrations.ingest.readers.shape import finish
from lmk_integrations.records import Document, Failure

__all__ = ["ParserProcess", "ReadOptions", "SourceFile", "read_file", "read_source"]

Items = Iterator[Document | Failure]
Reader = Callable[[SourceFile, ReadOptions, ParserProcess], Items]

# Nothing is wrong with these: there is no text in them to store.
_SKIPPED = frozenset({"empty", "unsupported", "binary", "no_text"})


def read_file(
    path: Path, *, root: Path, options: ReadOptions, parser: ParserProcess | None = None
) -> Items:
    """The documents of one file, named by its path below a root; never raises for the file.

    parser: a warm child process to use; None starts one for this file where it is needed.
    """
    file = SourceFile.below(path, root)
    if parser is not None:
        yield from read_source(file, options, parser)
        return
    with ParserProcess() as own:
        yield from read_source(file, options, own)


def read_source(file: SourceFile, options: ReadOptions, parser: ParserProcess) -> Items:
    """The documents of one file; what goes wrong is a Failure in their place."""
    try:
        found = file.path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise DocumentError("it is not a regular file", "unsupported")
        if options.max_bytes is not None and found.st_size > options.max_bytes:
            message = f"its {found.st_size:,} bytes are over max_bytes={options.max_bytes:,}"
            yield Failure(file.doc_id, "too_large", message, skipped=True)
            return
        yield from _reader(file)(file, options, parser)
    except DocumentError as error:
        skipped = error.reason in _SKIPPED
        yield Failure(file.doc_id, error.reason, str(error), skipped=skipped)
    except FileNotFoundError:
        yield Failure(file.doc_id, "missing", "it is no longer there")
    except MissingExtraError as error:
        yield Failure(file.doc_id, "missing_extra", str(error))
    except OSError as error:
        message = f"it cannot be read: {error.strerror or error}"
        yield Failure(file.doc_id, "unreadable", message)
    except Exception as error:  # one bad file never stops the rest
        message = f"it cannot be read: {type(error).__name__}: {error}"
        yield Failure(file.doc_id, "unreadable", message)


def _reader(file: SourceFile) -> Reader:
    suffix = file.path.suffix.lower()
    if suffix not in FILE_TYPES:
        named = f"files of type {suffix}" if suffix else "files without a suffix"
        glob = spelled(f"*{file.path.suffix}" if suffix else file.path.name)
        message = f"{named} are not read; leave them out with --exclude {shlex.quote(glob)}"
        raise DocumentError(message, "unsupported")
    return _READERS[FILE_TYPES[suffix]]


def _plain(file: SourceFile, options: ReadOptions, parser: ParserProcess) -> Items:
    return read_text(file, options, "plain")


def _markdown(file: SourceFile, options: ReadOptions, parser: ParserProcess) -> Items:
    return read_text(file, options, "markdown")


def _rst(file: SourceFile, options: ReadOptions, parser: ParserProcess) -> Items:
    return read_text(file, options, "rst")


def _jsonl(file: SourceFile, options: ReadOptions, parser: ParserProcess) -> Items:
    return read_jsonl(file, options)


def _json(file: SourceFile, options: ReadOptions, parser: ParserProcess) -> Items:
    return read_json(file, options)


def _html(file: SourceFile, options: ReadOptions, parser: ParserProcess) -> Items:
    if file.path.stat().st_size > options.large_file_bytes:
        return _in_child("html", file, options, parser)
    data = read_unchanged(file.path, Path.read_bytes)
    return _documents(file, parse_html(data, options.encoding))


def _pdf(file: SourceFile, options: ReadOptions, parser: ParserProcess) -> Items:
    return _in_child("pdf", file, options, parser)


def _office(file: SourceFile, options: ReadOptions, parser: ParserProcess) -> Items:
    return _in_child("office", file, options, parser)


def _in_child(kind: str, file: SourceFile, options: ReadOptions, parser: ParserProcess) -> Items:
    if file.path.stat().st_size == 0:
        raise DocumentError("it holds nothing", "empty")
    parsed = read_unchanged(file.path, lambda path: parser.parse(kind, path, options))
    return _documents(file, parsed)


def _documents(file: SourceFile, parsed: Parsed) -> Items:
    yield finish(
        file,
        parsed.text,
        title=parsed.title,
        marks=parsed.marks,
        markup=parsed.markup,
        metadata=parsed.metadata,
        notes=parsed.notes,
    )
    for where, what in parsed.problems:
        yield Failure(f"{file.doc_id}#{where}", "page_unreadable", f"page {where}: {what}")


_READERS: dict[Kind, Reader] = {
    "plain": _plain,
    "markdown": _markdown,
    "rst": _rst,
    "html": _html,
    "pdf": _pdf,
    "jsonl": _jsonl,
    "json": _json,
    "office": _office,
}
