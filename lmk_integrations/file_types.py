"""The types of files that are read. Light, for the command line's help names them, too."""

from __future__ import annotations

from typing import Literal

Kind = Literal["plain", "markdown", "rst", "html", "pdf", "jsonl", "json", "office"]
"""What reads a file; "office" needs the extra of this name."""

FILE_TYPES: dict[str, Kind] = {
    ".txt": "plain",
    ".text": "plain",
    ".md": "markdown",
    ".markdown": "markdown",
    ".rst": "rst",
    ".html": "html",
    ".htm": "html",
    ".xhtml": "html",
    ".pdf": "pdf",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".docx": "office",
    ".pptx": "office",
    ".xlsx": "office",
    ".epub": "office",
}
"""How each type of file is read, by its suffix in lower case."""


def types_in_words() -> str:
    """The types for people: ".txt .md ..., and with the office extra .docx ..."."""
    own = " ".join(suffix for suffix, kind in FILE_TYPES.items() if kind != "office")
    office = " ".join(suffix for suffix, kind in FILE_TYPES.items() if kind == "office")
    return f"{own}; with lmk-integrations[office] also {office}"
