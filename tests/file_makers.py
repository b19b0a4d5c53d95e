"""Files of every format and of every kind of damage, made on the spot."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path

from fpdf import FPDF
from pypdf import PdfReader, PdfWriter
from pypdf.generic import EncodedStreamObject, NameObject


def pdf(path: Path, pages: list[str], *, title: str | None = None) -> Path:
    """A PDF with these page texts; an empty one is a page without text."""
    made = FPDF()
    made.set_font("helvetica", size=12)
    if title:
        made.set_title(title)
    for text in pages:
        made.add_page()
        if text:
            made.multi_cell(0, 6, text)
    made.output(str(path))
    return path


def encrypted_pdf(path: Path, text: str, *, user: str, algorithm: str = "RC4-128") -> Path:
    """A PDF that asks for a password, or with user="" one that only forbids printing."""
    writer = PdfWriter(clone_from=PdfReader(pdf(path, [text])))
    writer.encrypt(user, "owner", algorithm=algorithm)
    writer.write(path)
    return path


def labelled_pdf(path: Path, pages: list[str], roman: int) -> Path:
    """A PDF whose first pages are numbered i, ii, ... and the others 1, 2, ..."""
    writer = PdfWriter(clone_from=PdfReader(pdf(path, pages)))
    writer.set_page_label(0, roman - 1, style="/r")
    writer.set_page_label(roman, len(pages) - 1, style="/D", start=1)
    writer.write(path)
    return path


def pdf_with_damaged_page(path: Path, pages: list[str]) -> Path:
    """A PDF whose first page is compressed in no known way."""
    writer = PdfWriter(clone_from=PdfReader(pdf(path, pages)))
    stream = EncodedStreamObject()
    stream.update({NameObject("/Filter"): NameObject("/NoSuchFilter")})
    stream._data = b"BT (a) Tj ET"
    writer.pages[0][NameObject("/Contents")] = writer._add_object(stream)
    writer.write(path)
    return path


def exploding_pdf(path: Path, operators: int = 2_000_000) -> Path:
    """A small PDF whose one page takes pypdf minutes and gigabytes."""
    content = zlib.compress(b"BT /F1 9 Tf (a) Tj ET\n" * operators)
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Contents 4 0 R"
        b"/Resources<</Font<</F1<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>>>>>>>",
        b"<</Length %d/Filter/FlateDecode>>stream\n%s\nendstream" % (len(content), content),
    ]
    return objects_pdf(path, objects)


def zipped(path: Path, members: dict[str, str | bytes]) -> Path:
    """An archive with these members."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def with_member(path: Path, name: str, content: str) -> Path:
    """The archive again, with one member more."""
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(name, content)
    return path


def docx(path: Path, *, heading: str, text: str) -> Path:
    """A Word file with a heading and a paragraph."""
    word = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    package = "http://schemas.openxmlformats.org/package/2006"
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    main = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
    rels = "application/vnd.openxmlformats-package.relationships+xml"
    styled = '<w:pPr><w:pStyle w:val="Heading1"/></w:pPr>'
    return zipped(
        path,
        {
            "[Content_Types].xml": f'<Types xmlns="{package}/content-types">'
            f'<Default Extension="rels" ContentType="{rels}"/>'
            f'<Override PartName="/word/document.xml" ContentType="{main}"/></Types>',
            "_rels/.rels": f'<Relationships xmlns="{package}/relationships"><Relationship Id="r1" '
            f'Type="{office}/officeDocument" Target="word/document.xml"/></Relationships>',
            "word/document.xml": f'<w:document xmlns:w="{word}"><w:body>'
            f"<w:p>{styled}<w:r><w:t>{heading}</w:t></w:r></w:p>"
            f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p></w:body></w:document>",
        },
    )


def epub(path: Path, *, title: str, text: str) -> Path:
    """A book of one chapter."""
    container = "urn:oasis:names:tc:opendocument:xmlns:container"
    return zipped(
        path,
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": f'<container xmlns="{container}"><rootfiles>'
            '<rootfile full-path="book.opf"/></rootfiles></container>',
            "book.opf": '<package xmlns="http://www.idpf.org/2007/opf"><metadata '
            f'xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>{title}</dc:title></metadata>'
            '<manifest><item id="c" href="c.xhtml" media-type="application/xhtml+xml"/></manifest>'
            '<spine><itemref idref="c"/></spine></package>',
            "c.xhtml": f"<html><body><h1>{title}</h1><p>{text}</p></body></html>",
        },
    )


def objects_pdf(path: Path, objects: list[bytes]) -> Path:
    """A PDF of these objects, numbered from 1; the first is its catalog."""
    data, places = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(data))
        data += b"%d 0 obj%s endobj\n" % (number, body)
    start = len(data)
    data += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    data += b"".join(b"%010d 00000 n \n" % place for place in places)
    data += b"trailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % (len(objects) + 1, start)
    path.write_bytes(data)
    return path


def stream(content: bytes, entries: bytes = b"") -> bytes:
    """A compressed stream as an object."""
    packed = zlib.compress(content)
    return b"<</Length %d/Filter/FlateDecode%s>>stream\n%s\nendstream" % (
        len(packed), entries, packed,
    )  # fmt: skip


def many_pages_pdf(path: Path, contents: list[bytes], n_pages: int) -> Path:
    """A PDF of so many pages, which take turns with these contents."""
    first, n_contents = 4, len(contents)
    kids = b" ".join(b"%d 0 R" % (first + n_contents + i) for i in range(n_pages))
    pages = [
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents %d 0 R"
        b"/Resources<</Font<</F1 3 0 R>>>>>>" % (first + i % n_contents)
        for i in range(n_pages)
    ]
    return objects_pdf(
        path,
        [
            b"<</Type/Catalog/Pages 2 0 R>>",
            b"<</Type/Pages/Kids[%s]/Count %d>>" % (kids, n_pages),
            b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
            *map(stream, contents),
            *pages,
        ],
    )


def right_to_left_pdf(path: Path, shown: str) -> Path:
    """A PDF that draws these letters from left to right, as PDFs do with Hebrew, too."""
    letters = sorted(set(shown))
    codes = bytes(33 + letters.index(letter) for letter in shown)
    ranges = b"\n".join(b"<%02x> <%04x>" % (33 + i, ord(c)) for i, c in enumerate(letters))
    to_unicode = (
        b"/CIDInit /ProcSet findresource begin 12 dict begin begincmap\n"
        b"1 begincodespacerange <00> <ff> endcodespacerange\n"
        b"%d beginbfchar\n%s\nendbfchar\nendcmap end end" % (len(letters), ranges)
    )
    return objects_pdf(
        path,
        [
            b"<</Type/Catalog/Pages 2 0 R>>",
            b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
            b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents 4 0 R"
            b"/Resources<</Font<</F1 5 0 R>>>>>>",
            stream(b"BT /F1 12 Tf 50 700 Td <%s> Tj ET" % codes.hex().encode()),
            b"<</Type/Font/Subtype/TrueType/BaseFont/Some/ToUnicode 6 0 R>>",
            stream(to_unicode),
        ],
    )


def pdf_with_attachment(path: Path, text: str, name: str) -> Path:
    """A PDF that carries a file of this name."""
    writer = PdfWriter(clone_from=PdfReader(pdf(path, [text])))
    writer.add_attachment(name, b"written by a PDF")
    writer.write(path)
    return path
