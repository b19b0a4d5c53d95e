"""JSON files: one object, or a list of objects, each a document."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from lmk_integrations.ingest.readers.entries import entry_document, parse_json
from lmk_integrations.ingest.readers.files import SourceFile, read_unchanged
from lmk_integrations.ingest.readers.options import ReadOptions
from lmk_integrations.records import Document, Failure
from lmk_integrations.text.decode import decode

MAX_BYTES = 128 << 20  # parsed, it takes several times that in memory


def read_json(file: SourceFile, options: ReadOptions) -> Iterator[Document | Failure]:
    """The documents of a file. Raises DocumentError where it is no JSON."""
    if (size := file.path.stat().st_size) > MAX_BYTES:
        message = (
            f"{size >> 20:,} MiB of JSON cannot be read at once (at most {MAX_BYTES >> 20}); "
            "write one object a line, as .jsonl"
        )
        # Not skipped, as what is over the user's own max_bytes is: here something is lost.
        yield Failure(file.doc_id, "too_large", message)
        return
    data = read_unchanged(file.path, Path.read_bytes)
    text, _ = decode(data, encoding=options.encoding)
    if not text.strip():
        yield Failure(file.doc_id, "empty", "it holds no text", skipped=True)
        return
    value = parse_json(text)
    if not isinstance(value, list):
        yield entry_document(file, value, file.doc_id)
        return
    if not value:
        yield Failure(file.doc_id, "empty", "it is an empty list", skipped=True)
    for number, entry in enumerate(value, 1):
        yield entry_document(file, entry, f"{file.doc_id}#{number}")
