"""Text files: plain, Markdown, reStructuredText."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from lmk_integrations.ingest.readers.files import SourceFile, read_unchanged
from lmk_integrations.ingest.readers.large import FileText
from lmk_integrations.ingest.readers.options import ReadOptions
from lmk_integrations.ingest.readers.shape import decoded_facts, finish
from lmk_integrations.records import Document, Failure, Markup
from lmk_integrations.text.decode import decode
from lmk_integrations.text.structure import find_headings

_TITLE_CHARS = 1 << 16


def read_text(
    file: SourceFile, options: ReadOptions, markup: Markup
) -> Iterator[Document | Failure]:
    """One document; a large one as a `TextSource`."""
    if file.path.stat().st_size > options.large_file_bytes:
        source = FileText(file.path, encoding=options.encoding)
        facts = decoded_facts(source.encoding)
        yield finish(
            file,
            source,
            title=_title(source.head, markup),
            markup=markup,
            metadata=facts.metadata,
            notes={**facts.notes, **source.notes},
            blank=source.blank,
        )
        return
    data = read_unchanged(file.path, Path.read_bytes)
    text, encoding = decode(data, encoding=options.encoding)
    facts = decoded_facts(encoding)
    title = _title(text[:_TITLE_CHARS], markup)
    yield finish(file, text, title=title, markup=markup, metadata=facts.metadata, notes=facts.notes)


def _title(head: str, markup: Markup) -> str | None:
    headings = find_headings(head, markup)
    return headings[0].label if headings else None
