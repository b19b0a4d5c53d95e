"""The model is at home in sentence-transformers' tools, and carries landmark modules over."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
from landmark_modules import INTERVAL, Reference, save_modules
from plain import cosine
from sentence_transformers.sentence_transformer import evaluation
from tiny_models import CORPUS

from lmk_integrations.encoder import LMKEncoder
from lmk_integrations.sentence_transformers import to_sentence_transformer

pytestmark = pytest.mark.filterwarnings("ignore:.*was not trained for landmarks")

LONG = " ".join(CORPUS)
TEXTS = ["", "fox", "  fox \n", CORPUS[0], CORPUS[3]]
OPTIONS = {"granularity": 8, "max_tokens": 64, "dtype": "float32"}
PROMPTS = {"query_prompt": "q: ", "document_prompt": "passage: "}


def close(found, expected):
    assert found.shape == expected.shape
    assert min(cosine(a, b) for a, b in zip(found, expected, strict=True)) > 0.99999


@pytest.fixture
def encoder(tiny):
    return LMKEncoder(tiny("bert"), pooling="lmk", **PROMPTS, **OPTIONS)


@pytest.fixture
def model(encoder):
    return to_sentence_transformer(encoder, device="cpu")


@pytest.mark.parametrize("family", ["bert", "modernbert", "llama"])
def test_landmark_modules_there_and_back(family, tiny, tmp_path):
    """A directory of theirs, as a model here, saved, opened again: the same vectors throughout."""
    prompts = {"query": "q: ", "document": "passage: "}
    theirs = save_modules(tiny(family), tmp_path / "theirs", prompts=prompts)
    encoder = LMKEncoder(theirs, dtype="float32")
    model = to_sentence_transformer(encoder, device="cpu")
    reference = Reference(theirs, own_pad=family == "llama")
    close(model.encode(TEXTS), reference.encode(TEXTS))
    close(model.encode_query(TEXTS), reference.encode(["q: " + text for text in TEXTS]))
    model.save_pretrained(str(tmp_path / "ours"))
    again = LMKEncoder(tmp_path / "ours", dtype="float32")
    assert again.space == encoder.space
    assert again.fingerprint == encoder.fingerprint
    for texts in (TEXTS, [LONG]):
        close(again.encode_documents(texts), encoder.encode_documents(texts))
        close(again.encode_queries(texts), encoder.encode_queries(texts))


def test_landmark_modules_in_training(tiny, tmp_path):
    """Training pools what they pool: each chunk's landmark, and the separator behind the text."""
    theirs = save_modules(tiny("bert"), tmp_path)
    encoder = LMKEncoder(theirs, dtype="float32")
    model = to_sentence_transformer(encoder, train_granularities=(4,), device="cpu")
    n_tokens = len(encoder.model.tokenizer.encode(CORPUS[0]).ids)
    for training, granularity in ((True, 4), (False, INTERVAL)):
        features = model.train(training).preprocess([CORPUS[0]])
        pooled = features["input_ids"][features["pool_weights"] > 0]
        assert len(pooled) == -(-n_tokens // granularity) + 1
        assert set(pooled.tolist()) == {encoder.model.tokenizer.landmark_id}


def test_a_saved_directory_holds_no_code(model, tmp_path):
    """Nothing in it asks for trust_remote_code: data files, and the library's own classes."""
    model.save_pretrained(str(tmp_path))
    suffixes = {path.suffix for path in tmp_path.rglob("*") if path.is_file()}
    assert suffixes <= {".json", ".safetensors", ".md", ".txt"}
    listed = json.loads((tmp_path / "modules.json").read_text())
    assert all(entry["type"].startswith("sentence_transformers.") for entry in listed)
    assert "auto_map" not in (tmp_path / "config.json").read_text()


def test_evaluators(tiny):
    """Scores are those of the encoder's vectors."""
    encoder = LMKEncoder(tiny("bert"), pooling="lmk", **OPTIONS)
    model = to_sentence_transformer(encoder, device="cpu")
    texts = (CORPUS[:4], CORPUS[1:5], CORPUS[5:9])
    anchor, positive, negative = (encoder.encode_documents(some) for some in texts)
    triplets = evaluation.TripletEvaluator(*texts)(model)
    expected = np.mean((anchor * positive).sum(1) > (anchor * negative).sum(1))
    assert triplets["cosine_accuracy"] == pytest.approx(expected)
    gold = [0.1, 0.9, 0.4, 0.6]
    similar = evaluation.EmbeddingSimilarityEvaluator(*texts[:2], gold)(model)
    ranks = ((anchor * positive).sum(1).argsort().argsort(), np.argsort(gold).argsort())
    assert similar["spearman_cosine"] == pytest.approx(np.corrcoef(*ranks)[0, 1])
    samples = [{"query": CORPUS[0], "positive": [CORPUS[0]], "negative": CORPUS[1:4]}]
    assert evaluation.RerankingEvaluator(samples)(model)["map"] == pytest.approx(1)


def test_the_interface_that_mteb_uses(model, encoder):
    """mteb's wrapper of a SentenceTransformer calls this, and reads these of its card."""
    options = {"batch_size": 4, "show_progress_bar": False}
    queries = model.encode_query(CORPUS[:3], prompt="q: ", **options)
    documents = model.encode_document(CORPUS, prompt="passage: ", **options)
    close(queries, encoder.encode_queries(CORPUS[:3]))
    close(documents, encoder.encode_documents(CORPUS))
    close(model.encode_document(CORPUS, prompt=None, **options), documents)
    np.testing.assert_allclose(
        model.similarity(queries, documents), queries @ documents.T, atol=1e-5
    )
    assert model.prompts == {"query": "q: ", "document": "passage: "}
    assert (model.max_seq_length, model.similarity_fn_name) == (64, "cosine")
    assert model.get_embedding_dimension() == encoder.dim
    assert model.model_card_data is not None


def test_the_model_can_be_sent_to_another_process(model):
    """As `start_multi_process_pool` and the trainer's workers need it."""
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.encode([LONG]), model.encode([LONG]))
