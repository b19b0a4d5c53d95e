"""What is read from folders, framework documents and iterables, in which order, by which name."""

import datetime
import os
import subprocess
import sys
import uuid
from pathlib import Path

import file_makers as make
import numpy as np
import pytest
from langchain_core.document_loaders import BaseLoader
from langchain_core.documents import Document as LangChainDocument
from llama_index.core import Document as LlamaDocument
from llama_index.core import SimpleDirectoryReader
from llama_index.core.schema import TextNode

from lmk_integrations import Document, Failure, Mark
from lmk_integrations.ingest.sources import READER_VERSION, ReadOptions, Sources


def read(sources, **options) -> list:
    return list(Sources(sources, ReadOptions(**options)).documents())


def names(items) -> list[str]:
    return [item.name if isinstance(item, Failure) else item.id for item in items]


def failures(items) -> list[tuple[str, str, bool]]:
    found = [item for item in items if isinstance(item, Failure)]
    return [(item.name, item.reason, item.skipped) for item in found]


@pytest.fixture
def root(tmp_path) -> Path:
    """A folder with two files at its top, and one in each of two folders below it."""
    folder = tmp_path / "docs"
    for name in ("b.txt", "a.md", "sub/c.txt", "Sub2/deep/d.rst"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"text of {name}")
    return folder


ALL = ["docs/Sub2/deep/d.rst", "docs/a.md", "docs/b.txt", "docs/sub/c.txt"]


# -- paths -----------------------------------------------------------------------------------


def test_a_folder_is_walked_in_one_order(root, monkeypatch):
    """Sorted, however the file system lists it; ids are the root's name and the path below."""
    assert names(read(root)) == ALL
    listdir = os.listdir
    monkeypatch.setattr(os, "listdir", lambda path: listdir(path)[::-1])
    assert names(read(str(root))) == ALL


def test_the_root_is_named_whatever_way_it_is_given(root, monkeypatch):
    """ids must not depend on the directory the command runs in."""
    monkeypatch.chdir(root)
    assert names(read(".")) == ALL
    assert names(read("../docs/")) == ALL
    assert names(read("sub")) == ["sub/c.txt"]


def test_a_single_file_is_named_by_its_folder(root):
    """The id that it has when its folder is ingested; it is no root to prune."""
    sources = Sources([root / "b.txt", str(root / "sub" / "c.txt")])
    assert names(sources.documents()) == ["docs/b.txt", "sub/c.txt"]
    assert sources.complete_roots == ()


def test_hidden_entries_are_left_out(root):
    """Files and folders."""
    (root / ".hidden.txt").write_text("x")
    (root / ".git").mkdir()
    (root / ".git" / "a.txt").write_text("x")
    assert names(read(root)) == ALL


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"include": ("*.txt",)}, ["docs/b.txt", "docs/sub/c.txt"]),
        ({"include": ("a.*", "sub/*")}, ["docs/a.md", "docs/sub/c.txt"]),
        ({"exclude": ("*.txt",)}, ["docs/Sub2/deep/d.rst", "docs/a.md"]),
        ({"exclude": ("sub",)}, ALL[:3]),
        ({"exclude": ("Sub2/*",)}, ALL[1:]),
        ({"exclude": ("Sub2/", "**/b.txt", "**/sub/*")}, ["docs/a.md"]),
        ({"include": ("*.txt",), "exclude": ("b.*",)}, ["docs/sub/c.txt"]),
        ({"include": ("c.txt",), "exclude": ("deep",)}, ["docs/sub/c.txt"]),
    ],
    ids=str,
)
def test_globs_choose_files(root, options, expected):
    """On the path below the root or the name; an excluded folder is not entered."""
    sources = Sources(root, ReadOptions(**options))
    assert names(sources.documents()) == expected
    assert sources.complete_roots == ("docs",)


def test_a_file_given_by_name_is_read_whatever_the_globs(root):
    """Globs choose among the files of folders."""
    assert names(read(root / "b.txt", include=("*.md",))) == ["docs/b.txt"]


def test_links_are_not_followed(root, tmp_path):
    """Not to a file, not to a folder; each shows."""
    (root / "l.txt").symlink_to(root / "b.txt")
    (root / "m").symlink_to(root / "sub")
    items = read(root)
    assert names(items) == [*ALL[:3], "docs/l.txt", "docs/m", ALL[3]]
    assert failures(items) == [("docs/l.txt", "symlink", True), ("docs/m", "symlink", True)]


def test_links_never_lead_outside(root, tmp_path):
    """Also where links are followed: not to a file, a folder, or through another link."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text("secret")
    (root / "l.txt").symlink_to(outside / "secret.txt")
    (root / "m").symlink_to(outside)
    (root / "n").symlink_to(root / "m")
    (root / "up").symlink_to("..")
    items = read(root, follow_symlinks=True)
    assert failures(items) == [
        (f"docs/{name}", "outside", True) for name in ("l.txt", "m", "n", "up")
    ]
    assert not any("secret" in item.text for item in items if isinstance(item, Document))


def test_links_inside_are_followed_once_around(root):
    """If asked for; loops end, and links to nothing are told."""
    (root / "l.txt").symlink_to("b.txt")
    (root / "m").symlink_to("sub")
    (root / "sub" / "loop").symlink_to("..")
    (root / "x").symlink_to("x")
    (root / "y").symlink_to("nothing")
    items = read(root, follow_symlinks=True)
    documents = [item for item in items if isinstance(item, Document)]
    assert names(documents) == [*ALL[:3], "docs/l.txt", "docs/m/c.txt", ALL[3]]
    assert {reason for _, reason, _ in failures(items)} == {"symlink"}
    assert [name for name, _, _ in failures(items)] == [
        "docs/m/loop",
        "docs/sub/loop",
        "docs/x",
        "docs/y",
    ]


def test_a_folder_given_by_a_link_is_walked(root, tmp_path):
    """The user named it; its documents have the name of the folder it is."""
    (tmp_path / "link").symlink_to(root)
    assert names(read(tmp_path / "link")) == ALL


def test_what_is_not_there(tmp_path):
    """A failure in its place, for a text in an iterable too."""
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "a.txt").write_text("x")
    items = read([tmp_path / "gone", str(tmp_path / "d"), "no/such.txt", "a\0b"])
    assert [reason for _, reason, _ in failures(items)] == ["missing"] * 3
    assert isinstance(items[1], Document)


def test_one_bad_file_does_not_stop_the_rest(root):
    """Failures come in the place of the file."""
    (root / "b.txt").write_bytes(bytes(range(256)) * 9)
    (root / "a.md").write_text("")
    make.encrypted_pdf(root / "c.pdf", "x", user="u")
    items = read(root)
    assert names(items) == [*ALL[:3], "docs/c.pdf", ALL[3]]
    assert failures(items) == [
        ("docs/a.md", "empty", True),
        ("docs/b.txt", "binary", True),
        ("docs/c.pdf", "encrypted", False),
    ]


# -- only some of them ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("only", "expected"),
    [
        ((), []),
        (("docs/b.txt",), ["docs/b.txt"]),
        (("docs/sub",), ["docs/sub/c.txt"]),
        (("docs",), [*ALL[:3], "docs/e#f.txt", "docs/sub/c.txt", "docs/z.jsonl#1", "own"]),
        (("docs/z.jsonl#1",), ["docs/z.jsonl#1", "own"]),
        (("own",), ["own"]),
        (("docs/e#f.txt",), ["docs/e#f.txt"]),
    ],
)
def test_only_what_failed_is_read_again(root, only, expected):
    """By the ids of a report: files, folders, the files of entries, entries by their own id."""
    (root / "e#f.txt").write_text("text")
    (root / "z.jsonl").write_text('{"text": "x"}\n{"text": "y", "id": "own"}\n')
    (root / "link.txt").symlink_to("b.txt")
    sources = Sources(root, ReadOptions(only=only))
    items = [item for item in sources.documents() if names([item]) != ["docs/link.txt"]]
    assert names(items) == expected
    if only != ("docs",):
        assert not failures(items)


def test_only_concerns_a_file_given_by_name_too(root):
    """And of links and the like those alone that are asked for."""
    (root / "link.txt").symlink_to("b.txt")
    assert read([root / "b.txt", root], only=["docs/a.md"])[0].id == "docs/a.md"
    assert failures(read(root, only=["docs/link.txt"])) == [("docs/link.txt", "symlink", True)]
    assert failures(read(root, only=["docs/a.md"])) == []


# -- what prune needs ------------------------------------------------------------------------


def test_a_complete_walk_is_known_at_its_end(root):
    """Not before, and again for each call."""
    sources = Sources([root, root / "sub"])
    for _ in range(2):
        reading = sources.documents()
        for _ in range(4):
            next(reading)
        assert sources.complete_roots == ()
        list(reading)
        assert sources.complete_roots == ("docs", "sub")
        assert sources.seen_ids == {*ALL, "sub/c.txt"}


def test_a_folder_that_cannot_be_listed_makes_the_walk_incomplete(root, monkeypatch):
    """What is in it may still be there."""
    listdir = os.listdir

    def refusing(path):
        if Path(path).name == "sub":
            raise PermissionError(13, "Permission denied")
        return listdir(path)

    monkeypatch.setattr(os, "listdir", refusing)
    sources = Sources(root)
    items = list(sources.documents())
    assert failures(items) == [("docs/sub", "unreadable", False)]
    assert names(items)[:3] == ALL[:3]
    assert sources.complete_roots == ()


def test_roots_of_one_name_are_complete_together(tmp_path, monkeypatch):
    """Their ids begin alike: one that is not complete keeps the other from being pruned."""
    for parent in ("x", "y"):
        (tmp_path / parent / "docs" / "sub").mkdir(parents=True)
        (tmp_path / parent / "docs" / f"{parent}.txt").write_text("text")
    listdir = os.listdir

    def refusing(path):
        if Path(path) == tmp_path / "x" / "docs" / "sub":
            raise PermissionError(13, "Permission denied")
        return listdir(path)

    monkeypatch.setattr(os, "listdir", refusing)
    for order in ("xy", "yx"):
        sources = Sources([tmp_path / parent / "docs" for parent in order])
        list(sources.documents())
        assert sources.complete_roots == ()


def test_seen_is_what_is_there(root):
    """Failed ones and left out ones too: they are not gone."""
    (root / "b.txt").write_bytes(bytes(range(256)) * 9)
    (root / "l.txt").symlink_to("b.txt")
    (root / "data.jsonl").write_text('{"text": "x"}\n{broken\n{"text": "y", "id": "own"}\n')
    sources = Sources(root, ReadOptions(exclude=("*.md",)))
    list(sources.documents())
    assert sources.seen_ids == {*ALL, "docs/l.txt", "docs/data.jsonl#1", "docs/data.jsonl#2", "own"}


# -- our documents, iterables ----------------------------------------------------------------


def test_a_mixed_iterable(root):
    """Paths, documents of all three kinds, nested iterables and generators, in their order."""

    def generator():
        yield Document("ours", id="d1")
        yield [str(root / "b.txt"), LangChainDocument("lang", id="d2")]
        yield LlamaDocument(text="llama", id_="d3")
        yield (Document(f"n{i}", id=f"n{i}") for i in range(2))

    assert names(read(generator())) == ["d1", "docs/b.txt", "d2", "d3", "n0", "n1"]
    assert names(read(Document("one", id="x"))) == ["x"]
    assert names(read(())) == []


def test_a_generator_is_read_as_it_goes():
    """One document at a time: it may be endless."""

    def endless():
        for i in range(10**9):
            yield Document("text", id=f"d{i}")

    reading = Sources(endless()).documents()
    assert [next(reading).id for _ in range(3)] == ["d0", "d1", "d2"]


def test_an_error_of_a_generator_ends_that_source_only(root):
    """What it gave is kept, and what comes after it is read."""

    def broken():
        yield Document("text", id="d1")
        raise RuntimeError("the database went away")

    items = read([broken(), root / "b.txt"])
    assert names(items) == ["d1", "generator", "docs/b.txt"]
    assert items[1].reason == "source_error"
    assert "the database went away" in items[1].message
    assert not items[1].skipped


@pytest.mark.parametrize("odd", [None, 5, b"bytes", {"text": "x"}, object()], ids=type)
def test_what_cannot_be_ingested_is_named(odd):
    """And the next one is read."""
    items = read([odd, Document("x", id="d")])
    assert [(item.name, item.reason) for item in items[:1]] == [(type(odd).__name__, "unsupported")]
    assert items[1].id == "d"


def test_a_document_that_breaks_is_a_failure():
    """Whatever its own code raises."""

    class Broken:
        metadata: dict = {}  # noqa: RUF012
        id_ = "x"

        def get_content(self):
            raise ZeroDivisionError

    for sources in (Broken(), [Broken()]):
        assert failures(read(sources)) == [("Broken", "invalid", False)]
    items = read([Document("x", id=["odd"]), Document("x"), Document("y", id="d")])
    assert items[2].id == "d"


def test_an_endless_nesting_ends():
    """A list in itself."""
    loop: list = []
    loop.append(loop)
    assert [item.reason for item in read(loop)] == ["unsupported"]


def test_a_second_document_of_an_id_is_refused(root, tmp_path):
    """It would take the first one's place."""
    items = read([Document("1", id="a"), Document("2", source="a"), LangChainDocument("3", id="a")])
    assert [getattr(item, "reason", None) for item in items] == [None, *["duplicate_id"] * 2]
    assert not items[1].skipped
    other = tmp_path / "other" / "docs"
    other.mkdir(parents=True)
    (other / "b.txt").write_text("another")
    items = read([root, other])
    assert failures(items) == [("docs/b.txt", "duplicate_id", False)]


def test_a_file_given_twice_is_read_once(root):
    """Nothing is wrong with that."""
    assert failures(read([root, root / "b.txt"])) == [("docs/b.txt", "duplicate_id", True)]


def test_documents_are_mended_and_counted():
    """Text, marks, title and metadata; what reading had noted is kept."""
    given = Document(
        "a\0\ud83d\ude00\ud800b",
        id="d",
        title="T\0",
        metadata={"k\0": "v\ud800"},
        marks=(Mark(5, "heading", "b"),),
        notes={"nul_removed": 1},
    )
    (document,) = read(given)
    assert (document.text, document.title, document.metadata) == ("a😀b", "T", {"k": "v"})
    assert document.marks == (Mark(2, "heading", "b"),)
    assert document.notes == {
        "nul_removed": 3,
        "surrogates_paired": 1,
        "surrogates_dropped": 2,
    }


def test_a_sound_text_is_not_copied():
    """The fast path."""
    text = "sound text"
    assert read(Document(text, id="d"))[0].text is text


def test_a_source_of_the_users_own_is_mended_in_every_pass():
    """And counted once, when it has been read."""

    class Pieces:
        def pieces(self):
            yield from ("a\0\ud83d", "\ude00b", "\ud800")

    (document,) = read(Document(Pieces(), id="d"))
    for _ in range(2):
        assert "".join(document.text.pieces()) == "a😀b"
        assert document.notes == {
            "nul_removed": 1,
            "surrogates_paired": 1,
            "surrogates_dropped": 1,
        }


def test_odd_metadata_is_counted():
    """What JSON has no word for is stored as something else; that shows."""
    metadata = {
        "when": datetime.date(2001, 2, 3),
        "n": [np.float32(2), float("nan")],
        "p": Path("x"),
    }
    (document,) = read(Document("text", id="d", metadata=metadata))
    assert document.notes == {"metadata_converted": 3, "metadata_not_finite": 1}


def test_blank_documents_are_skipped():
    """Of every kind."""
    items = read([Document(" ", id="a"), LangChainDocument("\n", id="b"), LlamaDocument(text="")])
    assert [(item.reason, item.skipped) for item in items] == [("empty", True)] * 3


# -- LangChain -------------------------------------------------------------------------------


def lang(text, page=None, source="/data/a.pdf", **metadata):
    metadata |= {"source": source} if source else {}
    metadata |= {} if page is None else {"page": page}
    return LangChainDocument(text, metadata=metadata)


def test_pages_of_a_langchain_loader_are_one_document():
    """Joined by a blank line, marked; what all pages say is kept, what one says is not."""
    (document,) = read([lang(f"Text {i}.", i, total_pages=3, n=i, creator=["x"]) for i in range(3)])
    assert document.text == "Text 0.\n\nText 1.\n\nText 2."
    assert document.id == document.source == "/data/a.pdf"
    assert document.metadata == {"source": "/data/a.pdf", "total_pages": 3, "creator": ["x"]}
    assert [(m.kind, m.label, document.text[m.start :][:7]) for m in document.marks] == [
        ("page", "0", "Text 0."),
        ("page", "1", "Text 1."),
        ("page", "2", "Text 2."),
    ]


def test_pages_of_several_files_stay_apart():
    """And documents without a source, too."""
    items = read(
        [
            *(lang(f"a{i}", i, "a.pdf") for i in range(2)),
            *(lang(f"b{i}", i, "b.pdf") for i in range(2)),
            lang("c", source=None),
            lang("d", source=None),
        ]
    )
    assert [item.text for item in items] == ["a0\n\na1", "b0\n\nb1", "c", "d"]
    assert items[2].id.startswith("text-")
    assert len({item.id for item in items}) == 4


def test_a_blank_page_is_passed_over():
    """A scanned page among others: no empty lines, no mark."""
    (document,) = read([lang("one", 0), lang(" ", 1), lang("three", 2)])
    assert document.text == "one\n\nthree"
    assert [mark.label for mark in document.marks] == ["0", "2"]


def test_page_labels_are_preferred_to_numbers():
    """As printed; a number counts from nought."""
    pages = [lang("x", 0, page_label="iv"), lang("y", 1, page_label="v")]
    assert [mark.label for mark in read(pages)[0].marks] == ["iv", "v"]


def test_pages_are_mended_where_they_are_joined():
    """A page's mark points at its page after the repair."""
    (document,) = read([lang("a\0b", 0), lang("c\ud800", 1)])
    assert document.text == "ab\n\nc"
    assert [document.text[mark.start] for mark in document.marks] == ["a", "c"]
    assert document.notes == {"nul_removed": 1, "surrogates_dropped": 1}


def test_langchain_ids():
    """An explicit one is kept, and keeps documents apart; else the source, else the text."""
    apart = [LangChainDocument(t, id=t, metadata={"source": "s"}) for t in ("x", "y")]
    assert names(read(apart)) == ["x", "y"]
    given = str(uuid.uuid4())
    assert names(read(LangChainDocument("x", id=given))) == [given]
    assert names(read(lang("x"))) == ["/data/a.pdf"]
    first, second = (names(read(LangChainDocument("same text"))) for _ in range(2))
    assert first == second
    assert first[0].startswith("text-")
    assert len(first[0]) == len("text-") + 16


def test_random_ids_of_pages_yield_to_the_source():
    """They are drawn anew at every load."""
    pages = [lang(f"p{i}", i) for i in range(2)]
    for page in pages:
        page.id = str(uuid.uuid4())
    (document,) = read(pages)
    assert (document.id, document.text) == ("/data/a.pdf", "p0\n\np1")


def test_a_langchain_loader_is_read_lazily():
    """And its error is a failure."""
    loaded = []

    class Loader(BaseLoader):
        def lazy_load(self):
            for i in range(3):
                loaded.append(i)
                yield LangChainDocument(f"text {i}", id=f"d{i}")
            raise OSError("disk")

    reading = Sources(Loader()).documents()
    next(reading)
    assert len(loaded) == 2  # one ahead: it could have been a page of the first
    rest = list(reading)
    assert [getattr(item, "reason", item.id if hasattr(item, "id") else None) for item in rest] == [
        "d1",
        "d2",
        "source_error",
    ]


def test_langchain_titles_and_sources():
    """Shown with results."""
    document = read(LangChainDocument("x", metadata={"source": "http://x/a", "title": "T"}))[0]
    assert (document.title, document.source) == ("T", "http://x/a")


# -- LlamaIndex ------------------------------------------------------------------------------


def llama(text, label=None, path="/data/a.pdf", **options):
    metadata = {"file_path": path} if path else {}
    metadata |= {"page_label": label} if label else {}
    return LlamaDocument(text=text, metadata=metadata, **options)


def test_pages_of_a_llama_index_reader_are_one_document():
    """Their random ids yield to the file."""
    pages = [llama("One.", "1"), llama("Two.", "2")]
    assert pages[0].id_ != pages[1].id_
    (document,) = read(pages)
    assert (document.id, document.source) == ("/data/a.pdf", "/data/a.pdf")
    assert document.text == "One.\n\nTwo."
    assert [(mark.start, mark.label) for mark in document.marks] == [(0, "1"), (6, "2")]
    assert document.metadata == {"file_path": "/data/a.pdf"}


def test_llama_index_ids():
    """A random one yields to the file, or to the text; an explicit one is kept."""
    assert names(read(llama("x"))) == ["/data/a.pdf"]
    assert names(read(llama("x", id_="mine"))) == ["mine"]
    assert names(read([llama("x", "1", id_="m1"), llama("y", "2", id_="m2")])) == ["m1", "m2"]
    first, second = (names(read(llama("same text", path=None))) for _ in range(2))
    assert first == second
    assert first[0].startswith("text-")


def test_nodes_of_one_document_are_joined():
    """By the document they were cut from."""
    parent = LlamaDocument(text="whole", id_="parent")
    nodes = [TextNode(text=text) for text in ("one", "two")]
    for node in nodes:
        node.relationships = {"1": parent.as_related_node_info()}
    (document,) = read(nodes)
    assert (document.id, document.text) == ("parent", "one\n\ntwo")


def test_what_simple_directory_reader_loads(root):
    """The framework's own documents, one for each file."""
    loaded = SimpleDirectoryReader(str(root), recursive=True).load_data()
    items = read(loaded)
    assert sorted(names(items)) == sorted(
        str(root / name) for name in ("a.md", "b.txt", "sub/c.txt", "Sub2/deep/d.rst")
    )


# -- the module ------------------------------------------------------------------------------


def test_no_framework_is_imported():
    """Reading files needs none of them, nor the model."""
    code = (
        "import sys, lmk_integrations.ingest.sources\n"
        "print([n for n in ('langchain_core', 'llama_index', 'torch') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_reader_has_a_version():
    """A part of the recipe: text, and not empty."""
    assert isinstance(READER_VERSION, str)
    assert READER_VERSION


def test_what_was_to_be_read_again_and_is_gone_is_a_failure(tmp_path):
    """A file, an entry, but not a folder whose files are there."""
    folder = tmp_path / "docs"
    (folder / "inner").mkdir(parents=True)
    (folder / "a.txt").write_text("One.")
    (folder / "inner" / "b.txt").write_text("Two.")
    (folder / "c.jsonl").write_text('{"id": "x", "text": "Three."}\n')
    only = ("docs/a.txt", "docs/gone.txt", "docs/inner", "docs/c.jsonl#7")
    items = list(Sources(folder, ReadOptions(only=only)).documents())
    read_again = {item.id for item in items if isinstance(item, Document)}
    assert read_again == {"docs/a.txt", "docs/inner/b.txt", "x"}  # all entries of a file of theirs
    gone = [(item.name, item.reason) for item in items if not isinstance(item, Document)]
    assert gone == [("docs/c.jsonl#7", "missing"), ("docs/gone.txt", "missing")]
