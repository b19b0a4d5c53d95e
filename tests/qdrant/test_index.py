"""LandmarkIndex: what it finds, in every mode, the same on every store; and what it refuses."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from index_data import LIBRARY, QUERIES, library
from qdrant_client import models
from store_backends import BACKENDS, open_backend

from lmk_integrations import (
    ConfigError,
    Document,
    LandmarkIndex,
    LMKEncoder,
    SearchHit,
    SpaceMismatchError,
    StoreError,
    connect,
)
from lmk_integrations.qdrant import HybridWeights
from lmk_integrations.qdrant.schema import read_identity, write_identity

pytestmark = pytest.mark.usefixtures("one_thread")

MODES = ["hybrid", "dense", "landmark", "bm25", "document"]
SECTION = 128
ALL = 1000


@pytest.fixture(scope="module")
def indexes(
    encoder: LMKEncoder, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, LandmarkIndex]]:
    """The same library in a store of each kind."""
    with ExitStack() as stack:
        opened = {}
        for kind in BACKENDS:
            client = stack.enter_context(open_backend(kind, tmp_path_factory.mktemp(kind)))
            opened[kind] = LandmarkIndex(client, "library", encoder, section_tokens=SECTION)
            report = opened[kind].ingest(library())
            assert report.new == len(LIBRARY)
        yield opened


@pytest.fixture(params=BACKENDS)
def index(request: pytest.FixtureRequest, indexes: dict[str, LandmarkIndex]) -> LandmarkIndex:
    """The library, to look things up in: not to be changed."""
    return indexes[request.param]


@pytest.fixture
def small(store: Any, encoder: LMKEncoder) -> LandmarkIndex:
    """Three short documents, to be changed."""
    made = LandmarkIndex(store, "small", encoder, section_tokens=SECTION)
    chosen = ("lighthouse/1", "bread/1", "chess/1")
    made.ingest([LIBRARY[name] for name in chosen])
    return made


def text_of(hit: SearchHit) -> str:
    return str(LIBRARY[hit.doc_id].text)


def ranking(hits: list[SearchHit]) -> list[tuple[str, int]]:
    return [(hit.doc_id, hit.section) for hit in hits]


# -- hits ------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_hits_are_pieces_of_their_documents(index: LandmarkIndex, mode: Any) -> None:
    """Section, passage and landmark spans are exact character ranges of the text given."""
    found = [hit for query in QUERIES for hit in index.search(query, 20, mode=mode)]
    assert len(found) > 20
    for hit in found:
        document = text_of(hit)
        assert hit.text == document[hit.start : hit.end] != ""
        assert hit.passage.text == document[hit.passage.start : hit.passage.end] != ""
        assert hit.start <= hit.passage.start < hit.passage.end <= hit.end
        spans = hit.landmark_spans
        assert (spans[0, 0], spans[-1, 1]) == (hit.start, hit.end)
        assert (spans[1:, 0] == spans[:-1, 1]).all()
        assert len(hit.landmark_scores) == len(hit.landmark_terms) == len(spans)
        assert hit.metadata["start"] == hit.start
        assert hit.metadata["doc_id"] == hit.doc_id
    scores = [hit.score for hit in index.search(QUERIES[0], 20, mode=mode)]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("passage_tokens", [32, 48, 100])
def test_a_passage_keeps_to_its_tokens(
    index: LandmarkIndex, encoder: LMKEncoder, passage_tokens: int
) -> None:
    """At most so many tokens, within a tenth.

    The tenth: tokens are stored per landmark, so those of a sentence that ends within a landmark
    are estimated from its characters.
    """
    sizes = []
    for query in QUERIES:
        for hit in index.search(query, 20, mode="landmark", passage_tokens=passage_tokens):
            sizes.append(len(encoder.model.tokenizer.encode(hit.passage.text).ids))
    assert max(sizes) <= passage_tokens * 1.1 + 1
    assert np.mean(sizes) > passage_tokens * 0.3, "it uses what it may have"


def test_a_passage_is_where_the_answer_is(index: LandmarkIndex) -> None:
    """The best landmark lies in the passage, and the passage begins a sentence where it can."""
    (hit,) = index.search("sacrificed her queen and gave mate", 1, mode="landmark")
    assert "queen" in hit.passage.text
    best = int(np.argmax(hit.landmark_scores))
    begin, end = hit.landmark_spans[best]
    assert hit.passage.start < end
    assert begin < hit.passage.end
    assert hit.passage.score == pytest.approx(hit.landmark_scores[best])
    assert hit.passage.text.startswith("In chapter")


@pytest.mark.parametrize("query", QUERIES)
def test_terms_sum_to_the_dense_score(index: LandmarkIndex, query: str) -> None:
    """What each landmark adds is exact, negative terms included."""
    for hit in index.search(query, ALL, mode="dense"):
        assert float(hit.landmark_terms.sum()) == pytest.approx(hit.score, abs=1e-3)


@pytest.mark.parametrize("query", QUERIES)
def test_the_landmark_score_is_that_of_the_best_landmark(index: LandmarkIndex, query: str) -> None:
    """MaxSim with one query vector, within what float16 holds."""
    hits = index.search(query, ALL, mode="landmark")
    assert len(hits) == index.info()["sections"]
    for hit in hits:
        assert float(hit.landmark_scores.max()) == pytest.approx(hit.score, abs=1e-3)


@pytest.mark.parametrize("query", QUERIES)
def test_landmark_scores_are_those_of_the_encoder(
    index: LandmarkIndex, encoder: LMKEncoder, query: str
) -> None:
    """What is stored is what `iter_landmarks` gives for the same text."""
    text = LIBRARY["long"].text
    sections = list(encoder.iter_landmarks([text], section_tokens=SECTION))
    vector = encoder.encode_queries([query])[0]
    hits = index.search(query, ALL, mode="landmark", filter={"doc_id": "long"})
    assert len(hits) == len(sections) > 10
    for hit in hits:
        rows = sections[hit.section].landmarks
        rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        np.testing.assert_allclose(hit.landmark_scores, rows @ vector, atol=1e-3)
        assert (hit.landmark_spans == sections[hit.section].spans).all()


@pytest.mark.parametrize(
    "weights", [HybridWeights(), HybridWeights(0.3, 2.0), HybridWeights(bm25_weight=0.0)]
)
def test_hybrid_is_its_formula(index: LandmarkIndex, weights: HybridWeights) -> None:
    """a * landmark + b * bm25, and 0 for an arm that does not know the section."""
    index = LandmarkIndex(index.client, "library", index.encoder, weights=weights)
    for query in QUERIES[:4]:
        landmark = {hit.id: hit.score for hit in index.search(query, ALL, mode="landmark")}
        bm25 = {hit.id: hit.score for hit in index.search(query, ALL, mode="bm25")}
        assert set(bm25) < set(landmark)
        expected = {
            key: weights.landmark_weight * score + weights.bm25_weight * bm25.get(key, 0)
            for key, score in landmark.items()
        }
        hits = index.search(query, ALL, mode="hybrid")
        assert {hit.id: hit.score for hit in hits} == pytest.approx(expected, abs=1e-5)


def test_the_document_score_is_that_of_the_whole_text(
    index: LandmarkIndex, encoder: LMKEncoder
) -> None:
    """A document that fits one window is found by the vector that `encode_documents` gives it."""
    wholes = dict(
        zip(LIBRARY, encoder.encode_documents([str(d.text) for d in LIBRARY.values()]), strict=True)
    )
    for query in QUERIES:
        vector = encoder.encode_queries([query])[0]
        hits = index.search(query, ALL, mode="document")
        assert sorted(hit.doc_id for hit in hits) == sorted(LIBRARY)
        for hit in hits:
            # Landmarks and windows stand elsewhere where a text is in several sections.
            close = 0.05 if index.count(hit.doc_id) > 1 else 1e-4
            assert hit.score == pytest.approx(float(wholes[hit.doc_id] @ vector), abs=close)


def test_a_document_is_shown_by_its_best_section(index: LandmarkIndex) -> None:
    """Mode "document" ranks documents; the passage comes from the section nearest the query."""
    for hit in index.search(QUERIES[0], 3, mode="document"):
        sections = index.search(QUERIES[0], ALL, mode="landmark", filter={"doc_id": hit.doc_id})
        assert hit.id == sections[0].id


# -- the same everywhere ---------------------------------------------------------------------

WAYS: dict[str, dict[str, Any]] = {
    "plain": {},
    "mapping": {"filter": {"subject": ["lighthouse", "chess"], "year": {"gte": 1992}}},
    "filter": {
        "filter": models.Filter(
            must_not=[
                models.FieldCondition(
                    key="metadata.subject", match=models.MatchValue(value="lighthouse")
                )
            ]
        )
    },
    "grouped": {"per_document": 1},
    "grouped, filtered": {"per_document": 1, "filter": {"tags": "t2"}},
    "small prefetch": {"prefetch": 2},
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("mode", MODES)
def test_every_store_ranks_the_same(indexes: dict[str, LandmarkIndex], mode: Any, way: str) -> None:
    """Scores and order agree; landmarks are float16 in the engine and float32 in memory."""
    for query in QUERIES[::2]:
        expected = indexes["memory"].search(query, 12, mode=mode, **WAYS[way])
        for other in (index for kind, index in indexes.items() if kind != "memory"):
            got = other.search(query, 12, mode=mode, **WAYS[way])
            scores = [hit.score for hit in expected]
            assert [hit.score for hit in got] == pytest.approx(scores, abs=1e-3)
            by_place = dict(zip(ranking(expected), scores, strict=True))
            for hit, score in zip(got, scores, strict=True):
                # Another section may stand here only if it scores the same.
                assert by_place.get((hit.doc_id, hit.section), score) == pytest.approx(
                    score, abs=2e-3
                )


@pytest.mark.parametrize("fusion", ["rrf", "dbsf"])
def test_other_fusions_agree_too(indexes: dict[str, LandmarkIndex], fusion: Any) -> None:
    """Ranks and distributions may turn on a digit of float16, so only the best are compared."""
    for query in QUERIES[:4]:
        best = {kind: index.search(query, 3, fusion=fusion) for kind, index in indexes.items()}
        subject = {hits[0].doc_id.split("/")[0] for hits in best.values()}
        assert len(subject) == 1


@pytest.mark.parametrize("mode", MODES)
def test_a_filter_leaves_out_and_changes_nothing_else(index: LandmarkIndex, mode: Any) -> None:
    """Filtered hits are the unfiltered ones that match, with the same scores."""
    wanted = {"subject": "volcano", "year": {"lt": 1993}}
    for query in QUERIES[:4]:
        everything = index.search(query, ALL, mode=mode)
        expected = [
            hit
            for hit in everything
            if hit.metadata.get("subject") == "volcano" and hit.metadata["year"] < 1993
        ]
        hits = index.search(query, ALL, mode=mode, filter=wanted)
        assert {h.id: h.score for h in hits} == pytest.approx({h.id: h.score for h in expected})
        assert mode == "bm25" or hits


@pytest.mark.parametrize("mode", MODES)
def test_one_hit_for_each_document(index: LandmarkIndex, mode: Any) -> None:
    """per_document=1: its best section, though another document fills all candidates."""
    query = QUERIES[0]  # four documents have a word of it
    hits = index.search(query, 5, mode=mode, per_document=1, prefetch=5)
    documents = [hit.doc_id for hit in hits]
    assert len(documents) == len(set(documents)) == (4 if mode == "bm25" else 5)
    if mode != "document":
        best: dict[str, float] = {}
        for hit in index.search(query, ALL, mode=mode):
            best.setdefault(hit.doc_id, hit.score)
        assert [hit.score for hit in hits] == pytest.approx(list(best.values())[:5], abs=1e-5)


@pytest.mark.parametrize("mode", MODES)
def test_no_search_returns_heads(index: LandmarkIndex, mode: Any) -> None:
    """All hits there can be are sections, with their text; documents appear once in theirs."""
    hits = index.search(QUERIES[0], ALL, mode=mode)
    records = index.client.retrieve("library", [hit.id for hit in hits], with_payload=True)
    assert {record.payload["lmk"]["kind"] for record in records} == {"section"}
    info = index.info()
    assert info["points"] == info["sections"] + info["documents"]
    if mode in ("dense", "landmark"):
        assert len(hits) == info["sections"]


# -- corners ---------------------------------------------------------------------------------


@pytest.mark.parametrize("query", ["the and of", "", "   ", "?!", "\U0001f600"])
def test_a_query_without_a_word_that_counts(index: LandmarkIndex, query: str) -> None:
    """BM25 finds nothing, hybrid goes by landmarks alone, nothing raises."""
    assert index.search(query, mode="bm25") == []
    hybrid = index.search(query, mode="hybrid")
    assert ranking(hybrid) == ranking(index.search(query, mode="landmark"))
    assert len(hybrid) == 10


def test_a_query_may_be_long(index: LandmarkIndex) -> None:
    """Nothing is cut off: a query of several windows is encoded whole."""
    assert index.search(str(LIBRARY["long"].text), 3)[0].doc_id == "long"


def test_bm25_needs_no_encoder(index: LandmarkIndex) -> None:
    """Words are found without a model; then there are no landmark scores, but a passage."""
    light = LandmarkIndex(index.client, "library")
    (hit,) = light.search("sourdough rye", 1, mode="bm25")
    assert hit.metadata["subject"] == "bread"
    assert len(hit.landmark_scores) == 0
    assert hit.passage.text == text_of(hit)[hit.passage.start : hit.passage.end] != ""
    assert light.count() == len(LIBRARY)
    with pytest.raises(ConfigError, match="needs an encoder"):
        light.search("sourdough")
    with pytest.raises(ConfigError, match="needs an encoder"):
        light.ingest([])


def test_hits_are_json(index: LandmarkIndex) -> None:
    """`to_dict` gives plain values that survive JSON."""
    import json

    for hit in index.search(QUERIES[0], 3):
        made = hit.to_dict()
        assert json.loads(json.dumps(made)) == made
        assert made["passage"]["text"] == hit.passage.text
    assert hit.page is None or isinstance(hit.page, str)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"query": None}, "query=None must be a string"),
        ({"mode": "sparse"}, "mode='sparse' is not one of hybrid, dense"),
        ({"fusion": "sum"}, "fusion='sum' is not one of formula, rrf"),
        ({"limit": 0}, "limit=0 must be a whole number from 1"),
        ({"limit": -1}, "limit=-1 must"),
        ({"limit": True}, "limit=True must"),
        ({"limit": 2.5}, "limit=2.5 must"),
        ({"prefetch": 0}, "prefetch=0 must"),
        ({"passage_tokens": 0}, "passage_tokens=0 must"),
        ({"filter": "bread"}, "neither a models.Filter nor a mapping"),
    ],
)
def test_wrong_arguments_are_named(
    index: LandmarkIndex, options: dict[str, Any], message: str
) -> None:
    """A ConfigError says which argument, its value and what it may be."""
    with pytest.raises(ConfigError, match=message):
        index.search(**{"query": "bread", **options})


def test_deleted_documents_are_gone(small: LandmarkIndex) -> None:
    """No mode finds them, counts are right, other documents stay."""
    before = small.info()
    assert small.delete(["bread/1", "no such document"]) == 1
    assert small.delete("bread/1") == small.delete([]) == 0
    for mode in MODES:
        hits = small.search("rye bread sourdough oven", ALL, mode=mode)
        assert {hit.doc_id for hit in hits} <= {"lighthouse/1", "chess/1"}
    after = small.info()
    assert (before["documents"], after["documents"]) == (3, 2)
    assert small.count("bread/1") == 0
    assert small.count("chess/1") + small.count("lighthouse/1") == after["sections"]
    assert after["points"] == after["sections"] + 2


def test_points_that_something_else_wrote_are_found_and_do_no_harm(small: LandmarkIndex) -> None:
    """A point without landmarks, as a framework adds it, is a hit with its whole text."""
    vector = small.encoder.encode_documents(["A note on gardening."])[0].tolist()
    note = models.PointStruct(
        id=7,
        vector={"lmk": vector},
        payload={"page_content": "A note on gardening.", "metadata": {"source": "note"}},
    )
    small.client.upsert("small", points=[note], wait=True)
    hit = small.search("gardening", 1, mode="dense")[0]
    assert (hit.text, hit.passage.text, hit.source) == (
        "A note on gardening.",
        "A note on gardening.",
        "note",
    )
    assert small.count() == 3
    small.search("gardening")


# -- identity --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "difference"),
    [
        ({"pooling": "cls"}, "pooling: 'lmk' stored, 'cls' given"),
        ({"truncate_dim": 128}, "dim: 384 stored, 128 given"),
        ({"normalize": False}, "normalize: True stored, False given"),
    ],
)
def test_another_space_is_refused(
    index: LandmarkIndex, options: dict[str, Any], difference: str
) -> None:
    """Vectors of two spaces are never mixed, and the message says in what they differ."""
    other = LMKEncoder(dtype="float32", **options)
    with pytest.raises(SpaceMismatchError, match=difference):
        LandmarkIndex(index.client, "library", other)


def test_other_weights_are_refused(small: LandmarkIndex) -> None:
    """A model of the same shape and name but with other weights is another space."""
    identity = read_identity(small.client, "small")
    assert identity is not None
    space = {**identity.space, "weights": "0" * 32}
    write_identity(small.client, "small", replace(identity, space=space, model="old-model"))
    with pytest.raises(SpaceMismatchError, match=r"'old-model'.*weights: '0+' stored"):
        LandmarkIndex(small.client, "small", small.encoder)


def test_dtype_batches_and_windows_are_not_the_space(
    index: LandmarkIndex, encoder: LMKEncoder
) -> None:
    """What changes vectors only a little may search."""
    for options in ({"dtype": "bfloat16"}, {"token_budget": 99}, {"max_tokens": 128}):
        LandmarkIndex(index.client, "library", LMKEncoder(**options))


@pytest.mark.parametrize("change", ["section size", "granularity"])
def test_another_recipe_makes_documents_new(small: LandmarkIndex, change: str) -> None:
    """Sections of the new size replace the old ones; nothing of the old recipe is left."""
    encoder = small.encoder
    if change == "granularity":
        encoder = LMKEncoder(dtype="float32", granularity=16)
    again = LandmarkIndex(
        small.client, "small", encoder, section_tokens=64 if change == "section size" else SECTION
    )
    documents = [LIBRARY[name] for name in ("lighthouse/1", "bread/1", "chess/1")]
    report = again.ingest(documents)
    assert (report.updated, report.unchanged) == (3, 0)
    info = again.info()
    assert info["recipe"]["section_tokens"] == again.section_tokens
    assert info["sections"] == report.sections
    assert again.ingest(documents).unchanged == 3
    # And one that asks for nothing takes what the collection has now.
    assert LandmarkIndex(small.client, "small", encoder).section_tokens == again.section_tokens


def test_the_language_is_fixed(store: Any, encoder: LMKEncoder) -> None:
    """BM25 words are made one way in a collection: asked for again it must be the same."""
    made = LandmarkIndex(store, "c", encoder, language="german")
    made.ingest([Document("Die H\u00e4user am Fluss sind alt.", id="a")])
    assert [hit.doc_id for hit in made.search("Haus", mode="bm25")] == ["a"]
    with pytest.raises(ConfigError, match=r"created with language='german'.*'english'"):
        LandmarkIndex(store, "c", encoder, language="english")
    again = LandmarkIndex(store, "c", language=None)
    assert [hit.doc_id for hit in again.search("Haus", mode="bm25")] == ["a"]
    assert again.info()["bm25"]["language"] == "german"
    with pytest.raises(ConfigError, match="klingon"):
        LandmarkIndex(store, "d", encoder, language="klingon").ingest([])
    assert not store.collection_exists("d")


def test_a_collection_of_something_else_is_refused(store: Any, encoder: LMKEncoder) -> None:
    """Nothing is written into a collection that this package did not make."""
    plain = models.VectorParams(size=encoder.dim, distance=models.Distance.COSINE)
    store.create_collection("foreign", vectors_config=plain)
    with pytest.raises(StoreError, match="'foreign' was not made by lmk-integrations"):
        LandmarkIndex(store, "foreign", encoder)


def test_a_layout_of_the_future_is_refused(small: LandmarkIndex) -> None:
    """A collection written by a later release says so instead of failing somewhere."""
    identity = read_identity(small.client, "small")
    assert identity is not None
    write_identity(small.client, "small", replace(identity, version=99))
    with pytest.raises(StoreError, match=r"another version .*99"):
        LandmarkIndex(small.client, "small", small.encoder)


@pytest.mark.parametrize("tokens", [0, -1, 87_361, 1.5, "100", True])
def test_a_section_must_fit_a_point(store: Any, encoder: LMKEncoder, tokens: Any) -> None:
    """The multivector limit is checked before anything is read: 2,730 landmarks of 384."""
    with pytest.raises(ConfigError, match=r"from 1 to 87360.*2730 landmarks"):
        LandmarkIndex(store, "c", encoder, section_tokens=tokens)


def test_a_collection_may_come_and_go(store: Any, encoder: LMKEncoder) -> None:
    """An index opened before sees what another one made, and makes anew what was deleted."""
    early = LandmarkIndex(store, "c", encoder)
    early_reader = LandmarkIndex(store, "c")
    assert not early.exists
    with pytest.raises(StoreError, match="there is no collection 'c'"):
        early.search("bread")
    with pytest.raises(StoreError, match="there is no collection 'c'"):
        early.info()
    assert early.count() == early.count("a") == early.delete("a") == 0
    LandmarkIndex(store, "c", encoder, section_tokens=64).ingest([LIBRARY["bread/1"]])
    assert early_reader.count() == 1
    assert early.ingest([LIBRARY["bread/1"]]).unchanged == 1
    assert early.section_tokens == 64
    store.delete_collection("c")
    assert early.ingest([LIBRARY["bread/1"]]).new == 1


def test_an_index_closes_what_it_opened(tmp_path: Path, encoder: LMKEncoder) -> None:
    """A location is opened and closed by the index, a client is the caller's."""
    with LandmarkIndex(tmp_path / "store", "c", encoder) as index:
        index.ingest([LIBRARY["bread/1"]])
    with pytest.raises(StoreError, match="closed"):
        index.count()
    client = connect(tmp_path / "store")
    with LandmarkIndex(client, "c", encoder) as index:
        assert index.count() == 1
    assert client.collection_exists("c")
    client.close()


def test_searching_while_an_ingest_writes(store: Any, encoder: LMKEncoder) -> None:
    """Readers in other threads see whole documents, old or new, and no errors."""
    index = LandmarkIndex(store, "c", encoder)
    index.ingest([LIBRARY["bread/1"]])
    writing = threading.Thread(
        target=index.ingest, args=([Document(f"Note {i}.", id=f"n{i}") for i in range(200)],)
    )
    writing.start()
    searches = 0
    while writing.is_alive() or searches == 0:
        hits = index.search("rye bread with sourdough", 3)
        assert hits[0].doc_id == "bread/1"
        searches += 1
    writing.join()
    assert index.count() == 201


@pytest.mark.parametrize(
    "options", [{"collection": ""}, {"collection": None}, {"passage_tokens": 0}]
)
def test_an_index_checks_its_settings(store: Any, options: dict[str, Any]) -> None:
    """Wrong settings are refused when the index is made."""
    with pytest.raises(ConfigError):
        LandmarkIndex(store, **{"collection": "c", **options})
    with pytest.raises(ConfigError, match="at least 0"):
        HybridWeights(bm25_weight=-0.1)
