"""A node's landmarks: handed over with its embedding, else encoded again; of its own text only."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from llama_index.core import StorageContext, VectorStoreIndex
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.schema import MetadataMode, TextNode

from lmk_integrations.encoder import LandmarkEncoding
from lmk_integrations.llama_index import LMKEmbedding, LMKVectorStore
from lmk_integrations.llama_index.handover import Handover
from lmk_integrations.llama_index.landmarks import at_most, landmarks_within, place_of

PROSE = " ".join(f"In chapter {n} the whale sings about the sea and its ships." for n in range(30))


@pytest.fixture
def embedding(encoder):
    return LMKEmbedding(encoder=encoder)


@pytest.fixture(params=["edge", "memory"])
def store(request, tmp_path, embedding):
    location = ":memory:" if request.param == "memory" else tmp_path / "store"
    made = LMKVectorStore(location, "docs", embedding)
    yield made
    made.close()


def made(vector, n=3, dim=4):
    return LandmarkEncoding(
        vector=np.float32(vector),
        landmarks=np.arange(n * dim, dtype=np.float32).reshape(n, dim),
        spans=np.array([[10 * i, 10 * i + 10] for i in range(n)], np.int64),
        weights=np.ones(n, np.float32),
        chunk_tokens=np.full(n, 2, np.int64),
        n_tokens=2 * n,
        n_windows=1,
        n_unk=0,
    )


def counts(store):
    facts = store.info()
    return facts["handed_over"], facts["encoded_again"]


def stored(store, name):
    """The landmark rows and the spans of a node's point."""
    (hit,) = [h for h in store.index.search("whale", 50, mode="landmark") if h.doc_id == name]
    records = store.client.retrieve("docs", [hit.id], with_vectors=["landmarks"])
    return np.float32(records[0].vector["landmarks"]), hit


# -- into the store ------------------------------------------------------------------------------


def test_an_index_hands_landmarks_to_its_store(store, embedding):
    """VectorStoreIndex embeds once; the store has the landmarks and encodes nothing."""
    nodes = [TextNode(text=PROSE, id_="long"), TextNode(text="A loaf.", id_="short")]
    context = StorageContext.from_defaults(vector_store=store)
    VectorStoreIndex(nodes, storage_context=context, embed_model=embedding)
    assert counts(store) == (2, 0)
    rows, hit = stored(store, "long")
    (expected,) = embedding.encoder.encode_landmarks([PROSE])
    units = expected.landmarks / np.linalg.norm(expected.landmarks, axis=1, keepdims=True)
    np.testing.assert_allclose(rows, units, atol=2e-3)
    assert hit.landmark_spans[:, 1].tolist() == expected.spans[:, 1].tolist()


async def test_a_pipeline_hands_landmarks_to_its_store(store, embedding):
    """So does an IngestionPipeline, sync and async."""
    pipeline = IngestionPipeline(transformations=[embedding], vector_store=store)
    pipeline.run(nodes=[TextNode(text=PROSE, id_="a")])
    await pipeline.arun(nodes=[TextNode(text=PROSE + " End.", id_="b")])
    assert counts(store) == (2, 0)


def test_what_was_not_handed_over_is_encoded_again(store, embedding, encoder):
    """Embeddings from elsewhere keep their vector; their landmarks are made, and counted."""
    vector = embedding.get_text_embedding(PROSE)
    rounded = [round(x, 4) for x in vector]
    store.add([TextNode(text=PROSE, id_="known", embedding=vector)])
    assert counts(store) == (1, 0)
    store.add([TextNode(text=PROSE, id_="rounded", embedding=rounded)])
    store.add([TextNode(text=PROSE, id_="taken", embedding=vector)])
    store.add([TextNode(text=PROSE, id_="bare")])
    assert counts(store) == (1, 2)  # the last one had not been encoded before
    known, _ = stored(store, "known")
    for name in ("rounded", "taken", "bare"):
        np.testing.assert_allclose(stored(store, name)[0], known, atol=2e-3)
    points = store.index.points([stored(store, "bare")[1].id], with_vectors=True)
    np.testing.assert_allclose(
        next(iter(points.values())).vector["lmk"], encoder.encode_documents([PROSE])[0], atol=1e-3
    )


def test_spans_are_of_the_nodes_own_text(store, embedding):
    """The metadata header that LlamaIndex embeds has no landmark, and passages lie in the text."""
    header = {"summary": "A long description of what the whale does. " * 8}
    node = TextNode(text=PROSE, id_="long", metadata=header, start_char_idx=1000)
    store.add(embedding([node]))
    assert counts(store) == (1, 0)
    rows, hit = stored(store, "long")
    whole = embedding.encoder.encode_landmarks([node.get_content(MetadataMode.EMBED)])[0]
    assert 0 < len(rows) < len(whole.landmarks)
    assert (hit.landmark_spans[0, 0], hit.landmark_spans[-1, 1]) == (1000, 1000 + len(PROSE))
    assert (np.diff(hit.landmark_spans.ravel()) >= 0).all()
    passage = hit.passage
    assert PROSE[passage.start - 1000 : passage.end - 1000] == passage.text


def test_embeddings_are_not_kept_for_nobody(encoder, monkeypatch):
    """Nothing waits until a store of the model is open, nor for one that is gone."""
    handover = Handover()
    monkeypatch.setattr("lmk_integrations.llama_index.embedding.HANDOVER", handover)
    monkeypatch.setattr("lmk_integrations.llama_index.adding.HANDOVER", handover)
    embedding = LMKEmbedding(encoder=encoder)
    alone = embedding.get_text_embedding(PROSE)
    assert handover.n_bytes == 0
    store = LMKVectorStore(":memory:", "docs", embedding)
    assert embedding.get_text_embedding(PROSE) == alone
    waiting = handover.n_bytes
    assert waiting > 0
    store.close()
    del store
    gc.collect()
    embedding.get_text_embedding("something else")
    assert handover.n_bytes == waiting


# -- the parts -----------------------------------------------------------------------------------


def test_handover_gives_each_once():
    """By text, space and vector; equal ones wait as often as they were handed over."""
    handover = Handover()
    one, other = made([1, 2]), made([3, 4])
    for encoding in (one, other, one):
        handover.offer("space", "text", encoding)
    assert handover.take("space", "text", [3.0, 4.0]) is other
    assert handover.take("space", "text", [3.0, 4.0]) is None
    assert handover.take("other space", "text", [1.0, 2.0]) is None
    assert handover.take("space", "other text", [1.0, 2.0]) is None
    assert handover.take("space", "text", [1.0, 2.0]) is one
    assert handover.take("space", "text", [1.0, 2.0]) is one
    assert handover.take("space", "text", [1.0, 2.0]) is None
    assert handover.n_bytes == 0


def test_handover_is_bounded():
    """The oldest go first; one that alone is too large does not stay."""
    handover = Handover(max_bytes=2500)
    for number in range(100):
        handover.offer("space", "text", made([number]))
        assert handover.n_bytes <= 2500
    assert handover.take("space", "text", [0]) is None
    assert handover.take("space", "text", [99]) is not None
    handover.offer("space", "text", made([1], n=1000))
    assert handover.take("space", "text", [1]) is None
    assert handover.n_bytes == 0


def test_handover_forgets_takers_that_are_gone():
    """A space is expected while someone that takes it lives."""

    class Taker:
        pass

    handover, taker = Handover(), Taker()
    handover.expect(taker, "space")
    assert handover.is_expected("space")
    assert not handover.is_expected("other")
    del taker
    gc.collect()
    assert not handover.is_expected("space")


@pytest.mark.parametrize(
    ("template", "text", "place"),
    [
        ("{metadata_str}\n\n{content}", "  text \n", 6),
        ("{content}\n--\n{metadata_str}", " text", -1),
        ("<{metadata_str}> {content} </>", "text", 7),
        ("{metadata_str}: nothing", "text", None),
        ("{content} {content} {metadata_str}", "text", None),
    ],
)
def test_a_text_is_found_behind_any_template(template, text, place):
    """Where the node's text begins in what is embedded, or None where it cannot be told."""
    node = TextNode(text=text, metadata={"k": "v"}, text_template=template)
    embedded = node.get_content(MetadataMode.EMBED)
    assert place_of(text, embedded) == place
    if place is not None:
        core = text.strip()
        at = embedded.index(core)
        assert at - place == text.index(core)


def test_landmarks_of_a_stretch():
    """Landmarks outside fall away, those across its edges are cut, and spans tile it."""
    encoding = made([1], n=5)
    found = landmarks_within(encoding, 15, 20)
    assert found.spans.tolist() == [[0, 5], [5, 15], [15, 20]]
    assert found.landmarks.tolist() == encoding.landmarks[1:4].tolist()
    shifted = landmarks_within(encoding, -3, 60)
    assert shifted.spans.tolist() == [[0, 13], [13, 23], [23, 33], [33, 43], [43, 60]]
    assert landmarks_within(encoding, 15, 0) is None
    assert landmarks_within(encoding, 50, 9) is None


def test_a_book_in_one_node_fits_a_point():
    """More landmarks than a point holds are averaged with their neighbours, evenly."""
    encoding = made([1], n=10)
    found = at_most(encoding, 4)
    assert len(found.landmarks) == 4
    assert found.spans[0, 0] == 0
    assert found.spans[-1, 1] == 100
    assert (found.spans[1:, 0] == found.spans[:-1, 1]).all()
    assert found.chunk_tokens.sum() == encoding.chunk_tokens.sum()
    np.testing.assert_allclose(
        (found.landmarks * found.weights[:, None]).sum(axis=0), encoding.landmarks.sum(axis=0)
    )
    assert at_most(encoding, 10) is encoding
