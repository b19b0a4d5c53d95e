"""Runs of characters that nobody wrote to be read: base64, minified code, dumps."""

from __future__ import annotations

import re
from collections.abc import Iterable

# ASCII only: Chinese, Japanese and Thai are written without spaces. Tried where a run begins, or
# runs of nearly that length would take quadratic time.
_RUN = re.compile("(?<![!-~])[!-~]{1000,}")

NOTE = "unbroken_chars"
"""The name of the count among a document's notes."""

WARNING_CHARS = 10_000
"""A document with more than this in such runs is worth a word."""


def count_unbroken(text: str) -> int:
    """Characters in runs of at least 1,000 ASCII characters without white space."""
    return sum(match.end() - match.start() for match in _RUN.finditer(text))


def unbroken_notes(pieces: Iterable[str]) -> dict[str, int]:
    """The count as notes, empty where there is nothing to note."""
    count = sum(map(count_unbroken, pieces))
    return {NOTE: count} if count else {}
