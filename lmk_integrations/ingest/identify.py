"""Which document this is, in which version, and what is shown with it."""

from __future__ import annotations

from collections.abc import Iterator

from lmk_integrations.errors import DocumentError
from lmk_integrations.ingest.ids import content_hash, metadata_hash
from lmk_integrations.ingest.metadata import clean_text, json_metadata
from lmk_integrations.ingest.records import Facts, Version
from lmk_integrations.records import Document, TextSource, pieces_of

EMPTY = "empty"


def identify(document: Document, recipe: str) -> tuple[Version, Facts]:
    """Read a document once, for its hash. Raises DocumentError where it cannot be stored."""
    doc_id = document.source if document.id is None else document.id
    if not isinstance(doc_id, str) or not doc_id:
        raise DocumentError("a document needs an id or a source: a text that is not empty", "no_id")
    if clean_text(doc_id) != doc_id:
        raise DocumentError(f"the id {doc_id!r} is not valid Unicode; give another one", "no_id")
    marks = [[mark.start, mark.kind, mark.label] for mark in document.marks]
    structure = [document.markup, marks] if marks or document.markup != "plain" else None
    has_text = False

    def watched() -> Iterator[str]:
        nonlocal has_text
        for piece in pieces_of(readable(document.text)):
            has_text = has_text or bool(piece.strip())
            yield piece

    try:
        digest = content_hash(watched(), structure)
    except UnicodeEncodeError as error:
        raise DocumentError(
            f"the text holds a lone surrogate at character {error.start}; repair it first, for "
            "example with lmk_integrations.text.repair.repair(text)",
            "surrogate",
        ) from None
    if not has_text:
        raise DocumentError("it holds no text", EMPTY)
    metadata, n_bytes = json_metadata(document.metadata)
    title, source = (
        None if value is None else clean_text(str(value))
        for value in (document.title, document.source)
    )
    digest_of_facts = metadata_hash(metadata, title, source, document.root)
    facts = Facts(title, source, metadata, digest_of_facts, n_bytes, document.root)
    return Version(doc_id, digest, recipe), facts


def readable(text: str | TextSource) -> str | TextSource:
    """The text again; a source's own errors become DocumentErrors, so that the others go on."""
    if isinstance(text, str):
        return text
    if not isinstance(text, TextSource):
        raise DocumentError(f"the text is a {type(text).__name__}, not a string", "not_text")
    return _ReadableSource(text)


class _ReadableSource:
    def __init__(self, source: TextSource) -> None:
        self._source = source

    def pieces(self) -> Iterator[str]:
        try:
            for piece in self._source.pieces():
                if not isinstance(piece, str):
                    raise DocumentError(f"a piece of it is a {type(piece).__name__}", "not_text")
                yield piece
        except (OSError, UnicodeError) as error:
            raise DocumentError(f"it cannot be read: {error}", "unreadable") from error
