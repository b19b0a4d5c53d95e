"""to_sentence_transformer gives the encoder's vectors, and what it saves gives them again."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
from plain import cosine
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import modules
from sentence_transformers.sentence_transformer.evaluation import InformationRetrievalEvaluator
from tiny_models import CORPUS, KINDS, WIDTH

from lmk_integrations.encoder import LMKEncoder
from lmk_integrations.errors import ConfigError, DocumentError
from lmk_integrations.sentence_transformers import to_sentence_transformer

pytestmark = pytest.mark.filterwarnings("ignore:.*was not trained for landmarks")

LONG = " ".join(CORPUS)
TEXTS = ["", "fox", *CORPUS, LONG, "[SEP] [PAD] </s> " * 40]
OPTIONS = {"granularity": 8, "max_tokens": 64, "dtype": "float32"}
PROMPTS = {"query_prompt": "q: ", "document_prompt": "passage: "}


def close(found, expected):
    assert found.shape == expected.shape
    assert min(cosine(a, b) for a, b in zip(found, expected, strict=True)) > 0.99999


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("pooling", ["lmk", "mean", "cls", "last"])
def test_equal_vectors_of_texts_of_any_length(kind, pooling, tiny):
    """Over one window or several, whatever shares the batch, and where PAD is the landmark."""
    encoder = LMKEncoder(tiny(kind), pooling=pooling, **OPTIONS)
    assert encoder.encode_landmarks([LONG])[0].n_windows > 2
    model = to_sentence_transformer(encoder, device="cpu")
    expected = encoder.encode_documents(TEXTS)
    close(model.encode(TEXTS), expected)
    close(model.encode(TEXTS, batch_size=1), expected)


@pytest.mark.parametrize("pooling", ["lmk", "mean", "cls"])
def test_prompts_and_overlap(pooling, tiny):
    """Queries and documents get the encoder's prompts, in every window; overlap is context."""
    encoder = LMKEncoder(tiny("bert"), pooling=pooling, overlap_tokens=16, **PROMPTS, **OPTIONS)
    model = to_sentence_transformer(encoder, device="cpu")
    close(model.encode_document(TEXTS), encoder.encode_documents(TEXTS))
    close(model.encode_query(TEXTS), encoder.encode_queries(TEXTS))
    bare = LMKEncoder(tiny("bert"), pooling=pooling, overlap_tokens=16, **OPTIONS)
    close(model.encode(TEXTS), bare.encode_documents(TEXTS))


@pytest.mark.parametrize("granularity", [4, 16, "sentence"])
def test_granularity(granularity, tiny):
    """The encoder's granularity is the model's."""
    encoder = LMKEncoder(
        tiny("modernbert"), pooling="lmk", **OPTIONS | {"granularity": granularity}
    )
    model = to_sentence_transformer(encoder, device="cpu")
    close(model.encode(TEXTS), encoder.encode_documents(TEXTS))


@pytest.mark.parametrize("kind", ["bert", "roberta", "modernbert", "llama"])
@pytest.mark.parametrize("pooling", ["lmk", "mean", "cls", "last"])
def test_saved_and_opened_again(kind, pooling, tiny, tmp_path):
    """LMKEncoder opens what save_pretrained wrote, with all its settings and equal vectors."""
    encoder = LMKEncoder(tiny(kind), pooling=pooling, **PROMPTS, **OPTIONS)
    model = to_sentence_transformer(encoder, train_granularities=(8, 16), device="cpu")
    model.save_pretrained(str(tmp_path))
    again = LMKEncoder(tmp_path, dtype="float32")
    assert (again.pooling, again.granularity, again.max_tokens) == (pooling, 8, 64)
    assert (again.query_prompt, again.document_prompt) == ("q: ", "passage: ")
    config = json.loads((tmp_path / "lmk_config.json").read_text())
    assert config["trained_granularities"] == ([8, 16] if pooling == "lmk" else [])
    close(again.encode_documents(TEXTS), encoder.encode_documents(TEXTS))
    close(again.encode_queries(TEXTS), encoder.encode_queries(TEXTS))
    # And once more, into the directory that it came from.
    to_sentence_transformer(again, device="cpu").save_pretrained(str(tmp_path))
    close(
        LMKEncoder(tmp_path, dtype="float32").encode_documents(TEXTS), again.encode_documents(TEXTS)
    )


def test_without_this_package_a_landmark_model_is_refused(tiny, tmp_path):
    """Plain sentence-transformers would give other vectors: it gives an error instead."""
    encoder = LMKEncoder(tiny("bert"), pooling="lmk", **OPTIONS)
    to_sentence_transformer(encoder, device="cpu").save_pretrained(str(tmp_path))
    with pytest.raises(KeyError, match="sentence_embedding"):
        SentenceTransformer(str(tmp_path), device="cpu").encode(["fox"])


@pytest.mark.parametrize("pooling", ["mean", "cls", "last"])
def test_without_this_package_other_poolings_are_plain_models(pooling, tiny, tmp_path):
    """A model trained for comparison is a common sentence-transformers directory."""
    encoder = LMKEncoder(tiny("bert"), pooling=pooling, **OPTIONS)
    to_sentence_transformer(encoder, device="cpu").save_pretrained(str(tmp_path))
    short = TEXTS[1:4]
    plain = SentenceTransformer(str(tmp_path), device="cpu")
    assert plain.max_seq_length == 64
    close(plain.encode(short), encoder.encode_documents(short))


def dense_model(directory, path, activation):
    import torch

    torch.manual_seed(3)
    parts = [
        modules.Transformer(str(directory)),
        modules.Pooling(WIDTH, "mean"),
        modules.Dense(WIDTH, 16, activation_function=activation),
        modules.Normalize(),
    ]
    SentenceTransformer(modules=parts, device="cpu").save(str(path))
    return path


@pytest.mark.parametrize("activation", ["Tanh", "Identity"])
@pytest.mark.parametrize("pooling", ["lmk", "mean"])
def test_dense_modules(activation, pooling, tiny, tmp_path):
    """Dense modules are applied, trained and saved."""
    import torch

    function = getattr(torch.nn, activation)()
    base = dense_model(tiny("bert"), tmp_path / "base", function)
    encoder = LMKEncoder(base, pooling=pooling, **OPTIONS)
    model = to_sentence_transformer(encoder, device="cpu")
    assert model.get_embedding_dimension() == 16
    close(model.encode(TEXTS), encoder.encode_documents(TEXTS))
    with torch.no_grad():
        dense = next(module for module in model if isinstance(module, modules.Dense))
        dense.linear.weight.mul_(torch.linspace(0.5, 2, 16)[:, None])
    model.save_pretrained(str(tmp_path / "saved"))
    again = LMKEncoder(tmp_path / "saved", dtype="float32")
    close(again.encode_documents(TEXTS), model.encode(TEXTS))
    assert cosine(again.encode_documents(["fox"])[0], encoder.encode_documents(["fox"])[0]) < 0.999


def test_truncated_and_unnormalised(tiny):
    """truncate_dim and normalize of the encoder are the model's."""
    encoder = LMKEncoder(tiny("bert"), truncate_dim=12, **OPTIONS)
    model = to_sentence_transformer(encoder, device="cpu")
    close(model.encode(TEXTS), encoder.encode_documents(TEXTS))
    np.testing.assert_allclose(np.linalg.norm(model.encode(TEXTS), axis=1), 1, rtol=1e-5)
    bare = LMKEncoder(tiny("bert"), normalize=False, **OPTIONS)
    found = to_sentence_transformer(bare, device="cpu").encode(TEXTS)
    np.testing.assert_allclose(found, bare.encode_documents(TEXTS), atol=1e-4)


def test_do_lower_case_is_kept(tiny, tmp_path):
    """A model that reads capitals as small letters does so after a round trip."""
    base = modules.Transformer(str(tiny("modernbert")), do_lower_case=True)
    parts = [base, modules.Pooling(WIDTH, "mean")]
    SentenceTransformer(modules=parts, device="cpu").save(str(tmp_path / "base"))
    settings = json.loads((tmp_path / "base" / "sentence_bert_config.json").read_text())
    settings["do_lower_case"] = True
    (tmp_path / "base" / "sentence_bert_config.json").write_text(json.dumps(settings))
    encoder = LMKEncoder(tmp_path / "base", pooling="lmk", **OPTIONS)
    model = to_sentence_transformer(encoder, device="cpu")
    close(model.encode(["The FOX"]), encoder.encode_documents(["the fox"]))
    model.save_pretrained(str(tmp_path / "saved"))
    close(
        LMKEncoder(tmp_path / "saved", dtype="float32").encode_documents(["The FOX"]),
        model.encode(["the fox"]),
    )


def test_the_model_is_a_copy(tiny):
    """Training the model does not change the encoder that it came from."""
    import torch

    encoder = LMKEncoder(tiny("bert"), pooling="lmk", **OPTIONS)
    before = encoder.encode_documents(["fox"])
    model = to_sentence_transformer(encoder, device="cpu")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1)
    np.testing.assert_array_equal(encoder.encode_documents(["fox"]), before)


def test_evaluators_work(tiny):
    """sentence-transformers' evaluators take the model, and its prompts for both sides."""
    encoder = LMKEncoder(tiny("bert"), pooling="lmk", **PROMPTS, **OPTIONS)
    model = to_sentence_transformer(encoder, device="cpu")
    texts = {str(i): text for i, text in enumerate(CORPUS)}
    evaluator = InformationRetrievalEvaluator(
        texts, texts, {key: {key} for key in texts}, accuracy_at_k=[1], ndcg_at_k=[10]
    )
    found = evaluator(model)["cosine_accuracy@1"]
    queries, documents = encoder.encode_queries(CORPUS), encoder.encode_documents(CORPUS)
    expected = np.mean((queries @ documents.T).argmax(1) == np.arange(len(CORPUS)))
    assert found == pytest.approx(expected)


def test_window_of_the_model(tiny):
    """max_seq_length is the window; a smaller one means more windows, a larger one than the
    model's positions is refused."""
    model = to_sentence_transformer(
        LMKEncoder(tiny("bert"), pooling="lmk", **OPTIONS), device="cpu"
    )
    assert model.max_seq_length == 64
    model.max_seq_length = 32
    smaller = LMKEncoder(tiny("bert"), pooling="lmk", **OPTIONS | {"max_tokens": 32})
    close(model.encode([LONG]), smaller.encode_documents([LONG]))
    with pytest.raises(ConfigError, match="max_seq_length=4096"):
        model.max_seq_length = 4096


def test_a_text_that_is_none_is_named(tiny):
    """By its index in the batch."""
    model = to_sentence_transformer(LMKEncoder(tiny("bert"), **OPTIONS), device="cpu")
    with pytest.raises(DocumentError, match=r"text 1: .*lone surrogate"):
        model.preprocess(["fox", "\ud800"])
    with pytest.raises(DocumentError, match="text 0 is a int"):
        model.preprocess([7])


def test_missing_extra():
    """Without sentence-transformers the import gives the pip line."""
    code = """
import sys
sys.modules["sentence_transformers"] = None
from lmk_integrations import MissingExtraError
try:
    import lmk_integrations.sentence_transformers
except MissingExtraError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'lmk-integrations[train]'" in done.stdout
