"""Which legacy encoding a file is in, by the evidence of the whole file in bounded memory.

The judgement is `charset-normalizer`'s. Decided here: what it sees, which encodings it may choose
from (those that Unix, Windows and the web have used for text), and how near-ties are settled.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

_MAX_SAMPLE = 1 << 19
_MAX_LINE = 1 << 14
_ASCII = bytes(range(128))

_CODECS = (
    "cp1252", "cp1250", "cp1251", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257", "cp874",
    "iso8859_2", "iso8859_5", "iso8859_7", "iso8859_15", "koi8_r", "koi8_u",
    "cp932", "euc_jp", "gb18030", "big5", "cp949",
)  # fmt: skip
_MULTIBYTE = frozenset(("cp932", "euc_jp", "gb18030", "big5", "cp949"))
_MAX_MESS = 0.2
_NEAR_MESS, _NEAR_COHERENCE = 0.05, 0.1
_SURE_COHERENCE = 0.1
# S and z with a hook, which in cp1252 are Icelandic letters, and vowels that Icelandic has not.
_BALTIC = (b"\xd0\xf0\xde\xfe", b"\xe0\xe2\xe8\xeb\xee\xfb")
_HIRAGANA = re.compile("[\u3041-\u3096]")
_MIN_HIRAGANA = 0.15
_BEYOND_ASCII = re.compile(rb"[\x80-\xff]+")
_MAX_ACCENTS = 2
_MIN_BEYOND_ASCII = 24


@dataclass(frozen=True, slots=True)
class Guess:
    """A legacy encoding, and how sure it is: from 0 to 0.99."""

    name: str
    confidence: float


class Sample:
    """What a detector should see of a file: its lines with other than ASCII characters.

    They come from all over the file, thinned out evenly as they become too many.
    """

    def __init__(self) -> None:
        self._lines: list[bytes] = []
        self._size = 0
        self._every = 1
        self._seen = 0
        self._rest = b""

    def add(self, chunk: bytes) -> None:
        """The next bytes of the file."""
        if chunk.isascii() and not self._rest:
            return
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        if len(self._rest) > _MAX_LINE:  # no line to wait for: taken as it comes
            lines.append(self._rest)
            self._rest = b""
        for line in lines:
            self._take(line)

    def _take(self, line: bytes) -> None:
        if line.isascii():
            return
        self._seen += 1
        if self._seen % self._every:
            return
        if len(line) > _MAX_LINE:
            # Cut where a character of one byte ends, if there is one: halves look like mistakes.
            cut = max(line.rfind(b" ", 0, _MAX_LINE), line.rfind(b",", 0, _MAX_LINE)) + 1
            line = line[: cut or _MAX_LINE]
        self._lines.append(line)
        self._size += len(line)
        while self._size > _MAX_SAMPLE:
            self._lines = self._lines[1::2]
            self._size = sum(map(len, self._lines))
            self._every *= 2

    def whole(self) -> bytes:
        """The lines chosen, at most 512 KiB of them."""
        self._take(self._rest)
        self._rest = b""
        return b"\n".join(self._lines).translate(None, b"\0")  # zeros are removed later, too


def guess(sample: bytes) -> Guess | None:
    """The legacy encoding that fits a sample, or None where none does or it cannot be told."""
    from charset_normalizer import from_bytes

    found: Any = from_bytes(
        sample, cp_isolation=list(_CODECS), threshold=_MAX_MESS, steps=32, chunk_size=1024,
        preemptive_behaviour=False,
    )  # fmt: skip
    # Hebrew read as KOI8 is all capitals, and so for others: not what people write.
    shouting = {match.encoding for match in found if _is_shouting(str(match))}
    if len(shouting) < len(found):
        found = [match for match in found if match.encoding not in shouting]
    matches = {match.encoding: (match.chaos, match.coherence) for match in found}
    for match in found:  # of encodings that give the same text only one is listed
        for name in match.could_be_from_charset:
            matches.setdefault(name, (match.chaos, match.coherence))
    if not matches:
        return None
    name = _settle(matches, sample)
    if name is None:
        return None
    mess, coherence = matches[name]
    return Guess(name, round((1 - mess) * min(0.99, 0.5 + coherence), 2))


def _is_shouting(text: str) -> bool:
    letters = [c for c in text[:_MAX_LINE] if not c.isascii()]
    return sum(c.isupper() for c in letters) > sum(c.islower() for c in letters)


def _settle(matches: dict[str, tuple[float, float]], sample: bytes) -> str | None:
    """Choose among those that fit nearly as well as the best."""
    first = next(iter(matches))
    mess, coherence = matches[first]
    near = {
        name
        for name, (its_mess, its_coherence) in matches.items()
        if its_mess <= mess + _NEAR_MESS and its_coherence >= coherence - _NEAR_COHERENCE
    }
    if coherence < _SURE_COHERENCE:
        return _settle_unread(matches, near, sample)
    # The letters in which these two differ are common in Turkish and rare where cp1252 is used.
    is_baltic = all(any(letter in sample for letter in letters) for letters in _BALTIC)
    if is_baltic and first != "cp1254" and "cp1257" in near:
        return "cp1257"
    if first == "cp1257" and not is_baltic and "cp1252" in matches:
        return "cp1252"  # French reads as cleanly in it, to an eye that knows no French
    if first == "cp1254" and any(letter in sample for letter in b"\xd0\xf0\xdd\xfd\xde\xfe"):
        return first
    if "cp1252" in near:  # by far the most common of all
        return "cp1252"
    has_c1 = bool(sample.translate(None, _ASCII + bytes(range(0xA0, 0x100))))
    if "iso8859_2" in near and not has_c1 and "cp1250" in near:
        return "iso8859_2"
    return first


def _settle_unread(matches: Iterable[str], near: set[str], sample: bytes) -> str | None:
    """Choose where no language was recognised, mostly because there is little text."""
    runs = [len(run) for run in _BEYOND_ASCII.findall(sample)]
    if "cp1252" in near and max(runs) <= _MAX_ACCENTS:
        return "cp1252"  # accents and quotes come one at a time between other letters
    # Bytes are seldom valid in these by chance, if they are not very few.
    likely = [name for name in matches if name in near & _MULTIBYTE]
    # Every second character of Japanese is hiragana, which no other bytes read as so often.
    japanese = [name for name in likely if _hiragana_share(sample, name) > _MIN_HIRAGANA]
    if japanese:
        return japanese[0]
    return likely[0] if likely and sum(runs) >= _MIN_BEYOND_ASCII else None


def _hiragana_share(sample: bytes, name: str) -> float:
    text = sample.decode(name, "ignore")
    return len(_HIRAGANA.findall(text)) / max(1, len(text))
