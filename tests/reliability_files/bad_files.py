"""One file, or more, for every kind of trouble that people's folders hold, and what becomes of it.

The numbers are those of the table that the project keeps of such files, found in the trackers of
others.
"""

from __future__ import annotations

import base64
import codecs
import json
import os
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import file_makers as make

Content = bytes | str | Callable[[Path], object]

FRENCH = "Où est le café ? Là-bas, près de l’église, où l’été s’achève déjà. "
THAI = "ภาษาไทยเป็นภาษาราชการของประเทศไทยและเป็นภาษาแม่ของคนไทยส่วนใหญ่" * 5
FAMILY = "\U0001f469\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466"
HEBREW = "שלום עולם וגם לך"
ASCII_HEAD = "Nothing but plain words, line after line, as in a log.\n" * 2000
CJK = "四世同堂春眠不覺曉處處聞啼鳥夜來風雨聲花落知多少" * 400
BASE64 = base64.b64encode(random.Random(0).randbytes(30_000)).decode()
DEEP = "[" * 100_000
MENU = "<nav><a href=/>Home</a><a href=/b>Shop</a></nav>"
PAGE = (
    f"<html><body>{MENU}<p>The mill stood by the river.</p><footer>Imprint</footer></body></html>"
)
BOMB = {"word/document.xml": b"\0" * (64 << 20)}
ODD_NAME = "red \x1b[31m\nname.txt"


@dataclass(frozen=True)
class BadFile:
    """A file and what is expected of it.

    row: of the table; 0: not in it. status: "stored", "skipped", "failed". says: part of the
    message, or of the warning of a document that is stored. text: what is stored.
    """

    row: int
    name: str
    content: Content
    status: str = "stored"
    reason: str = ""
    says: str = ""
    text: str | None = None
    metadata: tuple[tuple[str, Any], ...] = ()
    entry: str = ""
    """What its id has behind the file's name."""

    @property
    def doc_id(self) -> str:
        """As the report names it."""
        return f"docs/{self.name}{self.entry}"

    def write(self, folder: Path) -> None:
        """Make it."""
        path = folder / self.name
        if callable(self.content):
            self.content(path)
        else:
            data = self.content.encode() if isinstance(self.content, str) else self.content
            path.write_bytes(data)


def locked(path: Path) -> None:
    """A file that its owner may not read; root may, unless it gives that up."""
    path.write_text("Nobody reads this.")
    path.chmod(0)


FILES = (
    BadFile(1, "encrypted.pdf", lambda p: make.encrypted_pdf(p, "x", user="secret"),
            "failed", "encrypted", "--pdf-password"),
    BadFile(1, "no-printing.pdf", lambda p: make.encrypted_pdf(p, "Only printing.", user=""),
            text="Only printing."),
    BadFile(3, "exploding.pdf", make.exploding_pdf, "failed", "memory", "256 MiB"),
    BadFile(4, "scan.pdf", lambda p: make.pdf(p, ["", "", ""]),
            "skipped", "no_text", "pages 1 to 3"),
    BadFile(4, "corrupt.pdf", b"%PDF-1.7\n" + random.Random(1).randbytes(3000),
            "failed", "corrupt", "not a readable PDF"),
    BadFile(4, "text.pdf", "No PDF at all.", "failed", "corrupt"),
    BadFile(5, "empty.txt", b"", "skipped", "empty"),
    BadFile(5, "blank.md", " \n\t\r\n ", "skipped", "empty"),
    BadFile(6, "utf16.txt", codecs.BOM_UTF16_LE + FRENCH.encode("utf-16-le"), text=FRENCH),
    BadFile(6, "utf16-no-bom.txt", FRENCH.encode("utf-16-be"), text=FRENCH),
    BadFile(6, "utf32.txt", codecs.BOM_UTF32_LE + FRENCH.encode("utf-32-le"), text=FRENCH),
    BadFile(7, "utf8-bom.txt", codecs.BOM_UTF8 + FRENCH.encode(), text=FRENCH),
    BadFile(8, "latin1.txt", "El niño comió en la montaña. ¿Cómo está?".encode("latin-1"),
            text="El niño comió en la montaña. ¿Cómo está?",
            metadata=(("encoding", "cp1252"),)),
    BadFile(8, "cp1252.txt", FRENCH.encode("cp1252"), text=FRENCH,
            metadata=(("encoding", "cp1252"),)),
    BadFile(8, "doubtful.txt", "Привет".encode("koi8_r"), "failed", "encoding", "--encoding"),
    BadFile(9, "late.txt", (ASCII_HEAD + FRENCH).encode("cp1252"), text=ASCII_HEAD + FRENCH,
            metadata=(("encoding", "cp1252"),)),
    BadFile(10, "nul.txt", "Before\0 and\0 behind.", text="Before and behind."),
    BadFile(10, "nul.jsonl", json.dumps({"text": "a\0b", "k\0ey": "v\0alue"}),
            text="ab", metadata=(("key", "value"),), entry="#1"),
    BadFile(11, "surrogates.json", r'{"text": "The mill\ud83d stood by the river \ud83d\ude00"}',
            text="The mill stood by the river 😀"),
    BadFile(11, "surrogates.txt",
            "The mill\udc00 stood by a river \ud83d\ude00".encode("utf-8", "surrogatepass"),
            text="The mill stood by a river 😀"),
    BadFile(12, "families.txt", FAMILY * 4000, says="unknown to the model", text=FAMILY * 4000),
    BadFile(13, "cjk.txt", CJK, says="unknown to the model", text=CJK),
    BadFile(14, "thai.txt", THAI, says="unknown to the model", text=THAI),
    BadFile(14, "hex.txt", "".join(f"{i * 2654435761 % 2**32:08x}" for i in range(100))),
    BadFile(15, "hebrew.pdf", lambda p: make.right_to_left_pdf(p, HEBREW[::-1]), text=HEBREW),
    BadFile(16, "line.txt", "word " * 12_000, text="word " * 12_000),
    BadFile(16, "one-word.txt", "w" * 60_000, says="without a space", text="w" * 60_000),
    BadFile(17, "base64.txt", BASE64, says="base64", text=BASE64),
    BadFile(18, "bomb.docx", lambda p: make.zipped(p, BOMB), "failed", "zip_bomb", "not read"),
    BadFile(18, "members.epub", lambda p: make.zipped(p, {f"{i}": "" for i in range(10_001)}),
            "failed", "zip_bomb", "members"),
    BadFile(18, "damaged.xlsx", b"PK\x03\x04" + b"x" * 500, "failed", "corrupt"),
    BadFile(19, "escape.txt", lambda p: p.symlink_to("/etc/passwd"), "skipped", "symlink",
            "--follow-symlinks"),
    BadFile(19, "loop", lambda p: p.symlink_to("."), "skipped", "symlink"),
    BadFile(19, "nowhere.txt", lambda p: p.symlink_to("no-such-file"), "skipped", "symlink"),
    BadFile(20, "locked.txt", locked, "failed", "unreadable", "Permission denied"),
    BadFile(20, "pipe.txt", os.mkfifo, "skipped", "unsupported", "not a regular file"),
    BadFile(21, "changing.txt", "Written to all the time.", "failed", "changed", "again"),
    BadFile(21, "vanishing.txt", "Soon gone.", "failed", "missing"),
    BadFile(22, "deep.json", DEEP, "failed", "too_deep", "64 levels"),
    BadFile(22, "deep.jsonl", DEEP, "failed", "too_deep", entry="#1"),
    BadFile(22, "deep.html", "<div>" * 20_000 + "At the bottom.", text="At the bottom."),
    BadFile(23, "page.html", PAGE, text="The mill stood by the river."),
    BadFile(23, "menu.html", f"<html><body>{MENU}</body></html>", "skipped", "no_text", "menus"),
    BadFile(24, "huge.pdf", lambda p: make.many_pages_pdf(
        p, [b"BT /F1 12 Tf 50 700 Td (Page of the river.) Tj ET"], 1000)),
    BadFile(25, "carries.pdf", lambda p: make.pdf_with_attachment(
        p, "Carried.", "../../../escaped.txt"), text="Carried."),
    BadFile(25, "traversal.epub", lambda p: make.with_member(
        make.epub(p, title="T", text="Read."), "../../../escaped.txt", "written by a zip")),
    BadFile(28, "twin-a.txt", "The same words under two names.",
            text="The same words under two names."),
    BadFile(28, "twin-b.txt", "The same words under two names.",
            text="The same words under two names."),
    BadFile(0, ODD_NAME, "A name can be anything.", text="A name can be anything."),
    BadFile(0, "program.txt", b"\x7fELF\x02\x01\x01" + bytes(500), "skipped", "binary"),
    BadFile(0, "photo.png", b"\x89PNG\r\n", "skipped", "unsupported", ".png"),
    BadFile(0, "broken.json", '{"text": "a"', "failed", "invalid_json", "line 1"),
)  # fmt: skip

# Each of these in a run of its own, for its settings are of no use to the others.
ENDLESS = BadFile(
    2, "endless.pdf",
    lambda p: make.many_pages_pdf(p, [b"BT /F1 9 Tf (a) Tj ET\n" * 5000], 3000),
    "failed", "timeout", "pdf_timeout_s",
)  # fmt: skip
FOLLOWED = (
    BadFile(19, "escape.txt", "", "skipped", "outside", "outside of docs"),
    BadFile(19, "loop", "", "skipped", "symlink", "a folder that it is in"),
    BadFile(19, "nowhere.txt", "", "skipped", "symlink", "points nowhere"),
)
