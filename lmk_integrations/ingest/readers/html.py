"""HTML: what a reader of the page would read, with its headings."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

from lxml import etree

from lmk_integrations.errors import DocumentError
from lmk_integrations.ingest.readers.parsed import Parsed
from lmk_integrations.records import Mark
from lmk_integrations.text.decode import decode
from lmk_integrations.text.repair import repair

_DROPPED = frozenset(
    {"script", "style", "nav", "footer", "aside", "noscript", "template", "svg", "math", "iframe"}
    | {"object", "canvas", "audio", "video", "select", "datalist", "dialog"}
)
_PARAGRAPHS = frozenset(
    {"p", "div", "section", "article", "main", "header", "blockquote", "pre", "figure", "hr"}
    | {"ul", "ol", "dl", "table", "form", "fieldset", "address", "details", "body"}
    | {"h1", "h2", "h3", "h4", "h5", "h6"}
)
_LINES = frozenset(
    {"br", "li", "tr", "dt", "dd", "caption", "figcaption", "summary", "option", "legend"}
)
_CELLS = frozenset({"td", "th"})
_HEADINGS = frozenset(f"h{level}" for level in range(1, 7))
_VOID = frozenset(
    {"br", "hr", "img", "input", "meta", "link", "area", "base", "col", "embed", "source"}
    | {"track", "wbr"}
)
_SPACE = re.compile(r"[ \t\n\r\f]+")
_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([A-Za-z0-9_.:-]{2,40})", re.I)
_HIDDEN = re.compile(r"display\s*:\s*none", re.I)
_MAX_LABEL_CHARS = 200


def parse_html(data: bytes, encoding: str | None = None) -> Parsed:
    """The visible text of a page.

    Scripts, styles, menus, footers and asides are dropped; a header is kept where it is that of an
    article. Blocks are separated by a blank line, lines and rows by a line end, white space within
    is one space, except in `pre`. Raises DocumentError: reasons of `decode`, or "no_text".
    """
    declared = _CHARSET.search(data[:4096])
    text, found = decode(
        data, encoding=encoding, declared=declared[1].decode("ascii") if declared else None
    )
    repaired = repair(text)
    page = _Page()
    # Events, not a tree: libxml2 cuts trees at a depth of 2,048, without a word.
    parser = etree.HTMLParser(target=page, encoding="utf-8", huge_tree=True)
    with suppress(etree.XMLSyntaxError):  # nothing but white space or comments
        parser.feed(repaired.text.encode())
        parser.close()
    result, marks = page.finish()
    if not result and text.strip():
        raise DocumentError(
            "it has no text of its own, only menus, scripts or empty elements", "no_text"
        )
    metadata: dict[str, Any] = {}
    notes = repaired.notes
    if found.guessed:
        metadata = {"encoding": found.name, "encoding_confidence": found.confidence}
        notes["encoding_guessed"] = 1
    title = page.title or (marks[0].label if marks else None)
    return Parsed(text=result, title=title, marks=marks, metadata=metadata, notes=notes)


class _Page:
    """The target of the parser: collects text, breaks and headings as elements come and go."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._length = 0
        self._gap = ""  # the white space due before the next text
        self._dropped = 0  # depth inside an element that is not shown
        self._stack: list[tuple[str, bool]] = []  # open elements; whether it began a dropped part
        self._articles = 0
        self._pre = 0
        self._title: list[str] | None = None
        self._titles: list[str] = []
        self._heading: tuple[int, int] | None = None  # its first character, and part
        self._in_heading = False
        self._marks: list[Mark] = []

    @property
    def title(self) -> str | None:
        """The page's title, white space collapsed."""
        return " ".join("".join(self._titles).split()) or None

    def finish(self) -> tuple[str, tuple[Mark, ...]]:
        """The text, and its headings where they are in it."""
        return "".join(self._parts), tuple(self._marks)

    def start(self, tag: str, attributes: Any) -> None:
        """An element begins."""
        hides = self._hides(tag, attributes)
        self._stack.append((tag, hides))
        self._dropped += hides
        if self._dropped:
            return
        if tag == "title":
            self._title = []
        self._articles += tag in ("article", "main")
        self._break(tag)
        if tag in _HEADINGS:
            self._heading = None
            self._in_heading = True
        self._pre += tag == "pre"

    def end(self, tag: str) -> None:
        """An element ends."""
        while self._stack:
            opened, hid = self._stack.pop()
            shown = not self._dropped
            self._dropped -= hid
            if shown:
                self._close(opened)
            if opened == tag:
                return

    def data(self, text: str) -> None:
        """Text, perhaps a part of it."""
        if self._dropped:
            return
        if self._title is not None:
            self._title.append(text)
        elif self._pre:
            self._add_lines(text)
        else:
            self._add(text)

    def comment(self, text: str) -> None:
        """Not shown."""

    def pi(self, target: str, data: str | None = None) -> None:
        """Not shown."""

    def close(self) -> None:
        """The page ends."""

    def _hides(self, tag: str, attributes: Any) -> bool:
        if tag in _DROPPED or (tag == "header" and not self._articles):
            return True
        if tag in _VOID or tag in ("html", "body", "title"):
            return False
        return "hidden" in attributes or bool(_HIDDEN.search(attributes.get("style", "")))

    def _close(self, tag: str) -> None:
        if tag == "title" and self._title is not None:
            if not self._titles:
                self._titles = self._title
            self._title = None
        self._articles -= tag in ("article", "main")
        self._pre -= tag == "pre"
        if tag in _HEADINGS:
            self._end_heading()
        self._break(tag)

    def _end_heading(self) -> None:
        if self._heading is not None:
            start, part = self._heading
            label = " ".join("".join(self._parts[part:]).split())[:_MAX_LABEL_CHARS]
            self._marks.append(Mark(start, "heading", label))
        self._heading = None
        self._in_heading = False

    def _break(self, tag: str) -> None:
        if tag in _PARAGRAPHS:
            self._gap = "\n\n"
        elif tag in _LINES and self._gap != "\n\n":
            self._gap = "\n"
        elif tag in _CELLS and not self._gap:
            self._gap = " "

    def _add(self, text: str) -> None:
        text = _SPACE.sub(" ", text)
        if text.startswith(" "):
            self._gap = self._gap or " "
        if words := text.strip(" "):
            self._write(words)
            self._gap = " " if text.endswith(" ") else ""

    def _add_lines(self, text: str) -> None:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        if self._gap == "\n\n" and text.startswith("\n"):
            text = text[1:]  # as browsers do after <pre>
        # Its last line end is part of the gap to what follows.
        lines = text.rstrip("\n")
        if lines:
            self._write(lines)
        self._gap += text[len(lines) :]

    def _write(self, text: str) -> None:
        if self._parts:
            self._parts.append(self._gap)
            self._length += len(self._gap)
        self._gap = ""
        if self._in_heading and self._heading is None:
            self._heading = (self._length, len(self._parts))
        self._parts.append(text)
        self._length += len(text)
