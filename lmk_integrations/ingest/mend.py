"""Documents that users hand over: mended as files are where they are read, and counted."""

from __future__ import annotations

import datetime
import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from lmk_integrations.errors import DocumentError
from lmk_integrations.records import Document, Failure, TextSource
from lmk_integrations.text.repair import (
    repair,
    repair_marks,
    repair_metadata,
    repair_pieces,
)
from lmk_integrations.text.unbroken import unbroken_notes

_MAX_DEPTH = 32


def mended(document: Document) -> Document | Failure:
    """The document with its text, title, metadata and marks repaired; a Failure where it is blank.

    Metadata that is no JSON is counted here, and turned into JSON where it is stored. The repairs
    of a `TextSource` are counted as it is read.
    """
    notes: Counter[str] = Counter(dict(document.notes))
    text: str | TextSource = document.text
    marks = document.marks
    doc_id = document.source if document.id is None else document.id
    if isinstance(text, str):
        repaired = repair(text)
        notes.update(repaired.notes)
        if repaired.text is not text:
            marks = repair_marks(text, marks)
        text = repaired.text
        notes.update(unbroken_notes((text,)))
        if not text.strip():
            name = str(doc_id or document.title or "?")
            return Failure(name, "empty", "it holds no text", skipped=True)
    elif isinstance(text, TextSource):
        text = _RepairedSource(text, notes)
    metadata = document.metadata
    if isinstance(metadata, Mapping):
        metadata, done = repair_metadata(metadata)
        notes.update(done)
        notes.update(_not_json(metadata, 0))
    title = None if document.title is None else repair(str(document.title)).text
    return replace(
        document, text=text, id=doc_id, metadata=metadata, title=title, marks=marks, notes=notes
    )


class _RepairedSource:
    """A user's source, repaired in every pass; the first whole pass is counted."""

    def __init__(self, source: TextSource, notes: Counter[str]) -> None:
        self._source = source
        self._notes: Counter[str] | None = notes

    def pieces(self) -> Iterator[str]:
        counts: Counter[str] = Counter()
        yield from repair_pieces(_checked(self._source.pieces()), counts)
        if self._notes is not None:
            self._notes.update(counts)
            self._notes = None


def _checked(pieces: Iterable[object]) -> Iterator[str]:
    for piece in pieces:
        if not isinstance(piece, str):
            raise DocumentError(f"a piece of it is a {type(piece).__name__}", "not_text")
        yield piece


def _not_json(value: Any, depth: int) -> Counter[str]:
    """How many values in metadata become something else as JSON."""
    if depth > _MAX_DEPTH:
        return Counter()
    if isinstance(value, Mapping):
        return sum((_not_json(item, depth + 1) for item in value.values()), Counter())
    if isinstance(value, list | tuple):
        return sum((_not_json(item, depth + 1) for item in value), Counter())
    if isinstance(value, float) and not math.isfinite(value):
        return Counter(metadata_not_finite=1)
    if isinstance(value, os.PathLike | datetime.date | datetime.time | np.generic | np.ndarray):
        return Counter(metadata_converted=1)
    return Counter()
