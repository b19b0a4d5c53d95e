"""What a run of an ingest leaves in the store, whatever happens on the way."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ingest_data import assert_same_points, points_of, story
from qdrant_client import models
from stored_points import dump

import lmk_integrations.ingest.writer as writer_module
from lmk_integrations import (
    Document,
    DocumentError,
    IngestReport,
    LandmarkIndex,
    LMKEncoder,
    Mark,
    StoreError,
)
from lmk_integrations.ingest.identify import identify
from lmk_integrations.ingest.pipeline import PipelineOptions, run_pipeline
from lmk_integrations.ingest.sources import ReadOptions
from lmk_integrations.qdrant.bm25 import Bm25Encoder
from lmk_integrations.qdrant.store import QdrantSink

SECTION = 64  # one whole window each: what is encoded can be counted


@pytest.fixture
def index(client: Any, encoder: LMKEncoder) -> LandmarkIndex:
    return LandmarkIndex(client, "c", encoder, section_tokens=SECTION)


@pytest.fixture
def edge_index(edge: Any, encoder: LMKEncoder) -> LandmarkIndex:
    return LandmarkIndex(edge, "c", encoder, section_tokens=SECTION)


@pytest.fixture
def single_points(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every point is its own batch, so that a write can fail between any two."""
    monkeypatch.setattr(writer_module, "MAX_BATCH_POINTS", 1)


def break_upserts(client: Any, patch: pytest.MonkeyPatch, after: int) -> None:
    """Let so many writes through, then refuse."""
    upsert, done = client.upsert, []

    def breaking(collection: str, points: Any, **options: Any) -> Any:
        if len(done) >= after:
            raise StoreError("the disk is full")
        done.append(points)
        return upsert(collection, points, **options)

    patch.setattr(client, "upsert", breaking)


# -- again, and after a change ---------------------------------------------------------------


def test_the_same_again_encodes_and_writes_nothing(
    index: LandmarkIndex, encoded: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is stored as it is costs a look-up per batch of documents, and no model."""
    documents = [Document(story(i, 3), id=f"d{i}", metadata={"n": i}) for i in range(130)]
    first = index.ingest(documents)
    assert (first.new, first.updated, first.unchanged) == (130, 0, 0)
    assert first.tokens_seen == first.tokens_embedded == first.tokens_encoded > 0
    before, encodings = dump(index.client), sum(encoded)
    assert encodings >= 130

    calls: list[str] = []
    for name in ("upsert", "delete", "overwrite_payload", "retrieve", "count", "scroll"):
        original = getattr(index.client, name)

        def counting(*args: Any, _name: str = name, _call: Any = original, **kw: Any) -> Any:
            calls.append(_name)
            return _call(*args, **kw)

        monkeypatch.setattr(index.client, name, counting)
    second = index.ingest(iter(documents))
    assert (second.new, second.updated, second.unchanged) == (0, 0, 130)
    assert second.tokens_encoded == second.sections == 0
    assert sum(encoded) == encodings
    assert set(calls) <= {"retrieve", "count"}
    assert len(calls) <= 2 * 3  # 130 documents are three batches
    monkeypatch.undo()
    assert_same_points(dump(index.client), before)


def test_a_changed_document_is_replaced_and_no_other(index: LandmarkIndex) -> None:
    """Sections of the old text go, the new ones come, other documents are not touched."""
    index.ingest([Document(story(1, 20), id="a"), Document(story(2, 20), id="b")])
    others = {k: v for k, v in dump(index.client).items() if v[0]["doc_id"] == "b"}
    report = index.ingest([Document(story(3, 20), id="a"), Document(story(2, 20), id="b")])
    assert (report.new, report.updated, report.unchanged) == (0, 1, 1)
    now = dump(index.client)
    assert {k: v for k, v in now.items() if v[0]["doc_id"] == "b"}.keys() == others.keys()
    assert_same_points({k: now[k] for k in others}, others)
    texts = [payload["page_content"] for payload in points_of(index.client, "a", "section")]
    assert "".join(texts) == story(3, 20).strip()
    assert index.count() == 2


def test_a_document_that_shrinks_leaves_no_tail(index: LandmarkIndex) -> None:
    """Ten sections become one, and nine are gone."""
    index.ingest([Document(story(1, 40), id="a")])
    assert index.count("a") > 4
    index.ingest([Document(story(1, 4), id="a")])
    assert index.count("a") == 1
    assert len(dump(index.client)) == 2


def test_new_metadata_is_shown_without_encoding(index: LandmarkIndex, encoded: list[int]) -> None:
    """Title, source and metadata of all sections and of the head are replaced; vectors stay."""
    text = story(1, 15)
    index.ingest([Document(text, id="a", metadata={"old": 1}, title="Old")])
    before, encodings = dump(index.client), sum(encoded)
    changed = Document(text, id="a", metadata={"year": 1999}, title="New", source="s")
    report = index.ingest([changed])
    assert (report.updated, report.relabelled, report.unchanged) == (1, 1, 0)
    assert sum(encoded) == encodings
    after = dump(index.client)
    assert after.keys() == before.keys()
    for point_id, (payload, vectors) in after.items():
        metadata = payload["metadata"]
        assert (metadata["year"], metadata["title"], metadata["source"]) == (1999, "New", "s")
        assert "old" not in metadata
        assert "old" not in payload
        assert "old" not in payload.get("_node_content", "")
        assert vectors == before[point_id][1]
    sections = points_of(index.client, "a", "section")
    assert all(payload["year"] == 1999 for payload in sections)
    assert [payload["metadata"]["section"] for payload in sections] == list(range(len(sections)))
    assert index.ingest([changed]).unchanged == 1


def test_a_document_with_new_headings_counts_as_changed(index: LandmarkIndex) -> None:
    """What changes how a text is cut changes the document, though not its characters."""
    text = story(1, 8)
    index.ingest([Document(text, id="a")])
    report = index.ingest([Document(text, id="a", marks=(Mark(0, "heading", "Start"),))])
    assert (report.updated, report.relabelled) == (1, 0)
    assert points_of(index.client, "a", "section")[0]["metadata"]["heading"] == "Start"


# -- interrupted -----------------------------------------------------------------------------


@pytest.mark.usefixtures("single_points")
def test_a_run_that_broke_off_is_resumed(
    index: LandmarkIndex,
    encoder: LMKEncoder,
    encoded: list[int],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """Sections stored before are not encoded again, and the result is that of one whole run."""
    documents = [
        Document(story(1, 40), id="long", metadata={"k": 1}, title="T"),
        Document(story(2, 10), id="short"),
    ]
    with LandmarkIndex(str(tmp_path / "w"), "c", encoder, section_tokens=SECTION) as whole:
        whole.ingest(documents)
        expected, windows = dump(whole.client), sum(encoded)

    with monkeypatch.context() as patch:
        break_upserts(index.client, patch, after=3)
        with pytest.raises(StoreError, match="disk is full"):
            index.ingest(documents)
    assert index.count() == 0, "a document is there when its head is"
    assert index.count("long") == 3

    encoded.clear()
    report = index.ingest(documents)
    assert (report.new, report.unchanged) == (2, 0)
    assert sum(encoded) == windows - 3
    assert report.tokens_encoded < report.tokens_embedded == report.tokens_seen
    assert_same_points(dump(index.client), expected)


def test_a_stop_ends_the_run_and_the_next_one_completes_it(
    index: LandmarkIndex, encoder: LMKEncoder, tmp_path: Path
) -> None:
    """What was encoded when the stop came is stored; the report says interrupted."""
    documents = [Document(story(i, 15), id=f"d{i}") for i in range(20)]
    stop = threading.Event()

    def stop_after_three_sections(report: IngestReport) -> None:
        if report.tokens_encoded > 2 * SECTION:
            stop.set()

    first = index.ingest(documents, on_progress=stop_after_three_sections, stop=stop)
    assert first.interrupted
    assert 0 < first.new < 20
    assert index.count() == first.new
    assert first.sections == index.info()["sections"] >= 3

    second = index.ingest(documents)
    assert not second.interrupted
    assert (second.new, second.unchanged) == (20 - first.new, first.new)
    assert first.sections + second.sections == index.info()["sections"]
    with LandmarkIndex(str(tmp_path / "w"), "c", encoder, section_tokens=SECTION) as whole:
        whole.ingest(documents)
        assert_same_points(dump(index.client), dump(whole.client))


def test_a_stop_does_not_wait_for_a_source_that_waits(edge_index: LandmarkIndex) -> None:
    """A source that blocks cannot hold up an interrupt."""
    stop, never = threading.Event(), threading.Event()

    def blocking() -> Iterator[Document]:
        yield Document("The first of them.", id="a")
        never.wait(20)

    threading.Timer(0.3, stop.set).start()
    started = time.monotonic()
    report = edge_index.ingest(blocking(), stop=stop)
    never.set()
    assert report.interrupted
    assert time.monotonic() - started < 5


def test_an_encoder_that_fails_leaves_the_old_version(
    index: LandmarkIndex, encoder: LMKEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until the new head is written, the old text is what the store holds."""
    index.ingest([Document("The lighthouse keeper wrote a letter.", id="a")])
    with monkeypatch.context() as patch:
        backend = encoder.model.load()
        rows, batches = backend.rows, []

        def failing(windows: Any) -> Any:
            batches.append(windows)
            if len(batches) > 1:
                raise RuntimeError("out of memory")
            return rows(windows)

        patch.setattr(backend, "rows", failing)
        with pytest.raises(RuntimeError, match="out of memory"):
            index.ingest([Document(story(1, 60), id="a")])
    assert index.count() == 1
    hits = index.search("Who wrote a letter?", mode="dense")
    assert [hit.text for hit in hits] == ["The lighthouse keeper wrote a letter."]
    assert index.ingest([Document(story(1, 60), id="a")]).updated == 1
    assert "lighthouse" not in {hit.text for hit in index.search("lighthouse keeper letter")}


@pytest.mark.usefixtures("single_points")
def test_an_update_given_up_leaves_nothing(
    index: LandmarkIndex, encoded: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sections of a new version that never got its head go when the old text comes again."""
    old = Document(story(1, 5), id="a")
    index.ingest([old])
    before = dump(index.client)
    with monkeypatch.context() as patch:
        break_upserts(index.client, patch, after=2)
        with pytest.raises(StoreError):
            index.ingest([Document(story(2, 40), id="a")])
    assert index.count("a") == 1 + 2
    encoded.clear()
    index.ingest([old])
    assert encoded == []
    after = dump(index.client)
    # The head is a new one: only so may it delete what the given-up version stored.
    assert [payload["lmk"].pop("generation", 0) for payload, _ in after.values()].count(1) == 1
    assert_same_points(after, before)
    assert index.ingest([old]).unchanged == 1


@pytest.mark.usefixtures("single_points")
def test_metadata_changed_between_two_halves_of_a_run(
    index: LandmarkIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sections from before an interruption show the metadata of the run that completes it."""
    text = story(1, 40)
    with monkeypatch.context() as patch:
        break_upserts(index.client, patch, after=2)
        with pytest.raises(StoreError):
            index.ingest([Document(text, id="a", metadata={"v": 1})])
    index.ingest([Document(text, id="a", metadata={"v": 2})])
    assert {payload["metadata"]["v"] for payload, _ in dump(index.client).values()} == {2}


def test_points_lost_behind_its_back_are_restored(index: LandmarkIndex, encoded: list[int]) -> None:
    """The store is the only ledger: a section that is not there is encoded again, alone."""
    documents = [Document(story(i, 25), id=f"d{i}") for i in range(3)]
    index.ingest(documents)
    before = dump(index.client)
    lost = next(k for k, v in before.items() if v[0]["lmk"].get("ordinal") == 1)
    index.client.delete("c", points_selector=models.PointIdsList(points=[lost]), wait=True)
    encoded.clear()
    report = index.ingest(documents)
    assert (report.updated, report.unchanged) == (1, 2)
    assert encoded == [1]
    assert_same_points(dump(index.client), before)


# -- failures --------------------------------------------------------------------------------


class Source:
    """A text in pieces, whose passes may differ."""

    def __init__(self, *passes: Any) -> None:
        self._passes = list(passes)

    def pieces(self) -> Iterator[str]:
        current = self._passes.pop(0) if len(self._passes) > 1 else self._passes[0]
        if isinstance(current, Exception):
            raise current
        yield from current


CHANGED = DocumentError("it changed while it was read", "changed")
BAD: dict[str, tuple[Any, str]] = {
    "no text at all": (Document(None, id="bad"), "not_text"),  # type: ignore[arg-type]
    "unreadable": (Document(Source(OSError("I/O error")), id="bad"), "unreadable"),
    "changed": (Document(Source(["fine at first"], CHANGED), id="bad"), "changed"),
    "vanished": (Document(Source(["fine"], OSError("gone")), id="bad"), "unreadable"),
    "not text": (Document(Source([b"bytes"]), id="bad"), "not_text"),
    "no id": (Document("text"), "no_id"),
    "odd metadata": (Document("text", id="bad", metadata={"x": object()}), "metadata"),
    "huge metadata": (Document("text", id="bad", metadata={"x": "y" * (1 << 21)}), "metadata"),
    "deep metadata": (Document("text", id="bad", metadata={"x": [[]]}), ""),
}
deep: Any = []
for _ in range(2000):
    deep = [deep]
BAD["deep metadata"] = (Document("text", id="bad", metadata={"x": deep}), "metadata")


@pytest.mark.parametrize("name", BAD)
def test_a_document_that_fails_does_not_stop_the_others(
    edge_index: LandmarkIndex, name: str
) -> None:
    """It is in the report with its reason; those before and after it are stored."""
    bad, reason = BAD[name]
    good = [Document("The first document.", id="g1"), Document("The last document.", id="g2")]
    report = edge_index.ingest([good[0], bad, good[1]])
    assert [failure.reason for failure in report.failed] == [reason]
    assert report.new == edge_index.count() == 2
    assert report.documents == 3
    assert edge_index.count("bad") == 0


def test_text_that_nobody_mended_is_a_failure_of_its_document() -> None:
    """A caller of the pipeline without the readers' repairs gets a reason, not a codec's error."""
    for text in ("lone \ud800 half", Source(["lone \ud800", " half"])):
        with pytest.raises(DocumentError, match="lone surrogate at character") as caught:
            identify(Document(text, id="bad"), "recipe")
        assert caught.value.reason == "surrogate"


def test_fail_fast_raises_when_what_came_before_is_stored(index: LandmarkIndex) -> None:
    """The first failure ends the run; documents read before it are complete."""
    first, bad = (
        Document("The first document.", id="g1"),
        Document("x", id="bad", metadata={"x": {1j}}),
    )
    with pytest.raises(DocumentError, match=r"bad: metadata.*complex"):
        index.ingest([first, bad, Document("The last document.", id="g2")], fail_fast=True)
    assert [index.count(name) for name in ("g1", "bad", "g2")] == [1, 0, 0]


def test_documents_without_text_are_skipped(index: LandmarkIndex) -> None:
    """No vector is made of nothing: skipped with a reason, which is no failure."""
    blank = [Document("", id="e1"), Document(" \n\t ", id="e2"), Document(Source([]), id="e3")]
    report = index.ingest([*blank, Document("Some text.", id="a")], fail_fast=True)
    assert [failure.reason for failure in report.skipped] == ["empty"] * 3
    assert not report.failed
    assert index.info()["points"] == 2


def test_one_id_is_one_document(index: LandmarkIndex) -> None:
    """A second text of the same id is refused: it would silently replace the first."""
    report = index.ingest(
        [
            Document("The first.", id="a"),
            Document("Another.", id="a"),
            Document("The first.", id="a"),
            Document("By its source.", source="a"),
        ]
    )
    assert report.new == 1
    assert [failure.reason for failure in report.failed] == ["duplicate_id"] * 3
    assert [payload["page_content"] for payload in points_of(index.client, "a", "section")] == [
        "The first."
    ]


def test_an_error_of_the_source_is_reported_when_the_rest_is_stored(index: LandmarkIndex) -> None:
    """A generator that breaks takes nothing with it that it gave before."""

    def breaking() -> Iterator[Document]:
        for i in range(3):
            yield Document(f"Document number {i}.", id=f"d{i}")
        raise ZeroDivisionError("a bug of the caller")

    report = index.ingest(breaking())
    assert [failure.reason for failure in report.failed] == ["source_error"]
    assert "a bug of the caller" in report.failed[0].message
    assert (report.new, index.count()) == (3, 3)
    with pytest.raises(DocumentError, match="a bug of the caller"):
        index.ingest(breaking(), fail_fast=True)


def test_an_error_of_the_reader_itself_is_raised_when_the_rest_is_stored(
    index: LandmarkIndex, encoder: LMKEncoder
) -> None:
    """Nothing that was read before is lost, and the error is not swallowed."""

    def breaking() -> Iterator[Document]:
        yield Document("The first document.", id="a")
        raise ZeroDivisionError("a bug of ours")

    index.ingest([])
    sink = QdrantSink(index.client, "c", Bm25Encoder())
    options = PipelineOptions(section_tokens=SECTION, recipe=index.recipe)
    with pytest.raises(ZeroDivisionError, match="a bug of ours"):
        run_pipeline(breaking(), encoder, sink, options)
    assert index.count() == 1


@pytest.mark.usefixtures("single_points")
def test_an_error_of_the_store_is_raised_and_what_is_stored_stays(
    index: LandmarkIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Documents whose head was written are complete, the rest comes with the next run."""
    documents = [Document(f"Document number {i}.", id=f"d{i}") for i in range(4)]
    with monkeypatch.context() as patch:
        break_upserts(index.client, patch, after=5)  # sections and heads of two, one section
        with pytest.raises(StoreError, match="disk is full"):
            index.ingest(documents)
    assert index.count() == 2
    report = index.ingest(documents)
    assert (report.new, report.unchanged) == (2, 2)


def test_a_head_is_written_after_all_its_sections(
    index: LandmarkIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The head is the commit record: at no moment is it there before a section of its document."""
    monkeypatch.setattr(writer_module, "MAX_BATCH_POINTS", 3)
    upsert, written = index.client.upsert, []

    def recording(collection: str, points: Any, **options: Any) -> Any:
        written.extend(point.payload["lmk"] for point in points)
        return upsert(collection, points, **options)

    monkeypatch.setattr(index.client, "upsert", recording)
    index.ingest([Document(story(i, 6 + 6 * i), id=f"d{i}") for i in range(4)])
    for i in range(4):
        kinds = [own["kind"] for own in written if own["doc_id"] == f"d{i}"]
        sections = points_of(index.client, f"d{i}", "head")[0]["lmk"]["sections"]
        assert kinds == ["section"] * sections + ["head"]


# -- what is not stored ----------------------------------------------------------------------


def test_a_dry_run_writes_nothing(index: LandmarkIndex, encoded: list[int]) -> None:
    """It counts what a run would do, with and without a collection, and encodes nothing."""
    documents = [Document(story(i, 15), id=f"d{i}") for i in range(3)]
    dry = index.ingest(documents, dry_run=True)
    assert not index.client.collection_exists("c")
    assert encoded == []
    done = index.ingest(documents[:2])
    before = dump(index.client)
    encoded.clear()
    changed = [documents[0], Document(story(9, 10), id="d1"), documents[2]]
    second = index.ingest(changed, dry_run=True)
    assert (second.new, second.updated, second.unchanged) == (1, 1, 1)
    assert encoded == []
    assert_same_points(dump(index.client), before)
    rest = index.ingest(documents[2:])
    assert (dry.new, dry.sections) == (3, done.sections + rest.sections)
    assert dry.tokens_seen == done.tokens_seen + rest.tokens_seen


def test_text_that_the_model_cannot_read_is_reported(edge_index: LandmarkIndex) -> None:
    """Thai is one unknown token a run for this model: the report says so, and names the text."""
    thai = "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35\u0e0a\u0e32\u0e27\u0e42\u0e25\u0e01 " * 30
    report = edge_index.ingest([Document(thai, id="thai"), Document(story(1, 5), id="english")])
    assert report.unk_share > 0.2
    assert len(report.warnings) == 1
    assert report.warnings[0].startswith("thai: 100% of its tokens are unknown")


# -- metadata and names ----------------------------------------------------------------------


def test_metadata_becomes_json(index: LandmarkIndex, tmp_path: Path) -> None:
    """Everyday values that JSON lacks are stored as text, numbers and lists, the same each run."""
    import datetime
    import decimal
    import uuid

    metadata = {
        "date": datetime.date(2024, 2, 29),
        "time": datetime.datetime(2024, 2, 29, 12, tzinfo=datetime.timezone.utc),
        "path": Path("a/b"),
        "uuid": uuid.UUID(int=1),
        "decimal": decimal.Decimal("1.50"),
        "number": np.int64(3),
        "array": np.array([1.5, 2.5]),
        "set": {"b", "a", "c"},
        "tuple": (1, "x", None),
        "nan": float("nan"),
        "big": 1 << 70,
        "half": "\ud800",
        7: "seven",
        "none": None,
        "nested": {"a": {"b": [True]}},
    }
    document = Document("Some text.", id="a", metadata=metadata)
    assert index.ingest([document]).new == 1
    assert index.ingest([document]).unchanged == 1
    stored = points_of(index.client, "a", "section")[0]["metadata"]
    expected = {
        "date": "2024-02-29",
        "time": "2024-02-29T12:00:00+00:00",
        "path": str(Path("a/b")),
        "uuid": str(uuid.UUID(int=1)),
        "decimal": "1.50",
        "number": 3,
        "array": [1.5, 2.5],
        "set": ["a", "b", "c"],
        "tuple": [1, "x", None],
        "big": str(1 << 70),
        "half": "",
        "7": "seven",
        "nested": {"a": {"b": [True]}},
    }
    assert {key: stored[key] for key in expected} == expected
    assert "none" not in stored
    assert "nan" not in stored


RESERVED = ["page_content", "metadata", "doc_id", "ref_doc_id", "_node_content", "lmk", "text"]


def test_metadata_cannot_take_the_place_of_the_text(index: LandmarkIndex) -> None:
    """Keys that mean something to this package or to a framework stay in the metadata."""
    metadata = {key: {"kind": "head", "doc_id": "x"} for key in RESERVED}
    document = Document("The real text.", id="a", metadata=metadata)
    index.ingest([document])
    assert index.ingest([document]).unchanged == 1
    (payload,) = points_of(index.client, "a", "section")
    assert payload["page_content"] == "The real text."
    assert payload["metadata"]["page_content"] == {"kind": "head", "doc_id": "x"}
    assert payload["metadata"]["doc_id"] == payload["doc_id"] == payload["lmk"]["doc_id"] == "a"
    (hit,) = index.search("real text")
    assert (hit.text, hit.doc_id) == ("The real text.", "a")
    assert index.delete("a") == 1
    assert index.info()["points"] == 0


NAMES = [
    "a/b/../c.md",
    "quo\"te'.txt",
    "back\\slash",
    "new\nline",
    "\u65e5\u672c\u8a9e \U0001f680",
    "e\u0301",
    "\u00e9",
    " ",
    "x" * 3000,
    "{}[]().*",
    "nul\0",
]


def test_documents_may_be_called_anything(index: LandmarkIndex) -> None:
    """Every id is its own document, found, counted and deleted by exactly that id."""
    documents = [Document(f"Text number {i}.", id=name) for i, name in enumerate(NAMES)]
    assert index.ingest(documents).new == len(NAMES)
    assert index.ingest(documents).unchanged == len(NAMES)
    for number, name in enumerate(NAMES):
        assert index.count(name) == 1
        hits = index.search(f"number {number}", filter={"doc_id": name}, mode="dense")
        assert [hit.doc_id for hit in hits] == [name]
    for left, name in reversed(list(enumerate(NAMES))):
        assert index.delete(name) == 1
        assert index.count() == left


def test_documents_may_share_their_text(index: LandmarkIndex) -> None:
    """Copies are documents of their own; deleting one leaves the other."""
    index.ingest([Document(story(1, 8), id="a"), Document(story(1, 8), id="b")])
    assert index.count("a") == index.count("b") > 0
    index.delete("a")
    assert (index.count("a"), index.count()) == (0, 1)
    assert index.count("b") > 0


# -- pruning ---------------------------------------------------------------------------------


def write(folder: Path, **texts: str) -> Path:
    folder.mkdir(exist_ok=True)
    for name, text in texts.items():
        (folder / f"{name}.txt").write_text(text, encoding="utf-8")
    return folder


def test_prune_removes_what_is_gone_from_this_folder(
    edge_index: LandmarkIndex, tmp_path: Path
) -> None:
    """Documents of other folders, of no folder, and of files that fail now are kept."""
    one = write(tmp_path / "one", a="Text of a.", b="Text of b.", c="Text of c.")
    two = write(tmp_path / "one two", a="Text of another a.")
    edge_index.ingest([one, two])
    edge_index.ingest([Document("Text of no file.", id="free")])
    assert edge_index.count() == 5
    (one / "a.txt").unlink()
    (one / "b.txt").write_bytes(b"")
    assert edge_index.ingest([one]).pruned == 0
    assert edge_index.count() == 5
    report = edge_index.ingest([one], prune=True)
    assert report.pruned == 1
    ids = {payload["doc_id"] for payload, _ in dump(edge_index.client).values()}
    assert ids == {"one/b.txt", "one/c.txt", "one two/a.txt", "free"}


def test_prune_tells_folders_of_one_name_apart(edge_index: LandmarkIndex, tmp_path: Path) -> None:
    """Pruning /a/docs keeps what came from /b/docs; a folder that moved is known again."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    here = write(tmp_path / "a" / "docs", x="Text of x.", y="Text of y.")
    there = write(tmp_path / "b" / "docs", z="Text of z.")
    edge_index.ingest([here])
    edge_index.ingest([there])
    (here / "y.txt").unlink()
    assert edge_index.ingest([here], prune=True).pruned == 1
    ids = {payload["doc_id"] for payload, _ in dump(edge_index.client).values()}
    assert ids == {"docs/x.txt", "docs/z.txt"}
    moved = here.rename(tmp_path / "docs")
    report = edge_index.ingest([moved])
    assert (report.relabelled, report.tokens_encoded) == (1, 0)
    (moved / "x.txt").unlink()
    assert edge_index.ingest([moved], prune=True).pruned == 1
    ids = {payload["doc_id"] for payload, _ in dump(edge_index.client).values()}
    assert ids == {"docs/z.txt"}


def test_prune_keeps_what_was_not_looked_for(edge_index: LandmarkIndex, tmp_path: Path) -> None:
    """A document that include or exclude leaves out of the walk is not gone."""
    folder = write(tmp_path / "one", a="Text of a.", b="Text of b.")
    (folder / "c.md").write_text("Text of c.", encoding="utf-8")
    (folder / "d.md").write_text("Text of d.", encoding="utf-8")
    write(folder / "old", e="Text of e.")
    edge_index.ingest([folder])
    assert edge_index.count() == 5
    (folder / "d.md").unlink()
    (folder / "a.txt").unlink()
    only = ReadOptions(include=("*.md",), exclude=("old",))
    (folder / "old" / "e.txt").unlink()  # in a folder that is not even listed
    assert edge_index.ingest([folder], prune=True, options=only).pruned == 2
    ids = {payload["doc_id"] for payload, _ in dump(edge_index.client).values()}
    assert ids == {"one/b.txt", "one/c.md", "one/old/e.txt"}


def test_prune_knows_the_entries_of_a_file(edge_index: LandmarkIndex, tmp_path: Path) -> None:
    """A line that is gone is pruned; those of a file that cannot be read now are kept."""
    folder = write(tmp_path / "one", a="Text of a.")
    lines = folder / "data.jsonl"
    lines.write_text('{"text": "First."}\n{"text": "Second."}\n', encoding="utf-8")
    edge_index.ingest([folder])
    assert edge_index.count() == 3
    report = edge_index.ingest([folder], prune=True, options=ReadOptions(max_bytes=5))
    assert (len(report.skipped + report.failed), report.pruned) == (2, 0)
    lines.write_text('{"text": "First."}\n', encoding="utf-8")
    assert edge_index.ingest([folder], prune=True).pruned == 1
    assert edge_index.count("one/data.jsonl#1") == 1


def test_prune_waits_for_a_complete_walk(edge_index: LandmarkIndex, tmp_path: Path) -> None:
    """A run that was stopped, or only tried, removes nothing; the latter says what would go."""
    folder = write(tmp_path / "one", a="Text of a.", b="Text of b.")
    edge_index.ingest([folder])
    (folder / "a.txt").unlink()
    stop = threading.Event()
    stop.set()
    assert edge_index.ingest([folder], prune=True, stop=stop).pruned == 0
    tried = edge_index.ingest([folder], prune=True, dry_run=True)
    assert (tried.pruned, tried.pruned_ids) == (1, ["one/a.txt"])
    assert edge_index.count() == 2
    done = edge_index.ingest([folder], prune=True)
    assert (done.pruned, done.pruned_ids) == (1, ["one/a.txt"])
    assert edge_index.count() == 1
