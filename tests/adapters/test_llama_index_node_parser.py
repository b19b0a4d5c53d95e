"""LandmarkNodeParser: passages whose vectors come from one pass over their document."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from llama_index.core import Document, StorageContext, VectorStoreIndex
from llama_index.core.ingestion import IngestionCache, IngestionPipeline
from llama_index.core.schema import MetadataMode, NodeRelationship, ObjectType, TextNode
from llama_index.core.storage.docstore import SimpleDocumentStore
from pydantic import ValidationError

from lmk_integrations.encoder import LMKEncoder
from lmk_integrations.errors import ConfigError
from lmk_integrations.llama_index import LandmarkNodeParser, LMKEmbedding, LMKVectorStore

# The same sentence again and again: its place cannot be found by its text.
REFRAIN = "\n  " + "The sea is wide, and the whale sings. \n\n" * 40 + "\t"
STORY = " ".join(f"On day {n} the baker of the village baked {n} loaves of rye." for n in range(40))


@pytest.fixture(scope="module")
def embedding(encoder):
    return LMKEmbedding(encoder=encoder)


@pytest.fixture(scope="module")
def parser(embedding):
    return LandmarkNodeParser(embedding, passage_tokens=64)


def documents():
    return [
        Document(text=REFRAIN, id_="refrain", metadata={"title": "A song"}),
        Document(text=STORY, id_="story"),
    ]


def test_places_are_exact(parser):
    """Every node is its document's text at its offsets, in order, and no word is lost."""
    nodes = parser(documents())
    for document in documents():
        own = [node for node in nodes if node.ref_doc_id == document.id_]
        assert len(own) > 3
        for node in own:
            assert document.text[node.start_char_idx : node.end_char_idx] == node.text
            assert node.text == node.text.strip()
        joined = "".join("".join(node.text.split()) for node in own)
        assert joined == "".join(document.text.split())
        assert [n.start_char_idx for n in own] == sorted({n.start_char_idx for n in own})


def test_vectors_are_runs_of_landmarks(parser, encoder):
    """An embedding is the mean of the document's landmarks in its span: it knows what is around."""
    nodes = [node for node in parser(documents()) if node.ref_doc_id == "story"]
    (whole,) = encoder.encode_landmarks([STORY])
    first = 0
    for node in nodes:
        inside = whole.spans[:, 1] <= node.end_char_idx + 1
        run = slice(first, int(inside.sum()))
        mean = whole.landmarks[run].mean(axis=0)
        np.testing.assert_allclose(node.embedding, mean / np.linalg.norm(mean), atol=1e-5)
        assert whole.chunk_tokens[run].sum() <= 64
        first = run.stop
    assert first == len(whole.landmarks)
    alone = encoder.encode_documents([nodes[2].text])[0]
    assert np.dot(alone, nodes[2].embedding) < 0.999


def test_relationships_are_llama_indexs(parser):
    """SOURCE is the document, PREVIOUS and NEXT chain its own nodes; metadata is inherited."""
    nodes = parser(documents())
    for place, node in enumerate(nodes):
        source = node.relationships[NodeRelationship.SOURCE]
        assert source.node_type == ObjectType.DOCUMENT
        assert source.hash == {d.id_: d.hash for d in documents()}[source.node_id]
        for step, kind in ((-1, NodeRelationship.PREVIOUS), (1, NodeRelationship.NEXT)):
            other = nodes[place + step] if 0 <= place + step < len(nodes) else None
            if other is not None and other.ref_doc_id == node.ref_doc_id:
                assert node.relationships[kind].node_id == other.node_id
            else:
                assert kind not in node.relationships
    assert nodes[0].metadata == {"title": "A song"}
    bare = LandmarkNodeParser(
        parser.embed_model, include_metadata=False, include_prev_next_rel=False
    )(documents())
    assert bare[0].metadata == {}
    assert set(bare[0].relationships) == {NodeRelationship.SOURCE}


def test_ids_are_deterministic(parser, embedding):
    """The same document gives the same ids; another document, text or vector space others."""
    ids = [node.node_id for node in parser(documents())]
    assert ids == [node.node_id for node in parser(documents())]
    assert len(set(ids)) == len(ids)
    renamed = parser([Document(text=STORY, id_="other")])
    assert not {node.node_id for node in renamed} & set(ids)
    changed = parser([Document(text=STORY.replace("rye", "oat"), id_="story")])
    assert not {node.node_id for node in changed} & set(ids)
    named = LandmarkNodeParser(embedding, id_func=lambda i, doc: f"{doc.id_}-{i}")
    assert named(documents())[0].node_id == "refrain-0"


def test_parts_of_documents_keep_the_document_as_source(parser):
    """A node that is cut further passes its SOURCE on, and offsets are the document's."""
    part = TextNode(text=STORY[100:900], start_char_idx=100, end_char_idx=900, id_="part")
    part.relationships[NodeRelationship.SOURCE] = documents()[1].as_related_node_info()
    for node in parser([part]):
        assert node.ref_doc_id == "story"
        assert STORY[node.start_char_idx : node.end_char_idx] == node.text


@pytest.mark.parametrize("text", ["", "   \n ", "One.", "四世同堂。" * 30])
def test_short_empty_and_other_scripts(parser, text):
    """A text without words gives no node; any other at least one, all of it."""
    nodes = parser([Document(text=text, id_="d")])
    assert "".join(node.text for node in nodes) == text.strip()


def test_sentence_landmarks_give_whole_sentences():
    """With granularity "sentence" passages end where sentences end."""
    embedding = LMKEmbedding(granularity="sentence", dtype="float32")
    nodes = LandmarkNodeParser(embedding, passage_tokens=64)([Document(text=STORY)])
    assert len(nodes) > 3
    assert all(node.text.startswith("On day") and node.text.endswith("rye.") for node in nodes)


async def test_async_gives_the_same(parser):
    """acall gives what the call gives."""
    found, again = parser(documents()), await parser.acall(documents())
    assert [n.node_id for n in found] == [n.node_id for n in again]
    assert [n.start_char_idx for n in found] == [n.start_char_idx for n in again]


@pytest.fixture(params=["edge", "memory"])
def store(request, tmp_path, embedding):
    location = ":memory:" if request.param == "memory" else tmp_path / "store"
    made = LMKVectorStore(location, "docs", embedding)
    yield made
    made.close()


class Counting(LMKEmbedding):
    """Counts the texts that are embedded."""

    def _encode(self, kind, texts, cancelled=None):
        if kind == "document":
            raise AssertionError(f"{len(texts)} texts are embedded a second time")
        return super()._encode(kind, texts, cancelled)


def test_an_index_embeds_nothing_again(parser, store, encoder):
    """VectorStoreIndex(nodes) keeps the vectors, and the store takes the landmarks with them."""
    nodes = parser(documents())
    index = VectorStoreIndex(
        nodes,
        storage_context=StorageContext.from_defaults(vector_store=store),
        embed_model=Counting(encoder=encoder),
    )
    facts = store.info()
    assert (facts["handed_over"], facts["encoded_again"]) == (len(nodes), 0)
    (found,) = index.as_retriever(similarity_top_k=1).retrieve("How many loaves were baked?")
    assert found.node.ref_doc_id == "story"
    by_id = {node.node_id: node for node in nodes}
    expected = by_id[found.node.node_id]
    assert found.node.model_dump(exclude={"embedding"}) == expected.model_dump(
        exclude={"embedding"}
    )
    hit = store.index.search("baker", 1, mode="landmark")[0]
    assert STORY[hit.landmark_spans[0, 0] : hit.landmark_spans[-1, 1]] == hit.text
    assert len(hit.landmark_scores) >= 2


def test_a_pipeline_run_twice_stores_once(parser, store):
    """With a docstore an unchanged document is skipped, a changed one replaced, none duplicated."""
    pipeline = IngestionPipeline(
        transformations=[parser], vector_store=store, docstore=SimpleDocumentStore()
    )
    first = pipeline.run(documents=documents())
    assert store.info()["items"] == len(first)
    assert pipeline.run(documents=documents()) == []
    changed = [documents()[0], Document(text="Short.", id_="story")]
    assert len(pipeline.run(documents=changed)) == 1
    texts = {node.text for node in store.get_nodes() if node.ref_doc_id == "story"}
    assert texts == {"Short."}
    again = IngestionPipeline(transformations=[parser], vector_store=store)
    again.run(documents=documents()[:1])
    assert len([n for n in store.get_nodes() if n.ref_doc_id == "refrain"]) == len(
        [n for n in first if n.ref_doc_id == "refrain"]
    )


def test_a_cache_keeps_vectors_and_knows_the_model(embedding, cls_encoder):
    """A cached run gives the same nodes; another model or setting does not get them."""
    cache = IngestionCache()

    def run(parser):
        pipeline = IngestionPipeline(transformations=[parser], cache=cache)
        return pipeline.run(documents=documents())

    first = run(LandmarkNodeParser(embedding, passage_tokens=64))
    again = run(LandmarkNodeParser(embedding, passage_tokens=64))
    assert [n.embedding for n in again] == [n.embedding for n in first]
    assert len(run(LandmarkNodeParser(embedding, passage_tokens=32))) > len(first)
    other = run(LandmarkNodeParser(LMKEmbedding(encoder=cls_encoder), passage_tokens=64))
    assert other[0].embedding != first[0].embedding


def test_it_travels(parser):
    """Pickles and dictionaries carry the configuration."""
    assert parser.class_name() == "LandmarkNodeParser"
    for copy in (
        pickle.loads(pickle.dumps(parser)),
        LandmarkNodeParser.from_dict(parser.to_dict()),
    ):
        assert copy.passage_tokens == 64
        assert copy.embed_model.model_name == parser.embed_model.model_name
        assert [n.node_id for n in copy(documents()[:1])] == [
            n.node_id for n in parser(documents()[:1])
        ]


def test_settings_are_checked(embedding):
    """Only a landmark model will do, and a passage has at least one token."""
    with pytest.raises(ConfigError, match="LMKEmbedding"):
        LandmarkNodeParser("default")
    with pytest.raises(ValidationError, match="passage_tokens"):
        LandmarkNodeParser(embedding, passage_tokens=0)


def test_progress_and_metadata_templates(embedding, capsys):
    """show_progress draws a bar; how metadata is shown is inherited."""
    document = Document(
        text=STORY,
        metadata={"a": 1, "b": 2},
        excluded_embed_metadata_keys=["a"],
        metadata_template="{key}={value}",
        text_template="[{metadata_str}] {content}",
    )
    node = LandmarkNodeParser(embedding).get_nodes_from_documents([document], show_progress=True)[0]
    assert "Encoding documents" in capsys.readouterr().err
    assert node.get_content(MetadataMode.EMBED) == f"[b=2] {node.text}"


def test_the_default_model_is_the_shipped_one():
    """Without arguments it works, as LMKEmbedding and LMKEncoder do."""
    assert LandmarkNodeParser().embed_model.model_name == LMKEncoder().model_name
