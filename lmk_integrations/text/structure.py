"""Where headings, paragraphs, sentences begin in a text. Sentences come from `sentencex`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import sentencex
from numpy.typing import NDArray

from lmk_integrations.records import Mark, Markup

Ints = NDArray[np.int64]

_PARAGRAPH = re.compile(r"\n[^\S\n]*\n\s*")
_ATX = re.compile(r" {0,3}#{1,6}[ \t]+(?P<title>\S.*)")
_FENCE = re.compile(r" {0,3}(?P<fence>```+(?=[^`]*$)|~~~+)(?P<info>.*)")
_ADORNMENT = re.compile(r"([=\-~^\"'`+*#:.])\1{2,}")
_MAX_TITLE_CHARS = 200
_STRETCH_CHARS = 2048


@dataclass(frozen=True, slots=True)
class Structure:
    """Character positions, each ascending, where units of a text begin.

    headings: with their labels in `labels`; paragraphs; sentences (0 is among them).
    """

    headings: Ints
    labels: tuple[str, ...]
    paragraphs: Ints
    sentences: Ints


def find_structure(text: str, markup: Markup = "plain") -> Structure:
    """Find the units of one text (or of one piece of a long one)."""
    marks = find_headings(text, markup)
    paragraphs = [match.end() for match in _PARAGRAPH.finditer(text) if match.end() < len(text)]
    return Structure(
        np.array([mark.start for mark in marks], np.int64),
        tuple(mark.label for mark in marks),
        np.array(paragraphs, np.int64),
        sentence_starts(text),
    )


def sentence_starts(text: str, language: str = "en") -> Ints:
    """Where sentences begin, ascending; white space belongs to the sentence before it.

    The splitter knows about 300 languages; its rules for "en" also cut at the full stops of
    Chinese, Japanese, Arabic and Devanagari, so one default serves mixed collections.
    """
    starts: list[int] = []
    begin = 0
    goes_on = False  # whether the sentence before `begin` was too long for one stretch
    while begin < len(text):
        # A bounded stretch at a time: on hostile input the splitter takes quadratic time, and a
        # quotation hides the sentences in it, were it as long as a chapter.
        stretch = text[begin : begin + _STRETCH_CHARS]
        units = [
            (int(unit["start_index"]), unit["text"])
            for unit in sentencex.get_sentence_boundaries(language, stretch)
            if not unit["is_paragraph_break"] and not unit["text"].isspace()
        ]
        if goes_on and units and units[0][0] == 0:
            del units[0]
        found = [begin + at + len(unit) - len(unit.lstrip()) for at, unit in units]
        if begin + len(stretch) < len(text) and found and found[-1] > begin:
            begin = found.pop()  # it may go on past the stretch: read it again from its start
            goes_on = False
        else:
            begin += len(stretch)
            goes_on = goes_on or bool(found)
        starts += found
    return np.array(starts, np.int64)


def find_headings(text: str, markup: Markup) -> list[Mark]:
    """Headings by the text's own markup, in order. "plain" has none.

    Works line by line: a pattern over the whole text would take quadratic time on hostile input.
    """
    if markup == "plain":
        return []
    lines = list(_lines(text))
    return _markdown_headings(lines) if markup == "markdown" else _rst_headings(lines)


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Each line with the position where it starts, its line end removed."""
    position = 0
    for line in text.split("\n"):
        yield position, line.rstrip()
        position += len(line) + 1


def _markdown_headings(lines: list[tuple[int, str]]) -> list[Mark]:
    found: list[Mark] = []
    fence: str | None = None
    previous = (0, "")
    for position, line in lines:
        if opening := _FENCE.match(line):
            mark = opening["fence"]
            if fence is None:
                fence = mark
            elif mark[0] == fence[0] and len(mark) >= len(fence) and not opening["info"]:
                fence = None
        elif fence is None:
            if atx := _ATX.match(line):
                title = atx["title"].rstrip("#").rstrip() or atx["title"]
                found.append(Mark(position, "heading", title[:_MAX_TITLE_CHARS]))
                line = ""  # a rule below it underlines nothing
            elif line[:1] in "=-" and _ADORNMENT.fullmatch(line) and _is_title(previous[1]):
                found.append(Mark(previous[0], "heading", previous[1].strip()))
        previous = (position, line)
    return found


def _rst_headings(lines: list[tuple[int, str]]) -> list[Mark]:
    """Titles over a line of punctuation at least as long, after a blank line or an overline."""
    found: list[Mark] = []
    for i in range(1, len(lines)):
        under = lines[i][1]
        position, title = lines[i - 1]
        if not under or not _ADORNMENT.fullmatch(under) or not _is_title(title):
            continue
        above = lines[i - 2][1] if i >= 2 else ""
        overlined = above == under
        if len(under) >= len(title.rstrip()) and (overlined or not above.strip()):
            start = lines[i - 2][0] if overlined else position
            found.append(Mark(start, "heading", title.strip()))
    return found


def _is_title(line: str) -> bool:
    return len(line) <= _MAX_TITLE_CHARS and any(c.isalnum() for c in line)
