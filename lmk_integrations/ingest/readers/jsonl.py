"""JSON lines: each line a document, read one at a time however large the file."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import BinaryIO

from lmk_integrations.errors import DocumentError
from lmk_integrations.ingest.readers.entries import entry_document, parse_json
from lmk_integrations.ingest.readers.files import Signature, SourceFile, changed
from lmk_integrations.ingest.readers.options import ReadOptions
from lmk_integrations.records import Document, Failure
from lmk_integrations.text.decode import REMEDY, Encoding, decode_chunks, encoding_of_head

MAX_LINE_BYTES = 64 << 20
_HEAD = 1 << 16


def read_jsonl(file: SourceFile, options: ReadOptions) -> Iterator[Document | Failure]:
    """The documents of a file. A bad line is a Failure; the rest goes on."""
    signature = Signature.of(file.path)
    found_any = False
    with file.path.open("rb") as opened:
        encoding = _encoding(opened, options)
        for number, line in _lines(opened, encoding):
            found_any = True
            place = f"{file.doc_id}#{number}"
            try:
                if isinstance(line, DocumentError):
                    raise line
                text = line if isinstance(line, str) else _decoded(line, encoding)
                yield entry_document(file, parse_json(text), place)
            except DocumentError as error:
                yield Failure(place, error.reason, str(error))
    if Signature.of(file.path) != signature:
        raise changed()
    if not found_any:
        yield Failure(file.doc_id, "empty", "it holds no lines", skipped=True)


def _encoding(opened: BinaryIO, options: ReadOptions) -> Encoding:
    """JSON is UTF-8, unless the file's first bytes, or the user, say otherwise."""
    if options.encoding is not None:
        return Encoding.named(options.encoding)
    head = opened.read(_HEAD)
    opened.seek(0)
    return encoding_of_head(head) or Encoding.named("utf-8")


def _decoded(line: bytes, encoding: Encoding) -> str:
    return "".join(decode_chunks((line,), encoding))


def _lines(
    opened: BinaryIO, encoding: Encoding
) -> Iterator[tuple[int, bytes | str | DocumentError]]:
    """The lines that are not blank, counted from 1; one that is too long as an error."""
    wide = encoding.name.startswith(("utf-16", "utf-32"))
    stream: BinaryIO | io.TextIOWrapper = opened
    if wide:
        stream = io.TextIOWrapper(opened, encoding.name, encoding.errors, newline="\n")
    number = 0
    try:
        while line := stream.readline(MAX_LINE_BYTES):
            number += 1
            end = "\n" if isinstance(line, str) else b"\n"
            if len(line) == MAX_LINE_BYTES and not line.endswith(end):  # type: ignore[arg-type]
                while line and not line.endswith(end):  # type: ignore[arg-type]
                    line = stream.readline(MAX_LINE_BYTES)
                yield number, _too_long()
            elif line.strip():
                yield number, line.lstrip("\ufeff") if isinstance(line, str) else line
    except UnicodeDecodeError as error:
        message = f"it is not valid {encoding.name} from here on ({error.reason}); {REMEDY}"
        yield number + 1, DocumentError(message, "encoding")


def _too_long() -> DocumentError:
    return DocumentError(f"the line is longer than {MAX_LINE_BYTES >> 20} MiB", "too_large")
