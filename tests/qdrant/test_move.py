"""Copying a collection: equal at the end, resumable in the middle, refused where it cannot fit."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from index_data import LIBRARY, QUERIES
from qdrant_client import models as m
from qdrant_server import Fault, serve
from store_backends import BACKENDS, open_backend

from lmk_integrations import Document, LandmarkIndex, LMKEncoder, connect
from lmk_integrations.errors import ConfigError, SpaceMismatchError, StoreError
from lmk_integrations.qdrant import move_pages
from lmk_integrations.qdrant.items import Item
from lmk_integrations.qdrant.move import CopyReport, copy_collection
from lmk_integrations.qdrant.move_points import as_point, keep_halves, same_payload
from lmk_integrations.qdrant.schema import read_identity, write_identity

pytestmark = pytest.mark.usefixtures("one_thread")

CHOSEN = ("lighthouse/1", "bread/1", "chess/1", "volcano/1", "long", "scripts")
MODES: tuple[Any, ...] = ("hybrid", "dense", "landmark", "bm25", "document")
FOREIGN = "00000000-0000-0000-0000-00000000abcd"
SECTION = 128


def fill(client: Any, encoder: LMKEncoder) -> LandmarkIndex:
    """Documents, two items, and a point as another program would write it."""
    index = LandmarkIndex(client, "library", encoder, section_tokens=SECTION)
    index.ingest([LIBRARY[name] for name in CHOSEN])
    texts = ["A knight on the rim is dim.", "Salt makes bread taste of bread."]
    index.put(
        [
            Item(id=f"item {i}", text=text, vector=found.vector, landmarks=found if i else None)
            for i, (text, found) in enumerate(
                zip(texts, encoder.encode_landmarks(texts), strict=True)
            )
        ]
    )
    vector = [1.0] + [0.0] * (encoder.dim - 1)
    client.upsert(
        "library", [m.PointStruct(id=FOREIGN, vector={"lmk": vector}, payload={"text": "x"})]
    )
    return index


@pytest.fixture(scope="module")
def sources(
    encoder: LMKEncoder, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Any]]:
    """The same collection in a store of each kind: to be read only."""
    with ExitStack() as stack:
        opened = {}
        for kind in BACKENDS:
            client = stack.enter_context(open_backend(kind, tmp_path_factory.mktemp(kind)))
            fill(client, encoder)
            opened[kind] = client
        yield opened


@pytest.fixture
def edge(sources: dict[str, Any]) -> Any:
    return sources["edge"]


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three points at once, so that there is a middle to stop in."""
    monkeypatch.setattr(move_pages, "MAX_POINTS", 3)


def everything(client: Any, name: str) -> dict[Any, Any]:
    records, _ = client.scroll(name, limit=10_000, with_payload=True, with_vectors=True)
    return {record.id: record for record in records}


def plain(vector: Any) -> dict[str, Any]:
    found = {}
    for name, value in vector.items():
        if hasattr(value, "indices"):
            found[name] = dict(zip(value.indices, value.values, strict=True))
        else:
            found[name] = np.asarray(value, np.float32)
    return found


def assert_equal(source: Any, name: str, target: Any, new_name: str, tolerance: float) -> None:
    """Ids, payloads and every vector of every point."""
    before, after = everything(source, name), everything(target, new_name)
    assert before.keys() == after.keys()
    for key, record in before.items():
        assert same_payload(after[key].payload or {}, record.payload or {})
        mine, yours = plain(record.vector), plain(after[key].vector)
        assert mine.keys() == yours.keys()
        for vector_name, value in mine.items():
            if isinstance(value, dict):
                assert yours[vector_name] == pytest.approx(value)
            else:
                np.testing.assert_allclose(yours[vector_name], value, atol=tolerance, rtol=0)


def assert_same_hits(
    source: Any, name: str, target: Any, new_name: str, encoder: LMKEncoder, tolerance: float
) -> None:
    """The same scores in every mode, of the same points; those that tie may change places."""
    one, other = LandmarkIndex(source, name, encoder), LandmarkIndex(target, new_name, encoder)
    for mode, query in itertools.product(MODES, QUERIES):
        mine = one.search(query, 5, mode=mode)
        yours = other.search(query, 5, mode=mode)
        scores = [hit.score for hit in mine]
        assert [hit.score for hit in yours] == pytest.approx(scores, abs=tolerance)
        surely = {hit.id for hit in mine if hit.score > mine[-1].score + 2 * tolerance}
        assert surely <= {hit.id for hit in yours}


def copy(source: Any, target: Any, **options: Any) -> CopyReport:
    report = copy_collection(source, target, "library", **options)
    assert report.copied + report.unchanged == report.total or report.interrupted
    return report


# -- equal -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", BACKENDS)
def test_a_copy_is_the_collection(
    sources: dict[str, Any], store: Any, kind: str, encoder: LMKEncoder
) -> None:
    """Between any two stores: points, vectors, identity, indexes; and so the same hits."""
    source = sources[kind]
    report = copy(source, store, target_name="moved")
    assert report.verified
    assert report.copied == report.total == source.count("library").count
    assert (report.heads, report.items, report.others) == (len(CHOSEN), 2, 1)
    assert report.sections == report.total - len(CHOSEN) - 3
    # Two stores that keep landmarks in float16 keep the very same numbers.
    exact = kind == "edge" and hasattr(store, "path")
    assert_equal(source, "library", store, "moved", 0.0 if exact else 1e-3)
    assert read_identity(store, "moved") == read_identity(source, "library")
    indexed = store.get_collection("moved").payload_schema
    assert set(source.get_collection("library").payload_schema) <= set(indexed) or not indexed
    assert_same_hits(source, "library", store, "moved", encoder, 1e-5 if exact else 2e-3)


def test_a_second_copy_sends_nothing(sources: dict[str, Any], store: Any) -> None:
    """What is there as it is stays, whichever stores the two are."""
    for source in sources.values():
        copy(source, store)
        again = copy(source, store)
        assert (again.copied, again.unchanged, again.verified) == (0, again.total, True)


def test_a_copy_can_be_written_to(
    edge: Any, store: Any, encoder: LMKEncoder, sources: dict[str, Any]
) -> None:
    """An ingest finds the documents of a copy unchanged: nothing is encoded again."""
    copy(edge, store)
    index = LandmarkIndex(store, "library", encoder)
    report = index.ingest([LIBRARY[name] for name in CHOSEN])
    assert (report.unchanged, report.tokens_encoded) == (len(CHOSEN), 0)
    assert index.get("long")["long"].text == LIBRARY["long"].text


def test_further_indexes_come_along(tmp_path: Path, edge: Any) -> None:
    """A payload index that a user made is made in the copy."""
    with connect(tmp_path / "a") as first, connect(tmp_path / "b") as second:
        copy(edge, first)
        first.create_payload_index("library", "metadata.year", m.PayloadSchemaType.INTEGER)
        copy(first, second)
        schema = second.get_collection("library").payload_schema
        assert schema["metadata.year"].data_type == m.PayloadSchemaType.INTEGER


def test_an_alias_is_copied_as_what_it_stands_for(edge: Any, store: Any) -> None:
    """Both names may be aliases; the collection behind the target's is the one that is filled."""
    source = connect(":memory:")
    copy(edge, source, target_name="real")
    made = m.CreateAlias(alias_name="library", collection_name="real")
    source.update_collection_aliases([m.CreateAliasOperation(create_alias=made)])
    assert copy(source, store).verified
    with pytest.raises(ConfigError, match="onto itself"):
        copy(source, source, target_name="real")


# -- over the wire ---------------------------------------------------------------------------


def test_to_a_server_and_back(edge: Any, tmp_path: Path, encoder: LMKEncoder) -> None:
    """REST there and back changes nothing; an overloaded server is waited for."""
    with serve("rest") as serving, connect(tmp_path / "back") as back:
        server = serving.client()
        faults = iter([Fault("answer", times=2)])

        def stumble(_: CopyReport) -> None:
            serving.faults.plan += [fault for fault in [next(faults, None)] if fault]

        assert copy(edge, server, on_progress=stumble).verified
        assert copy(server, back).verified
        server.close()
        assert_equal(edge, "library", back, "library", 1e-3)
        assert_same_hits(edge, "library", back, "library", encoder, 1e-3)


def test_float16_is_kept_to_the_bit() -> None:
    """However often a collection is copied, and however few numbers a row is made of."""
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((500, 384)) * np.exp(2 * rng.standard_normal((500, 384)))
    few = np.where(rng.random((500, 16)) < 0.5, 0.01, rng.integers(1, 4, (500, 16)))
    for given in (rows, few):
        stored = (given / np.linalg.norm(given, axis=-1, keepdims=True)).astype(np.float16)
        sent = keep_halves(stored.astype(np.float32)).astype(np.float64)
        np.testing.assert_allclose(np.linalg.norm(sent, axis=-1), 1.0, atol=1e-6)
        np.testing.assert_array_equal(sent.astype(np.float16), stored)


def test_requests_stay_small(edge: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """No body is larger than the limit, unless it is one point's."""
    heaviest = max(map(move_pages.json_bytes, everything(edge, "library").values()))
    monkeypatch.setattr(move_pages.groups, "__defaults__", (2 * heaviest,))
    with serve("rest") as serving:
        server = serving.client()
        assert copy(edge, server).verified
        server.close()
        assert heaviest / 2 < max(size for _, size in serving.faults.requests) <= 2 * heaviest


def test_the_default_limit_is_below_16_mb() -> None:
    """With room for what frames the points."""
    assert move_pages.groups.__defaults__ == (move_pages.MAX_BYTES,)
    assert move_pages.MAX_BYTES < 15_000_000


def test_the_weight_is_never_too_small(edge: Any, encoder: LMKEncoder) -> None:
    """As JSON a point is at most as long as was reckoned, and before it is read not far more."""
    for page in move_pages.peeks(edge, "library", encoder.dim):
        found = move_pages.read(
            edge, "library", [peek.id for peek in page], payload=True, vectors=True
        )
        for peek in page:
            record = found[peek.id]
            text = json.dumps(as_point(record).model_dump(mode="json"))
            ascii_extra = len(json.dumps(record.payload)) - len(
                json.dumps(record.payload, ensure_ascii=False).encode()
            )
            spaces = text.count(", ")
            assert len(text) - max(0, ascii_extra) - spaces <= move_pages.json_bytes(record)
            assert move_pages.json_bytes(record) <= peek.n_bytes


def test_groups() -> None:
    """In order, all of them, within both limits; only one that is too heavy goes over."""
    weights = [1, 2, 3, 50, 4, 4, 4] + [0] * 300
    found = list(move_pages.groups(weights, lambda weight: weight, 10))
    assert [one for group in found for one in group] == weights
    assert found[:4] == [[1, 2, 3], [50], [4, 4], [4] + [0] * 127]
    assert [len(group) for group in found[4:]] == [128, 45]
    assert list(move_pages.groups([], lambda weight: weight)) == []


# -- resuming --------------------------------------------------------------------------------


@pytest.mark.usefixtures("small_pages")
def test_a_stopped_copy_lists_no_document_and_goes_on(
    edge: Any, store: Any, encoder: LMKEncoder
) -> None:
    """Sections first: half a copy holds no document. The second run sends the rest only."""
    stop = threading.Event()

    def watch(report: CopyReport) -> None:
        if report.copied >= 12:
            stop.set()

    first = copy(edge, store, on_progress=watch, stop=stop)
    assert first.interrupted
    assert not first.verified
    assert first.copied == 12
    assert LandmarkIndex(store, "library", encoder).count() == 0
    second = copy(edge, store)
    assert second.verified
    assert (second.unchanged, second.copied) == (12, second.total - 12)
    assert LandmarkIndex(store, "library", encoder).count() == len(CHOSEN)


KILLED = """
import sys
from lmk_integrations import connect
from lmk_integrations.qdrant import move_pages
from lmk_integrations.qdrant.move import copy_collection

move_pages.MAX_POINTS = 1
def tell(report):
    print(report.copied, flush=True)
    if report.copied == int(sys.argv[3]):
        sys.stdin.readline()
copy_collection(connect(sys.argv[1]), connect(sys.argv[2]), "library", on_progress=tell)
"""


@pytest.mark.parametrize("heads_too", [False, True])
def test_a_killed_copy_goes_on(edge: Any, tmp_path: Path, heads_too: bool) -> None:
    """SIGKILL among the sections, and among the heads: the next run ends with an equal copy."""
    with connect(tmp_path / "from") as source:
        total = copy(edge, source).total
    at = total - 2 if heads_too else 7
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            textwrap.dedent(KILLED),
            tmp_path / "from",
            tmp_path / "to",
            str(at),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
    assert process.stdout is not None
    while process.stdout.readline().strip() != str(at):
        assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.wait(10)
    with connect(tmp_path / "from") as source, connect(tmp_path / "to") as target:
        report = copy(source, target)
        assert report.verified
        assert report.unchanged == at
        assert_equal(source, "library", target, "library", 0.0)


# -- bringing up to date ---------------------------------------------------------------------


@pytest.fixture
def pair(edge: Any, store: Any, tmp_path: Path, encoder: LMKEncoder) -> Iterator[tuple[Any, Any]]:
    """A source that may be changed, and its copy."""
    with connect(tmp_path / "source") as source:
        copy(edge, source)
        copy(source, store)
        yield source, store


def test_only_what_changed_is_sent(pair: tuple[Any, Any], encoder: LMKEncoder) -> None:
    """A new text, new metadata, a new document: their points; sections of the old text go."""
    source, target = pair
    index = LandmarkIndex(source, "library", encoder)
    old = LIBRARY["bread/1"]
    relabelled = replace(LIBRARY["chess/1"], metadata={"subject": "games"})
    index.ingest(
        [
            Document("Now it is all about cake.", id="bread/1", source=old.source),
            Document("A new one.", id="new"),
            relabelled,
        ]
    )
    sections = index.count("chess/1")
    report = copy(source, target)
    assert report.verified
    assert report.copied == 2 + 2 + sections + 1
    assert report.removed > 0
    assert report.only_in_target == 0
    assert_equal(source, "library", target, "library", 1e-3)


def test_what_only_the_copy_has_is_left_unless_pruned(
    pair: tuple[Any, Any], encoder: LMKEncoder
) -> None:
    """Documents of the target are not ours to delete without being told to."""
    source, target = pair
    LandmarkIndex(target, "library", encoder).ingest([Document("Mine alone.", id="mine")])
    LandmarkIndex(source, "library", encoder).delete("long")
    before = target.count("library").count
    report = copy(source, target)
    assert report.verified
    assert (report.removed, report.copied) == (0, 0)
    assert report.only_in_target == before - report.total
    assert LandmarkIndex(target, "library").count("mine") == 1
    pruned = copy(source, target, prune=True)
    assert pruned.verified
    assert (pruned.removed, pruned.only_in_target) == (before - report.total, 0)
    assert_equal(source, "library", target, "library", 1e-3)


def test_a_vector_that_changed_alone_is_sent(pair: tuple[Any, Any], encoder: LMKEncoder) -> None:
    """Of points whose id does not tell their vectors, the vectors are compared."""
    source, target = pair
    vector = [0.0] * (encoder.dim - 1) + [1.0]
    source.upsert(
        "library", [m.PointStruct(id=FOREIGN, vector={"lmk": vector}, payload={"text": "x"})]
    )
    assert copy(source, target).copied == 1
    found = target.retrieve("library", [FOREIGN], with_vectors=True)[0].vector
    assert found["lmk"] == pytest.approx(vector)


def test_a_copy_takes_the_recipe_over(pair: tuple[Any, Any], encoder: LMKEncoder) -> None:
    """What new documents are stored under is known in the copy, too."""
    source, target = pair
    LandmarkIndex(source, "library", encoder, section_tokens=64).ingest([LIBRARY["bread/1"]])
    copy(source, target)
    assert read_identity(target, "library") == read_identity(source, "library")


# -- refused ---------------------------------------------------------------------------------


def other_space(identity: Any) -> Any:
    return replace(identity, space={**identity.space, "weights": "0" * 32}, model="other")


def other_words(identity: Any) -> Any:
    return replace(identity, bm25={**identity.bm25, "language": "german"})


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (other_space, SpaceMismatchError, "weights: '0{32}' stored"),
        (other_words, StoreError, "weighs words otherwise"),
    ],
)
def test_a_collection_that_does_not_fit_is_not_written_to(
    edge: Any, store: Any, change: Callable[[Any], Any], error: type[Exception], message: str
) -> None:
    """Vectors of another space, or other sparse vectors, never meet."""
    copy(edge, store)
    store.delete("library", m.PointIdsList(points=[FOREIGN]))
    identity = read_identity(store, "library")
    assert identity is not None
    write_identity(store, "library", change(identity))
    before = store.count("library").count
    with pytest.raises(error, match=message):
        copy(edge, store)
    assert store.count("library").count == before


def test_collections_of_others_are_left_alone(edge: Any, store: Any) -> None:
    """Neither read as if they were ours, nor written to."""
    store.create_collection("library", {"v": m.VectorParams(size=2, distance=m.Distance.DOT)})
    with pytest.raises(StoreError, match=r"not made by lmk-integrations\. Copy to another name"):
        copy(edge, store)
    with pytest.raises(StoreError, match="not made by lmk-integrations: not copied"):
        copy(store, edge, target_name="new")
    with pytest.raises(StoreError, match="no collection 'nothing' to copy"):
        copy_collection(edge, store, "nothing")
    assert store.count("library").count == 0
    assert not edge.collection_exists("new")


def test_a_copy_that_lost_points_is_not_verified(edge: Any, store: Any) -> None:
    """Counts and ids are compared at the end, not assumed."""

    def lose(report: CopyReport) -> None:
        if report.copied == report.total:
            store.delete("library", m.PointIdsList(points=[FOREIGN]))

    with pytest.raises(StoreError, match="others: 1 in the source, 0 in the target"):
        copy_collection(edge, store, "library", on_progress=lose)
    assert copy(edge, store).verified
