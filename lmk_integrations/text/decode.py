"""Bytes to text: byte order mark, strict UTF-8, then a detector with a confidence.

An explicit encoding overrides all of it. Nothing is ever replaced or ignored: what cannot be
decoded as a whole is an error that names `--encoding`.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from lmk_integrations.errors import DocumentError
from lmk_integrations.text.detect import guess
from lmk_integrations.text.evidence import Evidence

REMEDY = "pass --encoding (encoding= in Python) with the name of its encoding"
MIN_CONFIDENCE = 0.4

Chunks = Callable[[], Iterable[bytes]]
"""A file's bytes, from the beginning at every call."""

# UTF-32 first: its little-endian mark begins with that of UTF-16.
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_MAGIC = (
    *(b"%PDF-", b"PK\x03\x04", b"\x7fELF", b"\x89PNG", b"\xff\xd8\xff", b"GIF87a", b"GIF89a"),
    *(b"\x1f\x8b", b"\xd0\xcf\x11\xe0", b"Rar!\x1a", b"7z\xbc\xaf", b"SQLite format 3\0"),
)


@dataclass(frozen=True, slots=True)
class Encoding:
    """How a file's bytes are text.

    name: a Python codec. errors: "strict", or "surrogatepass" where lone surrogates come through,
    to be repaired. confidence: 1.0, or less where a detector chose it.
    """

    name: str
    errors: str = "strict"
    confidence: float = 1.0

    @property
    def guessed(self) -> bool:
        """Whether a detector chose it."""
        return self.confidence < 1.0

    @classmethod
    def named(cls, name: str) -> Encoding:
        """The encoding of a name, lenient with the surrogates that repairing takes care of."""
        unicode = name.startswith(("utf-8", "utf-16", "utf-32"))
        return cls(name, "surrogatepass" if unicode and name != "utf-8-sig" else "strict")


def decode(
    data: bytes, *, encoding: str | None = None, declared: str | None = None
) -> tuple[str, Encoding]:
    """The text of a file without its mark, and its encoding. Lone surrogates may remain.

    encoding: what the user says; declared: what the file says of itself, tried after UTF-8.
    Raises DocumentError: reason "encoding" where it cannot be told, "binary" where it is no text.
    """
    found = find_encoding(lambda: (data,), encoding=encoding, declared=declared)
    return "".join(decode_chunks((data,), found)), found


def decode_chunks(chunks: Iterable[bytes], encoding: Encoding) -> Iterator[str]:
    """The text of bytes that come in chunks, without the mark, each piece as long as its chunk.

    Raises DocumentError, reason "encoding", naming the first byte that does not fit.
    """
    decoder = codecs.getincrementaldecoder(encoding.name)(encoding.errors)
    begun = False
    size = pending = 0
    try:
        for chunk in chunks:
            pending = len(decoder.getstate()[0])
            text = decoder.decode(chunk)
            size += len(chunk)
            if text and not begun:
                begun = True
                text = text.removeprefix("\ufeff")
            if text:
                yield text
        pending = len(decoder.getstate()[0])
        if text := decoder.decode(b"", True):
            yield text
    except UnicodeError as error:
        start = getattr(error, "start", None)
        where = "" if start is None else f" at byte {size - pending + start:,}"
        raise DocumentError(
            f"it is not valid {encoding.name}{where}; {REMEDY}", "encoding"
        ) from None


def find_encoding(
    chunks: Chunks, *, encoding: str | None = None, declared: str | None = None
) -> Encoding:
    """The encoding in which all of these bytes are text. Reads them once or more; see `decode`."""
    if encoding is not None:
        return Encoding.named(encoding)
    first = next((chunk for chunk in chunks() if chunk), b"")
    if (marked := _marked(first)) is not None:
        return marked
    evidence = Evidence.of(chunks())
    if (known := _known(first, evidence)) is not None:
        return known
    if evidence.is_utf8:
        return Encoding("utf-8")
    for candidate in (Encoding("utf-8", "surrogatepass"), _declared(declared)):
        if candidate is not None and _fits(chunks(), candidate):
            return candidate
    found = guess(evidence.sample)
    if found is not None and found.confidence >= MIN_CONFIDENCE:
        # Never quite sure, or it would not show as guessed.
        guessed = Encoding(found.name, confidence=min(found.confidence, 0.99))
        if _fits(chunks(), guessed):
            return guessed
    best = "" if found is None else f" (most like {found.name}, confidence {found.confidence:.2f})"
    raise DocumentError(
        f"its encoding cannot be told: it is not UTF-8, and nothing else fits well{best}; {REMEDY}",
        "encoding",
    )


def encoding_of_head(head: bytes) -> Encoding | None:
    """The Unicode encoding that a file's first bytes show, by a mark or as UTF-16 does.

    Raises DocumentError, reason "binary", where these bytes are no text in any encoding.
    """
    return _marked(head) or _known(head, Evidence.of((head,)))


def _marked(head: bytes) -> Encoding | None:
    return next((Encoding.named(name) for mark, name in _MARKS if head.startswith(mark)), None)


def _known(head: bytes, evidence: Evidence) -> Encoding | None:
    if evidence.utf16 is not None:
        return Encoding.named(evidence.utf16)
    if evidence.is_binary or head.startswith(_MAGIC):
        raise DocumentError(
            "its content is binary, not text; give it the suffix of its format, or exclude it",
            "binary",
        )
    return None


def _fits(chunks: Iterable[bytes], encoding: Encoding) -> bool:
    try:
        for _ in decode_chunks(chunks, encoding):
            pass
    except DocumentError:
        return False
    return True


def _declared(name: str | None) -> Encoding | None:
    if name is None:
        return None
    try:
        found = codecs.lookup(name.strip()).name
        "".encode(found)
    except (LookupError, ValueError):
        return None
    # Browsers read pages that call themselves Latin-1 or ASCII as cp1252, and authors mean it.
    return Encoding("cp1252" if found in ("iso8859-1", "ascii") else found)
