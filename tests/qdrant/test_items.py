"""Texts stored as they are, documents given back whole, and points of other stores."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from index_data import prose
from qdrant_client import models
from store_backends import BACKENDS, open_backend

from lmk_integrations import Document, LandmarkIndex
from lmk_integrations.encoder import LMKEncoder, PlainEncoder
from lmk_integrations.errors import ConfigError, DocumentError, ModelError
from lmk_integrations.qdrant.items import Item

WORDS = ("tower", "bread", "volcano", "chess", "lamp")


def letters(text: str) -> list[float]:
    """A toy embedding: which of the words a text holds."""
    return [1.0 if word in text.lower() else 0.01 for word in WORDS]


def plain(**options: Any) -> PlainEncoder:
    return PlainEncoder(
        lambda texts: [letters(text) for text in texts], letters, name="letters", **options
    )


@pytest.fixture(scope="module")
def encoder() -> LMKEncoder:
    return LMKEncoder()


@pytest.fixture(params=BACKENDS)
def client(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    with open_backend(request.param, tmp_path) as opened:
        yield opened


def test_a_document_comes_back_as_it_was_given(client: Any, encoder: LMKEncoder) -> None:
    """Whole text with the white space around it, and metadata, reserved keys and None included."""
    metadata = {
        "source": "a.txt",
        "title": "mine",
        "page": 7,
        "start": "here",
        "section": [1, 2],
        "nothing": None,
        "doc_id": "theirs",
        "deep": {"a": [1, None]},
        "end": None,
    }
    texts = {
        "long": "\n\n  " + prose("bread", 1, 60) + "\n \t",
        "short": "One line.",
        "dots": " . ",
    }
    with LandmarkIndex(client, "given", encoder, section_tokens=64) as index:
        index.ingest(
            Document(text, id=name, metadata=metadata, source="a.txt")
            for name, text in texts.items()
        )
        found = index.get(["short", "absent", "long", "dots"])
        assert list(found) == ["short", "long", "dots"]
        assert {name: one.text for name, one in found.items()} == {
            name: texts[name] for name in ("short", "long", "dots")
        }
        assert all(one.metadata == metadata for one in found.values())
        assert index.count("long") > 1
        hits = index.search("sourdough", 5)
        assert all(dict(hit.given) == metadata for hit in hits)
        assert hits[0].metadata["title"] == "mine"

        changed = {"title": None, "kept": 1}
        index.ingest([Document(texts["long"], id="long", metadata=changed, source="a.txt")])
        assert index.get("long")["long"].metadata == changed
        assert index.get("long")["long"].text == texts["long"]


def test_a_plain_encoder_makes_a_dense_and_bm25_index(client: Any) -> None:
    """Any embedding function fills and searches a collection; unchanged texts are not embedded."""
    calls: list[int] = []

    def documents(texts: list[str]) -> list[list[float]]:
        calls.append(len(texts))
        return [letters(text) for text in texts]

    encoder = PlainEncoder(documents, letters, name="letters")
    index = LandmarkIndex(client, "plain", encoder)
    given = [Document(f"All about the {word}.", id=word, metadata={"w": word}) for word in WORDS]
    assert index.ingest(given).new == 5
    for mode in ("hybrid", "dense", "landmark", "bm25", "document"):
        hits = index.search("What of the volcano?", 2, mode=mode)  # type: ignore[arg-type]
        assert hits[0].doc_id == "volcano", mode
        assert hits[0].text == hits[0].passage.text == "All about the volcano."
    assert index.search("bread", 1, filter={"w": "chess"})[0].doc_id == "chess"
    assert index.ingest(given).unchanged == 5
    assert sum(calls) == 5
    vectors = client.get_collection("plain").config.params.vectors
    assert "landmarks" not in vectors


def test_a_plain_space_is_told_from_others(client: Any) -> None:
    """A collection of one embedding function is not opened by another of the same size."""
    LandmarkIndex(client, "space", plain()).ingest([Document("bread", id="1")])
    with pytest.raises(Exception, match="letters"):
        LandmarkIndex(
            client, "space", PlainEncoder(lambda t: [], lambda t: [], name="other", dim=5)
        )
    wrong = PlainEncoder(lambda texts: [[1.0]], letters, name="letters")
    with pytest.raises(ModelError, match="1 vectors of 1 dimensions for 2 texts"):
        LandmarkIndex(client, "space", wrong).ingest(
            [Document("a lamp", id="2"), Document("a tower", id="3")]
        )


def test_items_are_one_point_each(client: Any) -> None:
    """Upserted by any id, found, grouped by their document, read and deleted by id."""
    index = LandmarkIndex(client, "items", plain())
    items = [
        Item(
            id=f"node {n}",
            text=f"{word} and more",
            vector=np.array(letters(word), np.float32),
            start=100 * n,
            document_id="doc" if n < 3 else None,
            metadata={"n": n, "title": None},
            payload={"_node_type": "TextNode"},
        )
        for n, word in enumerate(WORDS)
    ]
    index.put(items)
    index.put(items[:2])
    assert index.info()["items"] == 5
    [hit] = index.search("the volcano", 1)
    assert (hit.text, hit.start, hit.end, hit.doc_id) == ("volcano and more", 200, 216, "doc")
    assert hit.given == {"n": 2, "title": None}
    point = index.points([hit.id], with_vectors=True)[hit.id]
    assert point.payload is not None
    assert point.payload["_node_type"] == "TextNode"
    wanted = np.array(letters("volcano")) / np.linalg.norm(letters("volcano"))
    vectors: Any = point.vector
    np.testing.assert_allclose(vectors["lmk"], wanted, atol=1e-5)
    assert len(index.search("bread tower volcano", 5, per_document=1)) == 3
    # "doc" has three of the five: at most two of them leave four hits, however few are asked for.
    assert len(index.search("bread tower volcano", 5, mode="dense", per_document=2)) == 4
    top = index.search("bread tower volcano", 3, mode="dense", per_document=2)
    assert len(top) == 3
    assert sum(hit.doc_id == "doc" for hit in top) == 2
    with pytest.raises(ConfigError, match="per_document"):
        index.search("bread", per_document=0)
    assert index.get(["node 1"])["node 1"].text == "bread and more"
    assert index.delete(["node 1", "absent"]) == 1
    without = LandmarkIndex(client, "items")
    without.put([Item(id="late", text="a lamp", vector=np.array(letters("lamp"), np.float32))])
    assert without.get("late")["late"].text == "a lamp"
    assert without.delete("late") == 1
    with pytest.raises(ConfigError, match="new collection needs an encoder"):
        LandmarkIndex(client, "other").put(items)
    index.delete_where({"n": {"gte": 3}})
    assert index.info()["items"] == 2
    with pytest.raises(ConfigError, match="everything"):
        index.delete_where({})
    with pytest.raises(DocumentError, match="5 finite numbers"):
        index.put([Item(id="x", text="y", vector=np.zeros(3, np.float32))])
    with pytest.raises(DocumentError, match="surrogate"):
        index.put([Item(id="x", text="\ud800", vector=np.ones(5, np.float32))])


def test_items_with_landmarks(client: Any, encoder: LMKEncoder) -> None:
    """An item's landmarks rank it and place its passage, in its document's characters."""
    text = prose("chess", 2, 30)
    [encoding] = encoder.encode_landmarks([text])
    index = LandmarkIndex(client, "marked", encoder)
    index.put([Item(id="a", text=text, vector=encoding.vector, landmarks=encoding, start=1000)])
    query = encoder.encode_queries(["She sacrificed her queen"])[0]
    for asked in ({"query": "She sacrificed her queen"}, {"vector": query.tolist()}):
        [hit] = index.search(**asked, limit=1, mode="landmark")  # type: ignore[arg-type]
        assert "sacrificed her queen" in hit.passage.text
        assert text[hit.passage.start - 1000 : hit.passage.end - 1000] == hit.passage.text
        assert hit.score == pytest.approx(float(hit.landmark_scores.max()), abs=2e-3)
        assert (hit.start, hit.end) == (1000, 1000 + len(text))


@pytest.mark.parametrize("fusion", ["formula", "rrf", "dbsf"])
def test_points_of_other_stores_are_found(client: Any, encoder: LMKEncoder, fusion: str) -> None:
    """Points without landmarks, record or head, as frameworks' stores write them, take part."""
    index = LandmarkIndex(client, "mixed", encoder)
    index.ingest([Document(prose(s, 3, 20), id=s) for s in ("bread", "volcano", "chess")])
    foreign = "The lighthouse keeper keeps bees, too."
    client.upsert(
        "mixed",
        points=[
            models.PointStruct(
                id=7,
                vector={"lmk": encoder.encode_documents([foreign])[0].tolist()},
                payload={"page_content": foreign, "metadata": {"source": "bees.txt"}},
            )
        ],
        wait=True,
    )
    question = "Which animals does the keeper of the lighthouse keep?"
    for mode in ("dense", "landmark", "hybrid"):
        hits = index.search(question, 4, mode=mode, fusion=fusion)  # type: ignore[arg-type]
        assert len({hit.doc_id for hit in hits}) >= 3 or mode != "hybrid"
        [own] = [hit for hit in hits if hit.source == "bees.txt"]
        assert own.text == own.passage.text == foreign
        if fusion == "formula":
            assert hits[0] is own, mode
    [only] = index.search(question, 4, filter={"source": "bees.txt"})
    assert list(index.points([only.id])) == ["7"]
    assert only.given == {"source": "bees.txt"}
    assert index.search("sourdough", 1)[0].doc_id == "bread"


def test_a_query_vector_must_fit(client: Any) -> None:
    """A vector of another size, or not finite, is refused with the size that is due."""
    index = LandmarkIndex(client, "fit", plain())
    index.ingest([Document("bread", id="1")])
    for bad in ([1.0], [float("nan")] * 5):
        with pytest.raises(ConfigError, match="5 finite numbers"):
            index.search(vector=bad, mode="dense")
    without = LandmarkIndex(client, "fit")
    assert without.search(vector=letters("bread"), mode="dense")[0].doc_id == "1"
    with pytest.raises(ConfigError, match="encoder"):
        without.search("bread")
