"""Office files and EPUB by markitdown, as Markdown. Runs in the child process."""

from __future__ import annotations

from functools import cache
from typing import Any

from lmk_integrations._extras import require
from lmk_integrations.errors import DocumentError
from lmk_integrations.ingest.readers.parsed import Parsed
from lmk_integrations.ingest.readers.zips import check_zip


def parse_office(path: str) -> Parsed:
    """The text of a docx, pptx, xlsx or epub file.

    Raises DocumentError: reasons of `check_zip`, "corrupt". Raises MissingExtraError.
    """
    converter = _converter()
    check_zip(path)
    try:
        result = converter.convert_local(path)
    except (MemoryError, ImportError):
        raise
    except Exception as error:  # markitdown passes on whatever its many parsers raise
        what = str(error).strip().splitlines()[-1:] or [type(error).__name__]
        raise DocumentError(f"it cannot be converted: {what[0].strip()[:200]}", "corrupt") from None
    from lmk_integrations.text.structure import find_headings

    text = result.markdown or ""
    headings = find_headings(text[: 1 << 16], "markdown")
    title = result.title or (headings[0].label if headings else None)
    return Parsed(text=text, title=title, markup="markdown")


@cache
def _converter() -> Any:
    """Only what these four need: the converter of any archive would unpack a damaged one."""
    markitdown = require("markitdown", extra="office")
    converters = require("markitdown.converters", extra="office")
    converter = markitdown.MarkItDown(enable_builtins=False, enable_plugins=False)
    for kind in ("Docx", "Pptx", "Xlsx", "Epub"):
        converter.register_converter(getattr(converters, f"{kind}Converter")())
    return converter
