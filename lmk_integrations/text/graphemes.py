"""Where a text can be cut without breaking what a reader sees as one character.

The rules of UAX #29 by character classes: marks, joiners, modifiers and tags stay with what is
before them, what follows a zero-width joiner stays with it, flags are pairs, CR LF is one.
"""

from __future__ import annotations

import unicodedata
from functools import cache

import numpy as np
from numpy.typing import NDArray

MAX_CLUSTER_CHARS = 64
"""A cluster is cut past this many characters: a hostile one could be as long as the text."""

_PLANES = 0x20000  # beyond lie ideographs, private use and, from 0xE0020 on, tags
_JOINER = 0x200D
_FLAGS = (0x1F1E6, 0x1F1FF)
_TAGS = (0xE0020, 0xE01EF)
# What belongs to the character before it though it is no mark: joiners, the modifiers of skin
# colour, Thai and Lao AM, half-width voiced marks, vowels and finals of decomposed Hangul.
_JOINED = (
    *((0x200C, 0x200D), (0x1F3FB, 0x1F3FF), (0x0E33, 0x0E33), (0x0EB3, 0x0EB3)),
    *((0xFF9E, 0xFF9F), (0x1160, 0x11FF)),
)


def cluster_starts(text: str) -> NDArray[np.bool_]:
    """(len(text) + 1,): whether the text can be cut before each character, and at its end."""
    starts = np.ones(len(text) + 1, np.bool_)
    if text.isascii() and "\r" not in text:
        return starts
    points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    extends, alone = (table[np.minimum(points, _PLANES)] for table in _tables())
    tags = (points >= _TAGS[0]) & (points <= _TAGS[1])
    before, after = points[:-1], points[1:]
    # Nothing is joined to a control character or a line end, nor a space to a joiner before it.
    joined = (extends | tags)[1:] & ~alone[:-1]
    joined |= (before == _JOINER) & ~alone[1:] & (after != ord(" "))
    joined |= (before == ord("\r")) & (after == ord("\n"))
    flags = (points >= _FLAGS[0]) & (points <= _FLAGS[1])
    if flags.any():
        joined |= flags[1:] & (_run_lengths(flags)[1:] % 2 == 0)
    starts[1:-1] = ~joined
    # Every so many characters a long cluster is cut after all.
    places = np.arange(len(starts))
    starts |= (places - np.maximum.accumulate(np.where(starts, places, 0))) % MAX_CLUSTER_CHARS == 0
    return starts


@cache
def _tables() -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """By code point: whether it belongs to what is before it; whether it stands alone."""
    categories = [unicodedata.category(chr(point)) for point in range(_PLANES)] + ["Lo"]
    extends = np.array([category[0] == "M" for category in categories])
    for first, last in _JOINED:
        extends[first : last + 1] = True
    return extends, np.array([category in ("Cc", "Zl", "Zp") for category in categories])


def _run_lengths(mask: NDArray[np.bool_]) -> NDArray[np.int64]:
    """At each place the length of the run of true values that ends there."""
    places = np.arange(1, len(mask) + 1)
    return np.asarray(places - np.maximum.accumulate(np.where(mask, 0, places)), np.int64)
