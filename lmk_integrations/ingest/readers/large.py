"""A text file too large to hold: decoded anew for every pass, in pieces."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from lmk_integrations.ingest.readers.files import Signature, changed
from lmk_integrations.text.decode import decode_chunks, find_encoding
from lmk_integrations.text.repair import repair_pieces
from lmk_integrations.text.unbroken import unbroken_notes

_BLOCK = 1 << 19  # bytes, so at most as many characters
_HEAD_CHARS = 1 << 16


class FileText:
    """A `TextSource` over a file. Opening one reads the file, to know how it is text.

    encoding: as found. notes: what repairing does to it, and what is odd in it.
    head: its first characters. blank: whether it is all white space.
    Raises DocumentError: reasons "encoding", "binary", "changed".
    """

    def __init__(self, path: Path, *, encoding: str | None = None) -> None:
        self.path = path
        self.head = ""
        self.blank = True
        self.notes: Counter[str] = Counter()
        self._signature = Signature.of(path)
        self._digest: bytes | None = None
        self.encoding = find_encoding(self._blocks, encoding=encoding)
        for piece in self._pass(self.notes):
            self.head = self.head or piece[:_HEAD_CHARS]
            self.blank = self.blank and not piece.strip()
            self.notes.update(unbroken_notes((piece,)))

    def __repr__(self) -> str:
        return f"FileText({str(self.path)!r}, encoding={self.encoding.name!r})"

    def pieces(self) -> Iterator[str]:
        """The repaired text in pieces of at most half a million characters.

        Raises DocumentError, reason "changed", where the file is not the one opened at first.
        """
        return self._pass(None)

    def _pass(self, notes: Counter[str] | None) -> Iterator[str]:
        digest = hashlib.blake2b(digest_size=16)

        def digested() -> Iterator[bytes]:
            for block in self._blocks():
                digest.update(block)
                yield block

        yield from repair_pieces(decode_chunks(digested(), self.encoding), notes)
        if self._digest is None:
            self._digest = digest.digest()
        elif self._digest != digest.digest():
            raise changed()

    def _blocks(self) -> Iterator[bytes]:
        with self.path.open("rb") as file:
            self._check(file)
            while block := file.read(_BLOCK):
                yield block
            self._check(file)

    def _check(self, file: BinaryIO) -> None:
        if Signature.of_stat(os.fstat(file.fileno())) != self._signature:
            raise changed()
