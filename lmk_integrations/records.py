"""The plain records that travel between the parts: what is read, and where it lies in a text.

All offsets are half-open ranges of Unicode code points, so ``text[start:end]`` is the piece.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, Protocol, runtime_checkable

Markup = Literal["plain", "markdown", "rst"]
"""How headings are recognised in a text: not at all, ``# Title`` lines, underlined titles."""


@runtime_checkable
class TextSource(Protocol):
    """A text too long to hold: opened anew for every pass, read in pieces.

    ``pieces()`` yields the text in order; the pieces concatenated are the text. Every call starts
    from the beginning and yields the same text (raise DocumentError, reason "changed", if not).
    """

    def pieces(self) -> Iterator[str]:
        """The text from its beginning, piece by piece."""
        ...


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in a text that a reader knows of: a heading's first character, or a page's.

    label: the heading's text, or the page's label ("3", "iv").
    """

    start: int
    kind: Literal["heading", "page"]
    label: str


@dataclass(frozen=True, slots=True)
class Document:
    """One text to store.

    text: the whole text, or a TextSource for one that should not be held in memory.
    id: names the document in the store; one id, one document. None: `source` is used, and
        without a source the document is refused.
    metadata: what the user attached; values must be JSON.
    title: shown with results.
    source: where the text came from: a path relative to its root, a URL.
    marks: headings and pages known from the file's own structure, ascending by start.
    markup: how further headings are found in the text itself.
    root: a digest of the folder it was found in; pruning a folder deletes only what came from it.
    notes: what reading did to the text, by name: {"nul_removed": 2, "encoding_guessed": 1}.
    """

    text: str | TextSource
    id: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    title: str | None = None
    source: str | None = None
    marks: tuple[Mark, ...] = ()
    markup: Markup = "plain"
    notes: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    root: str | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """One item that could not be read or stored. The rest went on.

    name: the file or document; reason: a short word ("encrypted", "empty", ...); message: what
    happened and what to do; skipped: True where nothing was wrong but there is nothing to store.
    """

    name: str
    reason: str
    message: str
    skipped: bool = False


def pieces_of(text: str | TextSource) -> Iterable[str]:
    """The text as an iterable of pieces, whichever form it has."""
    return (text,) if isinstance(text, str) else text.pieces()
