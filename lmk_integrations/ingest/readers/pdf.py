"""PDF by pypdf. Runs in the child process: hostile files loop, or eat all memory."""

from __future__ import annotations

from typing import Any

from lmk_integrations.errors import DocumentError
from lmk_integrations.ingest.readers.parsed import Parsed
from lmk_integrations.records import Mark

_JOIN = "\n\n"
_PASSWORD_REMEDY = "pass --pdf-password (pdf_password= in Python), or remove its encryption"


def parse_pdf(path: str, password: str | None = None) -> Parsed:
    """The text of a PDF, its pages joined by a blank line and marked with the file's own labels.

    Raises DocumentError: "encrypted", "no_text" (scanned), "corrupt".
    """
    from pypdf import PdfReader
    from pypdf.errors import DependencyError, PyPdfError

    try:
        reader = PdfReader(path, strict=False)
        _decrypt(reader, password)
        return _read(reader)
    except DependencyError as error:
        raise DocumentError(
            f"it needs a package that is missing: {error}; pip install 'pypdf[crypto]'",
            "missing_extra",
        ) from None
    except DocumentError:
        raise
    except (PyPdfError, RecursionError) as error:
        raise DocumentError(f"it is not a readable PDF: {error}", "corrupt") from None


def _decrypt(reader: Any, password: str | None) -> None:
    if not reader.is_encrypted:
        return
    # Many open without one: it only guards against printing and copying.
    for attempt in (password, "") if password else ("",):
        if reader.decrypt(attempt):
            return
    what = "the password given does not open it" if password else "it is encrypted"
    raise DocumentError(f"{what}; {_PASSWORD_REMEDY}", "encrypted")


def _read(reader: Any) -> Parsed:
    labels = _labels(reader)
    parts: list[str] = []
    marks: list[Mark] = []
    blank: list[str] = []
    problems: list[tuple[str, str]] = []
    length = 0
    for number in range(len(reader.pages)):
        label = labels[number] if number < len(labels) else str(number + 1)
        try:
            text = reader.pages[number].extract_text()
        except MemoryError:
            raise
        except Exception as error:  # whatever a damaged page makes pypdf do
            problems.append((label, f"{type(error).__name__}: {error}"))
            continue
        if not text.strip():
            blank.append(label)
            continue
        start = length + len(_JOIN) if parts else 0
        marks.append(Mark(start, "page", label))
        parts.append(text)
        length = start + len(text)
    if not parts:
        raise _nothing(len(reader.pages), blank, problems)
    notes = {"pages_without_text": len(blank)} if blank else {}
    return Parsed(
        text=_JOIN.join(parts),
        title=_title(reader),
        marks=tuple(marks),
        notes=notes,
        problems=tuple(problems),
    )


def _nothing(n_pages: int, blank: list[str], problems: list[tuple[str, str]]) -> DocumentError:
    if problems:
        label, what = problems[0]
        return DocumentError(f"none of its {n_pages} pages can be read; {label}: {what}", "corrupt")
    if not blank:
        return DocumentError("it has no pages", "empty")
    pages = f"page {blank[0]}" if len(blank) == 1 else f"pages {blank[0]} to {blank[-1]}"
    return DocumentError(
        f"{pages} hold no text, only images or nothing: run text recognition (OCR) on it first",
        "no_text",
    )


def _labels(reader: Any) -> list[str]:
    try:
        return [str(label) for label in reader.page_labels]
    except MemoryError:
        raise
    except Exception:  # damaged labels do not matter: pages are then counted
        return []


def _title(reader: Any) -> str | None:
    try:
        title = reader.metadata.title if reader.metadata else None
        return str(title) if title else None
    except MemoryError:
        raise
    except Exception:  # damaged metadata does not matter: the file's name serves
        return None
