"""What each format becomes, and what is said of a file that cannot be read."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import file_makers as make
import openpyxl
import pptx
import pytest

from lmk_integrations import ConfigError, Document, DocumentError, Failure
from lmk_integrations.ingest.readers import ParserProcess, ReadOptions, read_file
from lmk_integrations.ingest.readers.html import parse_html
from lmk_integrations.records import TextSource, pieces_of


@pytest.fixture(scope="module")
def parser():
    with ParserProcess() as process:
        yield process


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "docs"
    folder.mkdir()
    return folder


@pytest.fixture
def read(root, parser):
    """Write a file below the root, unless it is there, and read it."""

    def reading(name: str, content: bytes | str | None = None, **options):
        path = root / name
        if content is not None:
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        return list(read_file(path, root=root, options=ReadOptions(**options), parser=parser))

    return reading


def only(items) -> Document:
    (item,) = items
    assert isinstance(item, Document), item
    return item


def failed(items) -> Failure:
    (item,) = items
    assert isinstance(item, Failure), item
    return item


def labels(document: Document, kind: str = "page") -> list[tuple[str, str]]:
    """Each mark's label, with the text that begins there."""
    assert all(mark.kind == kind for mark in document.marks)
    return [(mark.label, document.text[mark.start :][:6]) for mark in document.marks]


# -- text ------------------------------------------------------------------------------------


def test_plain_text_is_named_by_its_place(read):
    """The id has the root's name, the source not; nothing in the text changes."""
    document = only(read("a note.txt", "One.\r\n\r\n Two.\n"))
    assert (document.id, document.source) == ("docs/a note.txt", "a note.txt")
    assert (document.text, document.title, document.markup) == (
        "One.\r\n\r\n Two.\n",
        "a note",
        "plain",
    )
    assert not document.notes
    assert not document.metadata


@pytest.mark.parametrize(
    ("name", "text", "markup", "title"),
    [
        ("a.md", "Intro.\n\n# The *title*\n\nText.\n", "markdown", "The *title*"),
        ("a.markdown", "No heading.\n", "markdown", "a"),
        ("a.rst", "The title\n=========\n\nText.\n", "rst", "The title"),
        ("a.TXT", "# no heading here\n", "plain", "a"),
    ],
)
def test_the_first_heading_is_the_title(read, name, text, markup, title):
    """By the markup of the format, else the file's name."""
    document = only(read(name, text))
    assert (document.text, document.markup, document.title) == (text, markup, title)


def test_repairs_and_guesses_are_counted(read):
    """What was done to a text, and how its encoding was found, travels with it."""
    document = only(read("a.txt", "caf\xe9 au lait\0, s'il vous pla\xeet\n".encode("latin-1")))
    assert document.text == "café au lait, s'il vous plaît\n"
    assert document.notes == {"nul_removed": 1, "encoding_guessed": 1}
    assert document.metadata["encoding"] == "cp1252"
    assert 0 < document.metadata["encoding_confidence"] < 1


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-8-sig", "utf-32"])
@pytest.mark.parametrize("large", [False, True])
def test_unicode_of_every_kind(read, encoding, large):
    """With and without marks, held in memory or not."""
    text = "Grüße, κόσμε 😀\n" * 20
    document = only(read("a.txt", text.encode(encoding), large_file_bytes=1 if large else 1 << 20))
    assert "".join(pieces_of(document.text)) == text
    assert not document.notes


def test_an_encoding_given_is_used(read):
    """And a file that is not in it fails, naming the option."""
    data = "Привет".encode("cp1251")
    assert failed(read("a.txt", data)).reason == "encoding"
    assert only(read("a.txt", data, encoding="windows-1251")).text == "Привет"
    failure = failed(read("a.txt", data, encoding="utf-8"))
    assert failure.reason == "encoding"
    assert "--encoding" in failure.message
    assert not failure.skipped


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.txt", "", "empty"),
        ("a.md", " \n\t\u2003\n", "empty"),
        ("a.txt", "\0\0", "empty"),
        ("a.html", "", "empty"),
        ("a.pdf", "", "empty"),
        ("a.json", " ", "empty"),
        ("a.jsonl", "\n\n", "empty"),
        ("a.json", "[]", "empty"),
        ("a.txt", bytes(range(256)) * 9, "binary"),
        ("a.txt", b"%PDF-1.4 ...", "binary"),
        ("a.jsonl", bytes(range(256)) * 9, "binary"),
        ("a.exe", "MZ", "unsupported"),
        ("Makefile", "all:", "unsupported"),
        ("a.html", "<nav>Home</nav><script>x()</script>", "no_text"),
    ],
)
def test_nothing_to_store_is_skipped_with_a_reason(read, name, content, reason):
    """It is no failure of reading, but it shows."""
    failure = failed(read(name, content))
    assert (failure.reason, failure.skipped, failure.name) == (reason, True, f"docs/{name}")


def test_an_unsupported_file_names_its_suffix(read):
    """So that it can be excluded."""
    assert ".exe" in failed(read("a.exe", "MZ")).message


def test_max_bytes(read):
    """A file above it is skipped unread, one at it is not."""
    assert failed(read("a.txt", "12345", max_bytes=4)).reason == "too_large"
    assert only(read("a.txt", "12345", max_bytes=5)).text == "12345"


def test_what_is_no_file_or_not_there(read, root):
    """Reading a pipe would wait for ever."""
    os.mkfifo(root / "pipe.txt")
    assert failed(read("pipe.txt")).reason == "unsupported"
    assert failed(read("gone.txt")).reason == "missing"
    (root / "folder.txt").mkdir()
    assert failed(read("folder.txt")).reason == "unsupported"


def test_a_name_that_is_no_unicode(root, parser):
    """Its bytes are written out: ids must be valid text."""
    path = Path(os.fsdecode(os.fsencode(root) + b"/caf\xe9.txt"))
    path.write_text("text")
    document = only(read_file(path, root=root, options=ReadOptions(), parser=parser))
    assert document.id == "docs/caf\\xe9.txt"


# -- large text ------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "cp1252", "gb18030"])
def test_a_large_text_comes_in_pieces_that_are_the_whole(read, encoding):
    """Bounded pieces, the same in every pass, whatever character a block's end cuts."""
    line = {"cp1252": "Où est le café ? C’est là.\n", "gb18030": "中文文本在这里。一起去。\n"}.get(
        encoding, "Grüße 😀 和平。\n"
    )
    text = "x" + line * 100_000
    data = text.encode(encoding)
    assert len(data) > 2 << 20
    document = only(read("a.md", "# T\n".encode(encoding) + data if encoding != "utf-16" else data,
                         large_file_bytes=1 << 20))  # fmt: skip
    assert isinstance(document.text, TextSource)
    for _ in range(2):
        pieces = list(document.text.pieces())
        assert "".join(pieces).removeprefix("# T\n") == text
        assert len(pieces) > 2
        assert max(map(len, pieces)) <= 1 << 20
    assert document.title == ("a" if encoding == "utf-16" else "T")
    assert document.notes.get("encoding_guessed", 0) == (encoding not in ("utf-8", "utf-16"))


def test_the_threshold_is_a_size_in_bytes(read):
    """At it a text is held, above it not."""
    assert isinstance(only(read("a.txt", "12345", large_file_bytes=5)).text, str)
    assert isinstance(only(read("a.txt", "12345", large_file_bytes=4)).text, TextSource)


def test_a_large_text_is_repaired_in_every_pass(read):
    """Pairs that a block's end cuts too; the counts are those of one pass."""
    half = "\ud83d".encode("utf-8", "surrogatepass"), "\ude00".encode("utf-8", "surrogatepass")
    data = b"a" * ((1 << 19) - 3) + half[0] + half[1] + b"\0b" + half[0]
    document = only(read("a.txt", data, large_file_bytes=1))
    mended = {"surrogates_paired": 1, "surrogates_dropped": 1, "nul_removed": 1}
    assert document.notes == {**mended, "unbroken_chars": (1 << 19) - 3}
    for _ in range(2):
        assert "".join(document.text.pieces()) == "a" * ((1 << 19) - 3) + "😀b"


@pytest.mark.parametrize("keep_times", [False, True])
def test_a_large_text_that_changes_between_passes_is_found_out(read, root, keep_times):
    """By its size and times, and if they are as before, by its content."""
    document = only(read("a.txt", "one " * 1000, large_file_bytes=1))
    list(document.text.pieces())
    path = root / "a.txt"
    before = path.stat()
    with path.open("r+b") as file:
        file.write(b"two ")
    if keep_times:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    else:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    with pytest.raises(DocumentError) as caught:
        list(document.text.pieces())
    assert caught.value.reason == "changed"


def test_large_files_fail_as_small_ones_do(read):
    """Blank, binary, undecodable."""
    for content, reason in ((b" \n" * 50, "empty"), (bytes(range(256)) * 9, "binary")):
        assert failed(read("a.txt", content, large_file_bytes=1)).reason == reason
    data = "Привет".encode("cp1251")
    assert failed(read("a.txt", data, large_file_bytes=1)).reason == "encoding"
    assert failed(read("a.txt", data, large_file_bytes=1, encoding="utf-8")).reason == "encoding"


# -- html ------------------------------------------------------------------------------------


def test_html_is_what_a_reader_reads(read):
    """Menus and scripts go, blocks stay apart, `pre` keeps its lines, headings are marked."""
    document = only(
        read(
            "a.html",
            """<!DOCTYPE html><html><head><title>The &amp;
            title</title><style>p {}</style></head><body><nav>Home</nav><header>Site</header>
            <main><article><header><h1>Big <em>one</em></h1></header>
            <p>One   two
            three<br>four &lt;b&gt;</p><pre>
  def f():
      return 1
</pre><ul><li>a</li><li>b</li></ul><table><tr><td>1</td><td>2</td></tr><tr><td>3</td></tr></table>
            <h2>Sub<br>title</h2>un<b>broken</b> word<div hidden>no</div></article></main>
            <aside>ad</aside><script>'<p>no</p>'</script><footer>Imprint</footer></body></html>""",
        )
    )
    assert document.title == "The & title"
    assert document.text == (
        "Big one\n\nOne two three\nfour <b>\n\n  def f():\n      return 1\n\na\nb\n\n1 2\n3\n\n"
        "Sub\ntitle\n\nunbroken word"
    )
    assert labels(document, "heading") == [("Big one", "Big on"), ("Sub title", "Sub\nti")]


def test_html_of_any_depth_is_read_whole(read):
    """The parser's tree would end at a depth of about 2,000, in silence."""
    for depth in (5_000, 100_000):
        text = "<div>" * depth + "deep" + "</div>" * depth + "<p>after"
        assert only(read("a.htm", text)).text == "deep\n\nafter"


def test_html_says_its_encoding_unless_it_is_utf8(read):
    """A page's own word comes after UTF-8, and before a guess."""
    page = '<meta charset="shift_jis"><p>猫'
    assert only(read("a.html", page.encode("cp932"))).text == "猫"
    assert only(read("a.html", page.encode())).text == "猫"
    assert only(read("a.html", b"<?xml version='1.0' encoding='latin-1'?><p>\xc3\xa9")).text == "é"


def test_html_surrogates_and_nul_are_counted():
    """As in any other text."""
    parsed = parse_html("<p>a\0b\ud83d\ude00".encode("utf-8", "surrogatepass"))
    assert parsed.text == "ab😀"
    assert parsed.notes == {"nul_removed": 1, "surrogates_paired": 1}


def test_large_html_is_parsed_in_the_child(read, parser):
    """With the same result, under its limits."""
    page = "<title>T</title><h1>H</h1><p>text"
    small, large = only(read("a.html", page)), only(read("a.html", page, large_file_bytes=1))
    assert small == large


# -- pdf -------------------------------------------------------------------------------------


def test_pdf_pages_are_marked(read, root):
    """Pages a blank line apart, each mark at its page; pages without text are counted."""
    make.pdf(root / "a.pdf", ["First page.", "", "Third page."], title="A title")
    document = only(read("a.pdf"))
    assert document.text == "First page.\n\nThird page."
    assert labels(document) == [("1", "First "), ("3", "Third ")]
    assert (document.title, document.notes) == ("A title", {"pages_without_text": 1})


def test_pdf_pages_have_the_labels_of_the_file(read, root):
    """What is printed on the page, not how many came before it."""
    make.labelled_pdf(root / "a.pdf", ["Preface", "More", "Body"], roman=2)
    document = only(read("a.pdf"))
    assert labels(document) == [("i", "Prefac"), ("ii", "More\n\n"), ("1", "Body")]
    assert document.title == "a"


@pytest.mark.parametrize("algorithm", ["RC4-128", "AES-256"])
def test_an_encrypted_pdf_needs_its_password(read, root, algorithm):
    """Without it the error says what to pass; a wrong one is not shown."""
    make.encrypted_pdf(root / "a.pdf", "secret text", user="pw", algorithm=algorithm)
    for password in (None, "hunter2"):
        failure = failed(read("a.pdf", pdf_password=password))
        assert (failure.reason, failure.skipped) == ("encrypted", False)
        assert "--pdf-password" in failure.message
        assert "hunter2" not in repr(failure)
    assert only(read("a.pdf", pdf_password="pw")).text == "secret text"


def test_a_pdf_that_only_forbids_printing_is_read(read, root):
    """It opens without a password, also where one is given for others."""
    make.encrypted_pdf(root / "a.pdf", "open text", user="")
    for password in (None, "for another file"):
        assert only(read("a.pdf", pdf_password=password)).text == "open text"


def test_a_scan_has_no_text(read, root):
    """It names the pages, and is not stored as an empty text."""
    make.pdf(root / "a.pdf", ["", "", ""])
    failure = failed(read("a.pdf"))
    assert (failure.reason, failure.skipped) == ("no_text", True)
    assert "pages 1 to 3" in failure.message


def test_a_damaged_pdf(read, root):
    """Cut short, or no PDF at all."""
    whole = make.pdf(root / "a.pdf", ["text"]).read_bytes()
    for content in (whole[: len(whole) // 3], b"plain text", b"%PDF-1.7\n"):
        assert failed(read("b.pdf", content)).reason == "corrupt"


def test_a_damaged_page_does_not_take_the_others_with_it(read, root):
    """What can be read is stored, and the page that cannot is a failure of its own."""
    make.pdf_with_damaged_page(root / "a.pdf", ["First page.", "Second page."])
    document, problem = read("a.pdf")
    assert (document.text, labels(document)) == ("Second page.", [("2", "Second")])
    assert (problem.name, problem.reason) == ("docs/a.pdf#1", "page_unreadable")
    assert not problem.skipped


def test_an_endless_pdf_ends(read, root, parser):
    """By the clock; the next file is read by a new child."""
    make.exploding_pdf(root / "bomb.pdf")
    make.pdf(root / "a.pdf", ["text"])
    failure = failed(read("bomb.pdf", pdf_timeout_s=0.5))
    assert (failure.reason, failure.skipped) == ("timeout", False)
    assert only(read("a.pdf")).text == "text"


def test_an_exploding_pdf_ends(read, root):
    """By its memory, which it takes beyond what the parser has; the next file is read."""
    make.exploding_pdf(root / "bomb.pdf")
    make.pdf(root / "a.pdf", ["text"])
    failure = failed(read("bomb.pdf", memory_limit_mb=64))
    assert (failure.reason, failure.skipped) == ("memory", False)
    assert only(read("a.pdf")).text == "text"


def test_a_limit_does_not_outlast_its_file(root):
    """The libraries of the next kind of file are loaded without it."""
    make.pdf(root / "a.pdf", ["text"])
    make.epub(root / "b.epub", title="T", text="Read.")
    options = ReadOptions(memory_limit_mb=64)
    with ParserProcess() as parser:
        only(read_file(root / "a.pdf", root=root, options=options, parser=parser))
        wide = ReadOptions(memory_limit_mb=512)
        assert (
            "Read." in only(read_file(root / "b.epub", root=root, options=wide, parser=parser)).text
        )


def test_the_child_is_kept_warm(root):
    """One process for many files, ended with its parent's work; one that died is replaced."""
    make.pdf(root / "a.pdf", ["text"])
    with ParserProcess() as parser:

        def read_one():
            return read_file(root / "a.pdf", root=root, options=ReadOptions(), parser=parser)

        only(read_one())
        child = parser._child
        only(read_one())
        assert parser._child is child
        child.kill()
        child.wait()
        only(read_one())
        last = parser._child
    assert last.poll() is not None


def test_a_child_that_dies_over_a_file_costs_that_file(read, root, parser):
    """As when the system takes its memory."""
    make.exploding_pdf(root / "bomb.pdf")
    make.pdf(root / "a.pdf", ["text"])
    only(read("a.pdf"))
    timer = threading.Timer(0.3, parser._child.kill)
    timer.start()
    assert failed(read("bomb.pdf")).reason == "crashed"
    assert only(read("a.pdf")).text == "text"


def test_the_child_is_light():
    """It starts quickly: nothing of the model is loaded to read a file."""
    heavy = ["torch", "transformers", "qdrant_client", "pypdf", "markitdown"]
    code = (
        "import sys, lmk_integrations.ingest.readers.child\n"
        f"print([name for name in {heavy!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# -- json ------------------------------------------------------------------------------------


def test_jsonl_in_the_layout_of_beir(read):
    """_id, title and text; what else there is becomes metadata."""
    lines = [
        {"_id": "d1", "title": "One", "text": "First.", "metadata": {"year": 2001}},
        {"_id": "d2", "title": "", "text": "Second.", "lang": "en"},
    ]
    first, second = read("corpus.jsonl", "\n".join(map(json.dumps, lines)))
    assert (first.id, first.title, first.text) == ("d1", "One", "First.")
    assert first.metadata == {"year": 2001}
    assert (second.id, second.title, second.source) == ("d2", "corpus", "corpus.jsonl")
    assert second.metadata == {"lang": "en"}


@pytest.mark.parametrize("key", ["text", "content", "page_content", "body"])
def test_the_keys_of_a_text(read, key):
    """As the common tools write them; without an id, the line's number is the name."""
    document = only(read("a.jsonl", "\n" + json.dumps({key: "Text.", "id": 0, "url": "http://x"})))
    assert (document.text, document.id, document.source) == ("Text.", "0", "http://x")
    assert only(read("a.jsonl", "\n" + json.dumps({key: "Text."}))).id == "docs/a.jsonl#2"


def test_a_bad_line_fails_alone(read):
    """Each with a reason and its line; the rest goes on."""
    lines = [
        b'{"text": "good", "id": "a"}',
        b"{broken",
        b'{"text": "caf\xe9"}',
        b"[1]",
        b'{"title": "no text"}',
        b'{"text": 5}',
        b'{"text": "  "}',
        b'{"text": "t", "id": ["x"]}',
        b'{"text": "t", "x": ' + b"[" * 5000 + b"]" * 5000 + b"}",
        b'{"text": "t", "x": ' + b"[" * 100 + b"]" * 100 + b"}",
        b'{"text": "t", "n": ' + b"9" * 5000 + b"}",
        b'{"text": "last \\ud83d\\ude00\\ud800", "id": "z"}',
    ]
    first, *bad, last = read("a.jsonl", b"\n".join(lines))
    assert first.text == "good"
    assert [(item.name, item.reason) for item in bad] == [
        ("docs/a.jsonl#2", "invalid_json"),
        ("docs/a.jsonl#3", "encoding"),
        ("docs/a.jsonl#4", "invalid"),
        ("docs/a.jsonl#5", "invalid"),
        ("docs/a.jsonl#6", "invalid"),
        ("docs/a.jsonl#7", "empty"),
        ("docs/a.jsonl#8", "invalid"),
        ("docs/a.jsonl#9", "too_deep"),
        ("docs/a.jsonl#10", "too_deep"),
        ("docs/a.jsonl#11", "invalid_json"),
    ]
    assert [item.skipped for item in bad] == [item.reason == "empty" for item in bad]
    assert (last.text, last.notes) == ("last 😀", {"surrogates_dropped": 1})


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-32"])
def test_jsonl_in_other_unicode(read, encoding):
    """By its mark, or as UTF-16 shows."""
    text = "".join(
        json.dumps({"text": f"Grüße {i}"}, ensure_ascii=False) + "\r\n" for i in range(9)
    )
    documents = read("a.jsonl", text.encode(encoding))
    assert [document.text for document in documents] == [f"Grüße {i}" for i in range(9)]


def test_jsonl_in_an_encoding_given(read):
    """Line by line, as any."""
    assert only(read("a.jsonl", b'{"text": "caf\xe9"}', encoding="latin-1")).text == "café"


def test_a_line_without_end_is_not_held(read, monkeypatch):
    """A line longer than the limit is a failure, and the next one is read."""
    monkeypatch.setattr("lmk_integrations.ingest.readers.jsonl.MAX_LINE_BYTES", 100)
    for encoding in ("utf-8", "utf-16"):
        text = '{"text": "a"}\n{"text": "' + "b" * 1000 + '"}\n{"text": "c"}'
        first, long, last = read("a.jsonl", text.encode(encoding))
        assert (first.text, last.text, last.id) == ("a", "c", "docs/a.jsonl#3")
        assert (long.name, long.reason) == ("docs/a.jsonl#2", "too_large")


def test_json_is_one_object_or_a_list(read):
    """The one has the file's name, the others their number."""
    document = only(read("a.json", '{"title": "T", "body": "Text.", "x": {"y": 1}}'))
    assert (document.id, document.title, document.text) == ("docs/a.json", "T", "Text.")
    assert document.metadata == {"x": {"y": 1}}
    first, second, bad = read("a.json", '[{"text": "1"}, {"text": "2", "id": "two"}, null]')
    assert (first.id, second.id) == ("docs/a.json#1", "two")
    assert (bad.name, bad.reason) == ("docs/a.json#3", "invalid")


@pytest.mark.parametrize(
    ("content", "reason"),
    [("{", "invalid_json"), ("[" * 100_000, "too_deep"), ('{"a": 1}', "invalid"), ("5", "invalid")],
)
def test_json_that_cannot_be_used(read, content, reason):
    """Deep nesting cannot exhaust the stack."""
    assert failed(read("a.json", content)).reason == reason


def test_json_that_is_too_large_is_a_failure(read, monkeypatch):
    """It is our limit, not the user's: nothing is lost in silence."""
    monkeypatch.setattr("lmk_integrations.ingest.readers.json_file.MAX_BYTES", 10)
    failure = failed(read("a.json", '{"text": "some text"}'))
    assert (failure.reason, failure.skipped) == ("too_large", False)
    assert ".jsonl" in failure.message


# -- office ----------------------------------------------------------------------------------


def test_office_files_become_markdown(read, root):
    """Word, PowerPoint, Excel and EPUB, titled by the file or its first heading."""
    make.docx(root / "a.docx", heading="Heading", text="Body text.")
    document = only(read("a.docx"))
    assert (document.text, document.markup) == ("# Heading\n\nBody text.", "markdown")
    assert document.title == "Heading"

    make.epub(root / "a.epub", title="A book", text="Chapter text.")
    document = only(read("a.epub"))
    assert document.title == "A book"
    assert "Chapter text." in document.text

    book = openpyxl.Workbook()
    book.active.append(["name", "value"])
    book.active.append(["x", 3])
    book.save(root / "a.xlsx")
    assert "| x | 3 |" in only(read("a.xlsx")).text

    slides = pptx.Presentation()
    slides.slides.add_slide(slides.slide_layouts[0]).shapes.title.text = "Slide title"
    slides.save(root / "a.pptx")
    assert only(read("a.pptx")).title == "Slide title"


def test_a_zip_bomb_is_not_unpacked(read, root, monkeypatch):
    """By what comes out, not by what the archive says."""
    make.zipped(root / "ratio.docx", {"word/document.xml": b"a" * (10 << 20)})
    failure = failed(read("ratio.docx"))
    assert (failure.reason, failure.skipped) == ("zip_bomb", False)
    make.zipped(root / "many.docx", {f"m{i}": b"" for i in range(10_001)})
    assert failed(read("many.docx")).reason == "zip_bomb"


def test_a_zip_bomb_that_lies_about_its_size(read, root):
    """Its directory says one byte."""
    path = make.zipped(root / "a.docx", {"word/document.xml": b"a" * (10 << 20)})
    size = (10 << 20).to_bytes(4, "little")
    path.write_bytes(path.read_bytes().replace(size, (1).to_bytes(4, "little")))
    assert failed(read("a.docx")).reason in ("zip_bomb", "corrupt")


@pytest.mark.parametrize("name", ["a.docx", "a.pptx", "a.xlsx", "a.epub"])
def test_a_damaged_office_file(read, root, name):
    """No archive, one of something else, one that is cut short."""
    make.zipped(root / "x.zip", {"x": b"text" * 100})
    whole = (root / "x.zip").read_bytes()
    for content in (b"text", whole, whole[: len(whole) // 2]):
        failure = failed(read(name, content))
        assert failure.reason == "corrupt"
        assert str(root) not in failure.message


# -- options ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        {"include": "*.md"},
        {"only": "docs/a.md"},
        {"only": (7,)},
        {"exclude": ("",)},
        {"encoding": "no-such"},
        {"encoding": "base64"},
        {"max_bytes": -1},
        {"max_bytes": True},
        {"memory_limit_mb": 1},
        {"pdf_timeout_s": 0},
        {"large_file_bytes": 0},
        {"follow_symlinks": "yes"},
        {"pdf_password": 5},
    ],
    ids=str,
)
def test_a_wrong_option_is_named(wrong):
    """Before anything is read."""
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        ReadOptions(**wrong)


def test_options_are_fixed_and_keep_the_password():
    """It shows nowhere; unknown options fail."""
    options = ReadOptions(pdf_password="hunter2", include=["*.md"])
    assert "hunter2" not in repr(options)
    assert options.include == ("*.md",)
    with pytest.raises(AttributeError):
        options.encoding = "utf-8"
    with pytest.raises(TypeError):
        ReadOptions(unknown=1)
