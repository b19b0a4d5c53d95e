"""Rebuilding under another recipe: searched all the while, swapped only when it is all there."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from qdrant_client import models as m

from lmk_integrations import Document, LandmarkIndex, LMKEncoder, connect
from lmk_integrations.encoder import PlainEncoder
from lmk_integrations.errors import SpaceMismatchError, StoreError
from lmk_integrations.qdrant import rebuild as rebuild_module
from lmk_integrations.qdrant import rebuild_check
from lmk_integrations.qdrant.aliases import aliases, collections, resolve
from lmk_integrations.qdrant.edge import EdgeClient
from lmk_integrations.qdrant.items import Item
from lmk_integrations.qdrant.rebuild import RebuildReport, rebuild
from lmk_integrations.qdrant.schema import read_identity

WORDS = ("tower", "bread", "volcano", "chess", "lamp")
NAME = "library"


def toy(name: str, dim: int = 5, calls: list[str] | None = None) -> PlainEncoder:
    """A model that is cheap to run: which words a text holds. Each name is another space."""

    def embed(text: str) -> list[float]:
        if calls is not None:
            calls.append(text)
        return [1.0 if word in text.lower() else 0.01 for word in WORDS] + [0.1] * (dim - 5)

    return PlainEncoder(lambda texts: [embed(text) for text in texts], embed, name=name, dim=dim)


def documents(count: int = 5) -> list[Document]:
    return [Document(f"All about the {WORDS[i % 5]}, part {i}.", id=f"d{i}") for i in range(count)]


class Unreadable:
    """A text on a disk that fails."""

    def pieces(self) -> Iterator[str]:
        raise OSError("bad sector")


def filled(store: Any, count: int = 5) -> LandmarkIndex:
    """The plain collection that most users begin with."""
    index = LandmarkIndex(store, NAME, toy("old"))
    index.ingest(documents(count))
    return index


def found(store: Any, encoder: PlainEncoder) -> list[str]:
    index = LandmarkIndex(store, NAME, encoder)
    return [index.search(word, 1)[0].doc_id for word in WORDS]


def begin(store: Any, encoder: Any, sources: Any, **options: Any) -> RebuildReport:
    return rebuild(store, NAME, encoder, sources, **options)


def with_alias(store: Any) -> RebuildReport:
    """A library whose name is an alias from the start, as a first rebuild makes it."""
    report = begin(store, toy("old"), documents())
    assert (report.swapped, report.old, report.problems) == (True, None, [])
    return report


# -- swapping --------------------------------------------------------------------------------


def test_a_free_name_becomes_an_alias(store: Any) -> None:
    """The first time is an ingest into a collection whose name tells its recipe."""
    report = with_alias(store)
    recipe = read_identity(store, NAME).recipe["id"]  # type: ignore[union-attr]
    assert report.collection == f"{NAME}--{recipe[:8]}"
    assert aliases(store) == {NAME: report.collection}
    assert found(store, toy("old")) == ["d0", "d1", "d2", "d3", "d4"]


def test_another_model_takes_the_name_over(store: Any) -> None:
    """The same documents are found through the same name, by the new model; the old one is kept."""
    first = with_alias(store)
    report = begin(store, toy("new", dim=7), documents())
    assert (report.swapped, report.old, report.kept) == (True, first.collection, [first.collection])
    assert aliases(store) == {NAME: report.collection}
    assert found(store, toy("new", dim=7)) == ["d0", "d1", "d2", "d3", "d4"]
    assert read_identity(store, NAME).space["model"] == "new"  # type: ignore[union-attr]
    assert LandmarkIndex(store, first.collection).count() == 5


def test_back_and_forth(store: Any) -> None:
    """An earlier collection that was kept is taken up again: nothing is encoded twice."""
    first = with_alias(store)
    begin(store, toy("new"), documents())
    calls: list[str] = []
    report = begin(store, toy("old", calls=calls), documents())
    assert (report.swapped, report.collection) == (True, first.collection)
    assert (report.ingest.unchanged, calls) == (5, [])


def test_the_same_recipe_is_not_built_twice(store: Any) -> None:
    """Then it is an ingest like any other, whether the name is an alias or a collection."""
    filled(store)
    for _ in range(2):
        report = begin(store, toy("old"), documents(6))
        assert (report.collection, report.swapped, report.problems) == (NAME, False, [])
    assert report.ingest.unchanged == 6
    assert collections(store) == {NAME}


def test_old_ones_are_dropped_when_asked(store: Any) -> None:
    """Those that the name stood for; also by a later run, if one was killed after its swap."""
    first = with_alias(store)
    second = begin(store, toy("new"), documents())
    third = begin(store, toy("newest"), documents())
    assert third.kept == [second.collection, first.collection]
    again = begin(store, toy("newest"), documents(), drop_old=True)
    assert again.dropped == [second.collection, first.collection]
    assert collections(store) == {third.collection}
    assert found(store, toy("newest")) == ["d0", "d1", "d2", "d3", "d4"]


def test_an_old_one_that_has_another_name_too_is_not_dropped(store: Any) -> None:
    """Someone else reads it."""
    first = with_alias(store)
    made = m.CreateAlias(alias_name="stable", collection_name=first.collection)
    store.update_collection_aliases([m.CreateAliasOperation(create_alias=made)])
    report = begin(store, toy("new"), documents(), drop_old=True)
    assert (report.dropped, report.kept) == ([], [first.collection])
    assert aliases(store) == {NAME: report.collection, "stable": first.collection}


def test_a_plain_collection_makes_way(store: Any) -> None:
    """Embedded it is renamed in the same step; on a server the user must agree to a gap."""
    filled(store)
    report = begin(store, toy("new"), documents())
    if isinstance(store, EdgeClient):
        assert report.swapped
        assert report.kept == [report.old]
        assert report.old is not None
        assert report.old.startswith(f"{NAME}--")
        assert LandmarkIndex(store, report.old, toy("old")).count() == 5
        return
    assert not report.swapped
    assert "is complete and can be searched" in report.problems[0]
    assert "--drop-old" in report.problems[0]
    assert found(store, toy("old")) == ["d0", "d1", "d2", "d3", "d4"]
    calls: list[str] = []
    report = begin(store, toy("new", calls=calls), documents(), drop_old=True)
    assert (report.swapped, report.dropped, calls) == (True, [NAME], [])
    assert collections(store) == {report.collection}
    assert found(store, toy("new")) == ["d0", "d1", "d2", "d3", "d4"]


def test_a_collection_of_someone_else_keeps_its_name(store: Any) -> None:
    """Nothing is filled for a name that is not ours to give."""
    store.create_collection(NAME, {"v": m.VectorParams(size=2, distance=m.Distance.DOT)})
    with pytest.raises(StoreError, match="not made by lmk-integrations"):
        begin(store, toy("new"), documents())
    assert collections(store) == {NAME}


def test_another_granularity(store: Any, encoder: LMKEncoder) -> None:
    """The space is the same, so sections keep their size and the language is kept."""
    text = "The keeper climbed the stairs to light the lamp. " * 30
    sources = [Document(text, id="light"), Document("Rye bread needs a sourdough.", id="bread")]
    rebuild(store, NAME, encoder, sources, section_tokens=64, language="none")
    report = rebuild(store, NAME, LMKEncoder(granularity=64, dtype="float32"), sources)
    assert report.swapped
    identity = read_identity(store, NAME)
    assert identity is not None
    assert (identity.recipe["section_tokens"], identity.bm25["language"]) == (64, "none")
    assert identity.recipe["granularity"] == 64
    hits = LandmarkIndex(store, NAME, encoder).search("Who lights the lamp?", 1)
    assert hits[0].doc_id == "light"


# -- not swapping ----------------------------------------------------------------------------


def test_failures_keep_the_old_collection_in_place(store: Any) -> None:
    """Unless they are allowed; the report names them."""
    first = with_alias(store)
    bad = Document(Unreadable(), id="bad")
    report = begin(store, toy("new"), [*documents(), bad])
    assert not report.swapped
    assert len(report.problems) == 1
    assert "1 items failed ('bad')" in report.problems[0]
    assert resolve(store, NAME) == first.collection
    report = begin(store, toy("new"), [*documents(), bad], allow_failures=True)
    assert report.swapped
    assert [item.name for item in report.ingest.failed] == ["bad"]


def test_a_document_that_fails_now_is_missed(store: Any) -> None:
    """It was searchable before: allowing failures allows losing it."""
    with_alias(store)
    changed = [*documents(4), Document(Unreadable(), id="d4")]
    report = begin(store, toy("new"), changed)
    assert len(report.problems) == 2
    assert "('d4')" in report.problems[1]
    assert begin(store, toy("new"), changed, allow_failures=True).swapped


def test_no_document_is_lost_silently(store: Any) -> None:
    """What the old collection has beyond the sources is said, and given later it is enough."""
    first = with_alias(store)
    report = begin(store, toy("new"), documents()[:3])
    assert not report.swapped
    assert "2 documents" in report.problems[0]
    assert "('d3', 'd4')" in report.problems[0]
    assert resolve(store, NAME) == first.collection
    assert begin(store, toy("new"), documents()[3:]).swapped
    assert LandmarkIndex(store, NAME).count() == 5
    assert begin(store, toy("newer"), documents()[:1], allow_missing=True).swapped


def test_items_are_not_lost_silently(store: Any) -> None:
    """They have no source to be read again."""
    report = with_alias(store)
    vector = np.ones(5, np.float32)
    LandmarkIndex(store, NAME, toy("old")).put([Item(id="i", text="x", vector=vector)])
    refused = begin(store, toy("new"), documents())
    assert not refused.swapped
    assert "1 points" in refused.problems[0]
    new = LandmarkIndex(store, refused.collection, toy("new"))
    new.put([Item(id="i", text="x", vector=vector)])
    assert begin(store, toy("new"), documents()).swapped
    assert report.collection in collections(store)


def test_files_that_are_gone(store: Any, tmp_path: Path) -> None:
    """A document whose file was deleted blocks the swap, unless it is to be pruned."""
    folder = tmp_path / "docs"
    folder.mkdir()
    for name in ("a.txt", "b.txt"):
        (folder / name).write_text(f"Bread, as told in {name}.", encoding="utf-8")
    assert begin(store, toy("old"), folder).swapped
    (folder / "b.txt").unlink()
    report = begin(store, toy("new"), folder)
    assert "docs/b.txt" in report.problems[0]
    assert begin(store, toy("new"), folder, prune=True).swapped
    assert LandmarkIndex(store, NAME).count() == 1


def test_a_half_stored_document_is_noticed(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Section counts are compared with what heads say, after the ingest; the next run mends."""
    first = with_alias(store)
    prune = rebuild_check.Given.prune

    def lose(given: Any, sink: Any) -> int:
        d0 = m.FieldCondition(key="lmk.doc_id", match=m.MatchValue(value="d0"))
        section = m.FieldCondition(key="lmk.kind", match=m.MatchValue(value="section"))
        new = sink._collection
        store.delete(new, m.FilterSelector(filter=m.Filter(must=[d0, section])))
        return prune(given, sink)

    with monkeypatch.context() as patched:
        patched.setattr(rebuild_check.Given, "prune", lose)
        report = begin(store, toy("new"), documents())
    assert report.problems == ["1 documents are not stored whole ('d0'); run again"]
    assert resolve(store, NAME) == first.collection
    assert begin(store, toy("new"), documents()).swapped
    assert found(store, toy("new")) == ["d0", "d1", "d2", "d3", "d4"]


# -- resuming --------------------------------------------------------------------------------


def test_a_stopped_rebuild_goes_on(store: Any) -> None:
    """The old collection serves meanwhile; what was stored is not encoded again."""
    many = 200
    begin(store, toy("old"), documents(many))
    old = resolve(store, NAME)
    stop = threading.Event()
    calls: list[str] = []

    def watch(report: Any) -> None:
        if report.new >= 64:
            stop.set()

    first = begin(store, toy("new", calls=calls), documents(many), on_progress=watch, stop=stop)
    assert first.interrupted
    assert not first.swapped
    assert resolve(store, NAME) == old
    assert found(store, toy("old"))
    encoded = len(calls)
    assert 64 <= encoded < many
    second = begin(store, toy("new", calls=calls), documents(many))
    assert second.swapped
    assert second.collection == first.collection
    assert second.ingest.unchanged >= 64
    assert len(calls) <= many + 64  # of the batch in flight, what was not stored yet


def _crash(*_: Any, **__: Any) -> None:
    raise KeyboardInterrupt


def finish(store: Any) -> None:
    """The next run ends as an uninterrupted one would have."""
    report = begin(store, toy("new"), documents(), drop_old=True)
    assert not report.problems
    assert collections(store) == {report.collection}
    assert aliases(store) == {NAME: report.collection}
    assert found(store, toy("new")) == ["d0", "d1", "d2", "d3", "d4"]


def cut_off(store: Any, moment: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(rebuild_module, moment, _crash)
        with pytest.raises(KeyboardInterrupt):
            begin(store, toy("new"), documents(), drop_old=True)


@pytest.mark.parametrize("moment", ["note_replaced", "point", "_old_ones"])
def test_a_rebuild_that_ends_at_the_swap_goes_on(
    store: Any, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever it was cut off, the name stands for something whole, and the next run finishes."""
    with_alias(store)
    cut_off(store, moment, monkeypatch)
    served = toy("new") if moment == "_old_ones" else toy("old")
    assert found(store, served) == ["d0", "d1", "d2", "d3", "d4"]
    finish(store)


@pytest.mark.parametrize("moment", ["note_replaced", "take_name", "_old_ones"])
def test_an_embedded_collection_never_loses_its_name(
    tmp_path: Path, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same for a plain collection, which is renamed."""
    with EdgeClient(tmp_path / "store") as store:
        filled(store)
        cut_off(store, moment, monkeypatch)
        served = toy("new") if moment == "_old_ones" else toy("old")
        assert found(store, served) == ["d0", "d1", "d2", "d3", "d4"]
        finish(store)


def test_the_gap_of_a_server_is_closed_by_the_next_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut off between deleting the plain collection and making the alias: nothing is lost."""
    store = connect(":memory:")
    filled(store)
    cut_off(store, "point", monkeypatch)
    assert resolve(store, NAME) is None
    finish(store)


# -- indexes that were open before the swap ---------------------------------------------------


@pytest.mark.parametrize("dim", [5, 7])
def test_an_open_index_refuses_a_collection_of_another_model(store: Any, dim: int) -> None:
    """Vectors of two models are never compared, whatever the name stood for when it was opened."""
    with_alias(store)
    early = LandmarkIndex(store, NAME, toy("old"))
    bare = LandmarkIndex(store, NAME)  # asked by vectors
    vector = toy("old").encode_queries(["tower"])[0].tolist()
    assert early.search("tower", 1)[0].doc_id == "d0"
    assert begin(store, toy("new", dim), documents()).swapped
    for _ in range(2):
        with pytest.raises(SpaceMismatchError, match="'old'"):
            early.search("tower", 1)
        with pytest.raises(SpaceMismatchError, match="'old'"):
            bare.search(vector=vector, mode="dense")
    assert bare.search("tower", 1, mode="bm25")[0].doc_id == "d0"


def test_an_open_index_follows_a_collection_of_its_own_model(store: Any) -> None:
    """It takes the new collection's settings at its first search, and asks no more after that."""
    filled(store)
    early = LandmarkIndex(store, NAME, toy("old"))
    assert begin(store, toy("old"), documents(), section_tokens=99, drop_old=True).swapped
    assert early.search("tower", 1)[0].doc_id == "d0"
    assert early.section_tokens == 99
    seen: list[str] = []
    get_collection = store.get_collection
    store.get_collection = lambda name, **options: (
        seen.append(name) or get_collection(name, **options)
    )
    assert early.search("bread", 1)[0].doc_id == "d1"
    assert seen == []


def test_a_collection_deleted_meanwhile_is_missed_by_name(store: Any) -> None:
    """Whatever the store says, the error is ours and names the collection."""
    early = filled(store)
    store.delete_collection(NAME)
    with pytest.raises(StoreError, match="no collection 'library' any more"):
        early.search("tower")


def test_info_tells_the_aliases(store: Any) -> None:
    """Those of the collection, by whichever of its names it is asked."""
    report = with_alias(store)
    assert LandmarkIndex(store, report.collection).info()["aliases"] == [NAME]
    assert LandmarkIndex(store, NAME).info()["aliases"] == []
    made = m.CreateAlias(alias_name="stable", collection_name=report.collection)
    store.update_collection_aliases([m.CreateAliasOperation(create_alias=made)])
    assert LandmarkIndex(store, NAME).info()["aliases"] == ["stable"]
