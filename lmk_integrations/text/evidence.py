"""What the bytes of a whole file tell about it, in bounded memory: is it text, is it Unicode."""

from __future__ import annotations

import codecs
import unicodedata
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from lmk_integrations.text.detect import Sample

_CONTROLS = bytes(i for i in range(32) if i not in b"\t\n\r\f\x1b") + b"\x7f"
_FEW_CONTROLS = 8  # so many never make a file binary, however short it is
_BINARY_SHARE = 0.05
_ONE_SIDED = 2  # in UTF-16 zeros lie at odd or at even places, at least so many times as often
_MIN_ZERO_SHARE = 0.005  # spaces and line ends alone give more zeros than this
_PRINTABLE = bytes(range(32, 127)) + b"\t\n\r"
_MIN_LATIN_SHARE, _MIN_BLOCK_SHARE = 0.6, 0.3
_MAX_ODD_SHARE = 0.02
_HEAD = 1 << 14


@dataclass(frozen=True, slots=True)
class Evidence:
    """Facts about all bytes of a file.

    is_utf8: strictly. is_binary: too many control characters for a text in any encoding of single
    bytes. utf16: "utf-16-le" or "utf-16-be" where it is that, without a mark. sample: lines with
    bytes over 127, from all over the file.
    """

    is_utf8: bool
    is_binary: bool
    utf16: str | None
    sample: bytes

    @classmethod
    def of(cls, chunks: Iterable[bytes]) -> Evidence:
        """Read all chunks once."""
        utf8 = _Utf8()
        zeros = [0, 0]  # at even, at odd places
        size = controls = 0
        sample = Sample()
        head = b""
        for chunk in chunks:
            utf8.add(chunk)
            if 0 in chunk:
                for odd in (0, 1):
                    zeros[(size + odd) % 2] += chunk[odd::2].count(0)
            controls += len(chunk) - len(chunk.translate(None, _CONTROLS))
            size += len(chunk)
            sample.add(chunk)
            if len(head) < _HEAD:
                head += chunk[: _HEAD - len(head)]
        is_utf8 = utf8.holds()
        many = controls > _BINARY_SHARE * size
        is_binary = many and controls > _FEW_CONTROLS
        # UTF-16 that is valid UTF-8 has many control characters; a few zeros are stray ones.
        names = () if is_utf8 and not many else _zeros_of_utf16(size, *zeros)
        wide = next((name for name in names if _is_wide_text(head, name)), None)
        return cls(is_utf8=is_utf8, is_binary=is_binary, utf16=wide, sample=sample.whole())


class _Utf8:
    """Whether bytes that come in chunks are strict UTF-8."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("strict")
        self._holds = True

    def add(self, chunk: bytes, *, final: bool = False) -> None:
        if self._holds:
            try:
                self._decoder.decode(chunk, final)
            except UnicodeDecodeError:
                self._holds = False

    def holds(self) -> bool:
        self.add(b"", final=True)
        return self._holds


def _zeros_of_utf16(size: int, even: int, odd: int) -> tuple[str, ...]:
    """As what the zeros of a file's bytes may be read, the likelier first."""
    if size % 2 or even + odd <= max(1, _MIN_ZERO_SHARE * size):
        return ()
    little, big = "utf-16-le", "utf-16-be"
    if odd > _ONE_SIDED * even:
        return (little,)
    if even > _ONE_SIDED * odd:
        return (big,)
    return (little, big)  # as Chinese, where the number one is a character with a zero


def _is_wide_text(head: bytes, name: str) -> bool:
    """Whether the beginning of a file reads as UTF-16, and not as bytes with stray zeros."""
    head = head[: len(head) // 2 * 2]
    high = head[1::2] if name == "utf-16-le" else head[::2]
    narrow = head.translate(None, b"\0")
    if len(narrow) - len(narrow.translate(None, _PRINTABLE)) > 0.85 * len(narrow):
        # It could be ASCII. The scripts that look like it lie in one block of 256 each.
        top, count = Counter(high).most_common(1)[0]
        if count < (_MIN_LATIN_SHARE if top == 0 else _MIN_BLOCK_SHARE) * len(high):
            return False
    text = head.decode(name, "replace")
    odd = sum(unicodedata.category(c) in ("Cc", "Cn", "Co", "Cs") for c in text)
    return odd - sum(map(text.count, "\t\n\r\f")) <= _MAX_ODD_SHARE * len(text)
