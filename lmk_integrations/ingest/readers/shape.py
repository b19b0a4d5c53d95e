"""From what was read to a Document: the repairs, the title, the empty ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from lmk_integrations.ingest.readers.files import SourceFile
from lmk_integrations.records import Document, Failure, Mark, Markup, TextSource
from lmk_integrations.text.decode import Encoding
from lmk_integrations.text.repair import repair, repair_marks, repair_metadata
from lmk_integrations.text.unbroken import unbroken_notes

_MAX_TITLE_CHARS = 300


@dataclass(frozen=True, slots=True)
class Facts:
    """What is kept of how a file was read."""

    metadata: Mapping[str, Any] = field(default_factory=dict)
    notes: Mapping[str, int] = field(default_factory=dict)


def decoded_facts(encoding: Encoding) -> Facts:
    """A guessed encoding is recorded with its confidence."""
    if not encoding.guessed:
        return Facts()
    return Facts(
        {"encoding": encoding.name, "encoding_confidence": encoding.confidence},
        {"encoding_guessed": 1},
    )


def finish(
    file: SourceFile,
    text: str | TextSource,
    *,
    doc_id: str | None = None,
    source: str | None = None,
    title: str | None = None,
    marks: Sequence[Mark] = (),
    markup: Markup = "plain",
    metadata: Mapping[str, Any] | None = None,
    notes: Mapping[str, int] | None = None,
    blank: bool = False,
) -> Document | Failure:
    """The document of a file, or of an entry in one; a Failure, skipped, where it is blank.

    doc_id, source: of an entry; None takes the file's.
    """
    counts = Counter(dict(notes or {}))
    if isinstance(text, str):
        repaired = repair(text)
        if repaired.text is not text:
            marks = repair_marks(text, marks)
        text = repaired.text
        counts.update(repaired.notes)
        counts.update(unbroken_notes((text,)))
        blank = not text.strip()
    name = doc_id or file.doc_id
    if blank:
        return Failure(name, "empty", "it holds no text", skipped=True)
    cleaned, done = repair_metadata(metadata or {})
    counts.update(done)
    title = " ".join(repair(title or "").text.split())[:_MAX_TITLE_CHARS]
    return Document(
        text,
        id=name,
        metadata=cleaned,
        title=title or PurePosixPath(file.source).stem,
        source=source or file.source,
        marks=tuple(marks),
        markup=markup,
        notes=dict(counts),
        root=file.root,
    )
