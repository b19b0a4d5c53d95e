"""The store is the truth: what happened behind its back is told of, and mended."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from qdrant_client import models as m
from qdrant_server import serve
from stored_points import dump
from word_encoder import WordEncoder, assert_same, corpus, prose

from lmk_integrations import Document, LandmarkIndex, StoreError, connect
from lmk_integrations.encoder.plain import PlainEncoder
from lmk_integrations.errors import ConfigError
from lmk_integrations.qdrant import verify
from lmk_integrations.qdrant.bm25 import Bm25Encoder
from lmk_integrations.qdrant.items import Item

SHAPE = {"small": 4, "long": 1, "sections": 6}
SOURCE = corpus(**SHAPE)


@pytest.fixture(params=["memory", "edge", "rest"])
def index(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LandmarkIndex]:
    """A collection of the corpus, in a store of each kind."""
    if request.param == "rest":
        with serve("rest") as server:
            yield filled(server.client())
        return
    client = connect(":memory:" if request.param == "memory" else tmp_path / "s")
    yield filled(client)
    client.close()


@pytest.fixture
def memory() -> LandmarkIndex:
    return filled(connect(":memory:"))


def filled(client: Any) -> LandmarkIndex:
    made = LandmarkIndex(client, "c", WordEncoder())
    made.ingest(SOURCE)
    return made


def point(index: LandmarkIndex, doc_id: str, ordinal: int | None) -> m.Record:
    """A section's point, or the head's."""
    for record in index.client.scroll("c", limit=1000, with_vectors=True)[0]:
        own = record.payload["lmk"]
        if own["doc_id"] == doc_id and own.get("ordinal") == ordinal:
            return record
    raise AssertionError((doc_id, ordinal))


def put(index: LandmarkIndex, record: m.Record, **changes: Any) -> None:
    """Write a point behind the index's back, with some of it changed."""
    parts = {"id": record.id, "vector": record.vector, "payload": record.payload, **changes}
    index.client.upsert("c", [m.PointStruct(**parts)], wait=True)


def remove(index: LandmarkIndex, record: m.Record) -> None:
    index.client.delete("c", m.PointIdsList(points=[record.id]), wait=True)


def pay(index: LandmarkIndex, record: m.Record, change: Callable[[dict[str, Any]], Any]) -> None:
    """Write a point with its payload changed in place."""
    change(record.payload)
    put(index, record)


def turned(record: m.Record, name: str) -> dict[str, Any]:
    """Its vectors, one of them another unit vector."""
    found = dict(record.vector)
    if name == "landmarks":
        found[name] = [found[name][0][::-1], *found[name][1:]]
    else:
        found[name] = found[name][::-1]
    return found


def damage(index: LandmarkIndex, name: str) -> None:
    """What somebody did to the store."""
    section, head = point(index, "long/0", 2), point(index, "small/1", None)
    text = section.payload["page_content"]
    other = text.replace("river", "rivet", 1) if "river" in text else text.replace("e", "o", 1)
    dense = section.vector
    changes: dict[str, Callable[[], Any]] = {
        "a section deleted": lambda: remove(index, section),
        "a head deleted": lambda: remove(index, head),
        "all of a document deleted": lambda: index.delete("small/2"),
        "a section's text altered": lambda: pay(
            index, section, lambda p: p.update(page_content=other)
        ),
        "a section's metadata altered": lambda: pay(
            index, section, lambda p: p["metadata"].update(title="Other")
        ),
        "a section's key added": lambda: pay(index, section, lambda p: p.update(extra=1)),
        "a section's node altered": lambda: pay(
            index, section, lambda p: p.update(_node_content=p["_node_content"].replace("e", "a"))
        ),
        "a head's metadata altered": lambda: pay(index, head, lambda p: p["metadata"].update(n=99)),
        "a record made unreadable": lambda: pay(index, section, lambda p: p["lmk"].pop("ordinal")),
        "a vector altered": lambda: put(index, section, vector=turned(section, "lmk")),
        "a landmark altered": lambda: put(index, section, vector=turned(section, "landmarks")),
        "a landmark lost": lambda: put(
            index, section, vector={**dense, "landmarks": dense["landmarks"][1:]}
        ),
        "the landmarks lost": lambda: put(
            index, section, vector={k: v for k, v in dense.items() if k != "landmarks"}
        ),
        "a document's vector altered": lambda: put(index, head, vector=turned(head, "document")),
        "the terms lost": lambda: put(
            index, section, vector={k: v for k, v in dense.items() if k != "bm25"}
        ),
        "a section twice": lambda: put(index, section, id=4711),
        "a head twice": lambda: put(index, head, id=4712),
        "a section moved": lambda: (put(index, section, id=4713), remove(index, section)),
        "an old section left over": lambda: leave_old(index),
        "another recipe": lambda: pay(index, head, lambda p: p["lmk"].update(recipe="other")),
    }
    changes[name]()


def leave_old(index: LandmarkIndex) -> None:
    """A section of a version before the one that is current."""
    before = point(index, "small/3", 0)
    own = before.payload["lmk"]
    payload = {**before.payload, "lmk": {**own, "hash": "of another text"}}
    from lmk_integrations.ingest.ids import section_id

    put(
        index,
        before,
        id=section_id(own["doc_id"], "of another text", own["recipe"], 0),
        payload=payload,
    )


FOUND = {
    "a section deleted": ("missing", "long/0", r"1 of 6 sections \(2\)"),
    "a head deleted": ("missing", "small/1", "its head"),
    "all of a document deleted": ("missing", "small/2", "not stored"),
    "a section's text altered": ("altered", "long/0", "section 2: .*payload was altered.*terms"),
    "a section's metadata altered": ("altered", "long/0", r"section 2: .*altered \('metadata'\)"),
    "a section's key added": ("altered", "long/0", r"section 2: .*altered \('extra'\)"),
    "a section's node altered": ("altered", "long/0", r"section 2: .*altered \('_node_content'\)"),
    "a head's metadata altered": ("altered", "small/1", "head: its metadata is not what was"),
    "a record made unreadable": ("altered", "long/0", "record of a section cannot be read"),
    "a vector altered": ("altered", "long/0", "section 2: its vector is not the mean"),
    "a landmark altered": ("altered", "long/0", "section 2: its vector is not the mean"),
    "a landmark lost": ("altered", "long/0", "section 2: it has 7 landmarks.*tells of 8"),
    "the landmarks lost": ("altered", "long/0", "section 2: .*landmarks"),
    "a document's vector altered": ("altered", "small/1", "head: its vector is not the sum"),
    "the terms lost": ("altered", "long/0", "section 2: its BM25 terms"),
    "a section twice": ("duplicated", "long/0", "section under another id .4711"),
    "a head twice": ("duplicated", "small/1", "head under another id .4712"),
    "a section moved": ("duplicated", "long/0", "section under another id .4713"),
    "an old section left over": ("stale", "small/3", "1 sections of another version"),
    "another recipe": ("stale", "small/1", "under another recipe"),
}


@pytest.mark.parametrize("name", FOUND)
def test_what_was_done_behind_its_back_is_told_of_and_mended(
    memory: LandmarkIndex, name: str
) -> None:
    """By kind and document; a repair makes the store what it was, point for point."""
    before = dump(memory.client)
    damage(memory, name)
    kind, doc_id, message = FOUND[name]
    report = verify(memory, SOURCE)
    assert not report.ok
    assert (kind, doc_id) in {(problem.kind, problem.doc_id) for problem in report.problems}
    first = next(p for p in report.problems if (p.kind, p.doc_id) == (kind, doc_id))
    assert re.search(message, first.message), first.message
    assert {problem.doc_id for problem in report.problems} == {doc_id}
    mended = verify(memory, SOURCE, repair=True)
    assert (mended.ok, mended.left) == (True, [])
    assert mended.repaired == len(report.problems)
    after = dump(memory.client)
    if name == "another recipe":  # a head over another version's: points say that it is an update
        assert {payload["lmk"].pop("generation", 0) for payload, _ in after.values()} == {0, 1}
    assert_same(after, before)
    assert verify(memory, SOURCE).problems == []


DONE_ANYWHERE = ["a section deleted", "a landmark altered", "a section twice", "a head deleted"]


def test_the_same_in_every_kind_of_store(index: LandmarkIndex) -> None:
    """What was stored is found in order; damage of many kinds at once is mended in one go."""
    before = dump(index.client)
    report = verify(index, SOURCE)
    assert report.ok, report.problems
    assert (report.documents, report.compared, report.sections) == (5, 5, len(before) - 5)
    for name in DONE_ANYWHERE:
        damage(index, name) if name != "a section deleted" else remove(
            index, point(index, "long/0", 4)
        )
    found = {(problem.kind, problem.doc_id) for problem in verify(index, SOURCE).problems}
    assert found == {FOUND[name][:2] for name in DONE_ANYWHERE}
    encoder = WordEncoder()
    again = LandmarkIndex(index.client, "c", encoder)
    assert verify(again, SOURCE, repair=True).ok
    assert len(encoder.sections) == 2, "what is in order is not encoded again"
    assert_same(dump(index.client), before)


def test_the_store_alone(memory: LandmarkIndex) -> None:
    """Without a source nothing is lost: what only the source can bring back is left and told of."""
    before = dump(memory.client)
    damage(memory, "a landmark altered")
    damage(memory, "a head twice")
    damage(memory, "an old section left over")
    report = verify(memory, repair=True)
    assert [problem.kind for problem in report.left or ()] == ["altered"]
    assert dump(memory.client).keys() == before.keys()
    assert report.repaired == 2


def test_what_the_source_has_now(memory: LandmarkIndex, tmp_path: Path) -> None:
    """A new text, new metadata, a new document: stale and missing; a repair is an ingest."""
    now = [
        Document(prose(5, 40), id="small/0"),
        Document(SOURCE[1].text, id="small/1", title="Another"),
        Document("A new one.", id="new"),
        *SOURCE[2:],
    ]
    found = {(p.kind, p.doc_id) for p in verify(memory, now).problems}
    assert found == {("stale", "small/0"), ("stale", "small/1"), ("missing", "new")}
    assert verify(memory, now, repair=True).ok
    assert memory.get("small/0")["small/0"].text == prose(5, 40)


def test_a_text_altered_everywhere_in_its_point(memory: LandmarkIndex) -> None:
    """A forgery that agrees with itself does not agree with the source."""
    record = point(memory, "small/1", 0)
    text = record.payload["page_content"]
    forged = text.replace("river", "rivet", 1)
    assert forged != text
    node = record.payload["_node_content"].replace(text, forged)
    sparse = Bm25Encoder.from_dict(memory.info()["bm25"]).encode_document(forged)
    put(
        memory,
        record,
        vector={**record.vector, "bm25": sparse},
        payload={**record.payload, "page_content": forged, "_node_content": node},
    )
    assert verify(memory).ok
    (problem,) = verify(memory, SOURCE).problems
    assert problem.message == "section 0: its text is not that of the source"
    assert verify(memory, SOURCE, repair=True).ok
    assert memory.get("small/1")["small/1"].text == SOURCE[1].text


def test_foreign_points(memory: LandmarkIndex, tmp_path: Path) -> None:
    """Other programs' points, and documents whose file is gone, are deleted only if one says so."""
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "a.txt").write_text("The text of a.")
    (folder / "b.txt").write_text("The text of b.")
    memory.ingest([folder])
    (folder / "b.txt").unlink()
    memory.client.upsert("c", [m.PointStruct(id=1, vector={"lmk": [1.0] * 8}, payload={"x": 1})])
    everything = [folder, SOURCE]
    found = verify(memory, everything, repair=True)
    assert [(p.kind, p.doc_id) for p in found.remaining] == [
        ("foreign", None),
        ("foreign", "docs/b.txt"),
    ]
    assert memory.count("docs/b.txt") == 1
    assert verify(memory, everything, allow_foreign=True).ok
    with pytest.raises(ConfigError, match="delete_foreign needs repair"):
        verify(memory, delete_foreign=True)
    assert verify(memory, everything, repair=True, delete_foreign=True).ok
    assert memory.count("docs/b.txt") == 0
    assert memory.count("docs/a.txt") == 1
    assert memory.client.retrieve("c", [1]) == []


def test_items_are_looked_at_too(memory: LandmarkIndex) -> None:
    """What frameworks put there one by one is in order, until it is altered."""
    vector = WordEncoder().encode_queries(["An item."])[0]
    memory.put([Item(id="i", text="An item.", vector=vector, metadata={"a": 1.5})])
    report = verify(memory, SOURCE)
    assert (report.ok, report.items) == (True, 1)
    (record,) = [
        r
        for r in memory.client.scroll("c", limit=1000, with_vectors=True)[0]
        if r.payload["lmk"]["kind"] == "item"
    ]
    record.payload["page_content"] = "Another one."
    put(memory, record)
    (problem,) = verify(memory, SOURCE).problems
    assert (problem.kind, problem.doc_id) == ("altered", "i")


def test_a_collection_without_landmarks() -> None:
    """Any embedding function's collection can be verified."""

    def embed(texts: list[str]) -> Any:
        return WordEncoder().encode_queries(texts).tolist()

    encoder = PlainEncoder(embed, lambda text: embed([text])[0], name="plain")
    index = LandmarkIndex(connect(":memory:"), "c", encoder)
    index.ingest(SOURCE)
    assert verify(index, SOURCE).ok
    put(index, record := point(index, "small/1", 0), vector=turned(record, "lmk"))
    assert {p.message for p in verify(index, SOURCE).problems} == {
        "head: its vector is not the sum of its sections'"
    }


def test_missing_indexes_are_made(tmp_path: Path) -> None:
    """Without them filters are slow."""
    with LandmarkIndex(tmp_path / "s", "c", WordEncoder()) as index:
        index.ingest(SOURCE)
        index.client.delete_payload_index("c", "lmk.doc_id")
        (problem,) = verify(index).problems
        assert (problem.kind, problem.message) == ("missing", "payload indexes of 'lmk.doc_id'")
        assert verify(index, repair=True).ok


def test_another_encoder_repairs_nothing(memory: LandmarkIndex) -> None:
    """It would make other points of every document."""
    before = dump(memory.client)
    other = LandmarkIndex(memory.client, "c", WordEncoder(), section_tokens=64)
    damage(memory, "a section twice")
    with pytest.raises(ConfigError, match="was filled by 'words' with other settings"):
        verify(other, SOURCE, repair=True)
    assert len(dump(memory.client)) == len(before) + 1
    with pytest.raises(StoreError, match="no collection 'absent'"):
        verify(LandmarkIndex(memory.client, "absent"))


def test_it_can_be_stopped(memory: LandmarkIndex) -> None:
    """Then it is not said that all is well, and nothing is repaired."""
    damage(memory, "a section twice")
    stop = threading.Event()
    stop.set()
    report = verify(memory, SOURCE, repair=True, stop=stop)
    assert report.interrupted
    assert not report.ok
    assert report.left is None


def test_what_cannot_be_read_is_told_of(memory: LandmarkIndex, tmp_path: Path) -> None:
    """An item of the source that fails is not taken for missing, nor for gone."""
    (tmp_path / "bad.pdf").write_bytes(b"%PDF-1.4 this is no PDF")
    (tmp_path / "empty.txt").write_bytes(b"")
    report = verify(memory, [tmp_path, SOURCE])
    assert report.ok
    assert [item.name.rsplit("/", 1)[1] for item in report.unread] == ["bad.pdf"]


def test_metadata_with_fractions_raises_no_alarm(tmp_path: Path) -> None:
    """Engines read fractions back with another last digit."""
    values = {"pi": 3.141592653589793, "list": [0.1, 1e-17, 123456789.12345679]}
    awkward = {**values, "none": None, "title": "x", "deep": {"a": {"b": 2.2250738585072014e-308}}}
    with LandmarkIndex(tmp_path / "s", "c", WordEncoder()) as index:
        documents = [Document("Some text.", id="a", metadata=awkward, title="T", source="S")]
        index.ingest(documents)
        assert verify(index, documents).problems == []
