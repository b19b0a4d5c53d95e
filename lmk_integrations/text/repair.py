"""What is mended in a text before anything looks at it, and counted: surrogates and NUL.

Nothing else alters text. All later offsets refer to the repaired text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lmk_integrations.records import Mark

_SURROGATE = re.compile("[\ud800-\udfff]")
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_MAX_DEPTH = 64  # of metadata: what is deeper is left to those who refuse it


@dataclass(frozen=True, slots=True)
class Repaired:
    """A text after repair. The counts are of characters removed, pairs of characters made."""

    text: str
    surrogates_paired: int = 0
    surrogates_dropped: int = 0
    nul_removed: int = 0

    @property
    def notes(self) -> dict[str, int]:
        """The counts that are not zero, by name."""
        names = ("surrogates_paired", "surrogates_dropped", "nul_removed")
        return {name: getattr(self, name) for name in names if getattr(self, name)}


def repair(text: str) -> Repaired:
    """Pair up surrogates that belong together, drop lone ones, remove NUL.

    A text with nothing to mend comes back as the same object.
    """
    nul = text.count("\0")
    if nul:
        text = text.replace("\0", "")
    if text.isascii() or not _SURROGATE.search(text):
        return Repaired(text, nul_removed=nul)
    paired = len(_PAIR.findall(text))
    lone = len(_SURROGATE.findall(text)) - 2 * paired
    mended = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "ignore")
    return Repaired(mended, paired, lone, nul)


def repair_pieces(pieces: Iterable[str], notes: Counter[str] | None = None) -> Iterator[str]:
    """Repair a text that comes in pieces: together they are the repaired whole, however cut.

    notes: the counts of `Repaired.notes` are added to it.
    """
    held = ""
    for piece in pieces:
        text = held + piece.replace("\0", "")
        if notes is not None and (removed := len(held) + len(piece) - len(text)):
            notes["nul_removed"] += removed
        # The second half of a pair may come with the next piece.
        held = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
        repaired = repair(text[: len(text) - len(held)])
        if notes is not None:
            notes.update(repaired.notes)
        if repaired.text:
            yield repaired.text
    if held and notes is not None:
        notes["surrogates_dropped"] += 1


def repair_marks(text: str, marks: Sequence[Mark]) -> tuple[Mark, ...]:
    """The marks of a text, moved to where they are in the repaired text, labels repaired."""
    moved: list[Mark] = []
    seen = position = 0
    for mark in marks:
        start = min(max(mark.start, seen), len(text))
        position += len(repair(text[seen:start]).text)
        seen = start
        moved.append(replace(mark, start=position, label=repair(mark.label).text))
    return tuple(moved)


def repair_metadata(metadata: Mapping[Any, Any]) -> tuple[dict[Any, Any], Counter[str]]:
    """The same mapping with every text in it repaired, keys too, and what was done."""
    notes: Counter[str] = Counter()
    return _mapping(metadata, notes, 0), notes


def _mapping(values: Mapping[Any, Any], notes: Counter[str], depth: int) -> dict[Any, Any]:
    return {
        _value(key, notes, depth + 1): _value(item, notes, depth + 1)
        for key, item in values.items()
    }


def _value(value: Any, notes: Counter[str], depth: int) -> Any:
    if isinstance(value, str):
        repaired = repair(value)
        notes.update(repaired.notes)
        return repaired.text
    if depth > _MAX_DEPTH:
        return value
    if isinstance(value, Mapping):
        return _mapping(value, notes, depth)
    if type(value) in (list, tuple):
        return type(value)(_value(item, notes, depth + 1) for item in value)
    return value
