"""What a sentence-transformers directory says is done as sentence-transformers does it."""

import json
import shutil

import numpy as np
import pytest
from plain import cosine
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import modules
from tiny_models import CORPUS, KINDS, WIDTH

from lmk_integrations.encoder import LMKEncoder
from lmk_integrations.errors import ModelError

TEXTS = ["fox", CORPUS[0], CORPUS[5], "One.\n\nTwo \U0001f600 three.", " Leading  and trailing "]
ST_NAMES = {"mean": "mean", "cls": "cls", "last": "lasttoken"}
PROMPTS = {"query": "query: ", "document": "passage: "}


def close(found, expected):
    assert found.shape == expected.shape
    assert min(cosine(a, b) for a, b in zip(found, expected, strict=True)) > 0.9999


def chain(directory, pooling="mean", include_prompt=True, dense=None, prompts=None, **settings):
    parts = [
        modules.Transformer(str(directory), **settings),
        modules.Pooling(WIDTH, ST_NAMES[pooling], include_prompt=include_prompt),
        *([modules.Dense(WIDTH, *dense)] if dense else []),
        modules.Normalize(),
    ]
    return SentenceTransformer(modules=parts, prompts=prompts, device="cpu")


@pytest.mark.parametrize("pooling", ST_NAMES)
@pytest.mark.parametrize("kind", KINDS)
def test_poolings_equal(kind, pooling, tiny):
    """mean, cls and last give SentenceTransformer's vectors of texts within one window."""
    encoder = LMKEncoder(tiny(kind), pooling=pooling, dtype="float32")
    close(encoder.encode_documents(TEXTS), chain(tiny(kind), pooling).encode(TEXTS))


@pytest.mark.parametrize("include_prompt", [True, False])
@pytest.mark.parametrize("pooling", ST_NAMES)
@pytest.mark.parametrize("kind", ["bert", "modernbert", "qwen3", "llama"])
def test_saved_prompts(kind, pooling, include_prompt, tiny, tmp_path):
    """Queries and documents get their saved prompts, which the pooling may leave out."""
    reference = chain(tiny(kind), pooling, include_prompt, prompts=PROMPTS)
    reference.save(str(tmp_path))
    encoder = LMKEncoder(tmp_path, dtype="float32")
    assert encoder.pooling == pooling
    texts = [text.strip() + "." for text in TEXTS]  # no token spans the border of the prompt
    if kind in ("modernbert", "qwen3", "llama") and not include_prompt:
        texts = ["(" + text for text in texts]
    close(encoder.encode_documents(texts), reference.encode_document(texts))
    close(encoder.encode_queries(texts), reference.encode_query(texts))
    if include_prompt:
        plain = LMKEncoder(tmp_path, dtype="float32", query_prompt="", document_prompt="")
        close(plain.encode_documents(texts), reference.encode(texts, prompt=""))
        own = LMKEncoder(tmp_path, dtype="float32", query_prompt="fox: ")
        close(own.encode_queries(texts), reference.encode(texts, prompt="fox: "))


def test_an_empty_text_behind_a_left_out_prompt(tiny, tmp_path):
    """Nothing is left to pool there: still a finite vector, of unit length."""
    for pooling in ST_NAMES:
        directory = tmp_path / pooling
        chain(tiny("llama"), pooling, include_prompt=False, prompts=PROMPTS).save(str(directory))
        vectors = LMKEncoder(directory, dtype="float32").encode_queries(["", "fox"])
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-5)


@pytest.mark.parametrize("activation", ["Tanh", "Identity", "ReLU", "GELU"])
@pytest.mark.parametrize("bias", [True, False])
def test_dense(activation, bias, tiny, tmp_path):
    """Dense and Normalize modules are applied, and decide the dimension."""
    import torch

    torch.manual_seed(3)
    function = getattr(torch.nn, activation)()
    reference = chain(tiny("bert"), "cls", dense=(16, bias, function))
    reference.save(str(tmp_path))
    encoder = LMKEncoder(tmp_path, dtype="float32")
    assert encoder.dim == 16
    close(encoder.encode_documents(TEXTS), reference.encode(TEXTS))
    assert encoder.encode_landmarks(TEXTS[:1])[0].landmarks.shape == (1, 16)


def test_truncate_dim(tiny):
    """The first dimensions, normalised again."""
    encoder = LMKEncoder(tiny("bert"), truncate_dim=12, dtype="float32")
    expected = chain(tiny("bert")).encode(TEXTS, truncate_dim=12, normalize_embeddings=True)
    found = encoder.encode_documents(TEXTS)
    close(found, expected)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, rtol=1e-5)


def test_without_normalisation(tiny):
    """normalize=False gives the pooled state itself."""
    parts = [modules.Transformer(str(tiny("bert"))), modules.Pooling(WIDTH, "mean")]
    expected = SentenceTransformer(modules=parts, device="cpu").encode(TEXTS)
    found = LMKEncoder(tiny("bert"), normalize=False, dtype="float32").encode_documents(TEXTS)
    np.testing.assert_allclose(found, expected, atol=1e-4)
    assert np.abs(np.linalg.norm(found, axis=1) - 1).min() > 0.1


def test_do_lower_case(tiny, tmp_path):
    """A model saved with do_lower_case reads capitals as small letters."""
    shutil.copytree(tiny("modernbert"), tmp_path, dirs_exist_ok=True)
    write(tmp_path, {"pooling_mode": "mean"}, {"do_lower_case": True})
    lower, keeps = LMKEncoder(tmp_path), LMKEncoder(tiny("modernbert"))
    text = "The QUICK Brown Äpfel"
    found = lower.encode_documents([text, text.lower()])
    np.testing.assert_allclose(found[0], found[1], atol=1e-6)
    np.testing.assert_allclose(found[0], keeps.encode_documents([text.lower()])[0], atol=1e-6)
    assert cosine(keeps.encode_documents([text])[0], found[0]) < 0.999
    assert lower.space != keeps.space


@pytest.mark.parametrize(("saved", "window"), [(40, 40), (4096, 128), (None, 128)])
def test_max_seq_length(saved, window, tiny, tmp_path):
    """The saved length is the window, within the model's positions; longer texts take several."""
    shutil.copytree(tiny("bert"), tmp_path, dirs_exist_ok=True)
    write(tmp_path, {"pooling_mode": "mean"}, {"max_seq_length": saved})
    encoder = LMKEncoder(tmp_path, granularity=8, dtype="float32")
    assert encoder.max_tokens == window
    text = " ".join(CORPUS[:3])
    assert (encoder.encode_landmarks([text])[0].n_windows > 1) == (window == 40)


def test_max_seq_length_of_the_newest_format(tiny, tmp_path):
    """sentence-transformers 6 keeps the length with the tokenizer; it counts the same."""
    reference = chain(tiny("bert"))
    reference.max_seq_length = 24
    reference.save(str(tmp_path))
    assert SentenceTransformer(str(tmp_path)).max_seq_length == 24
    assert LMKEncoder(tmp_path, granularity=8).max_tokens == 24


def write(directory, pooling, settings=None, kind="sentence_transformers.models."):
    listed = [
        {"idx": 0, "name": "0", "path": "", "type": f"{kind}Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": f"{kind}Pooling"},
    ]
    (directory / "modules.json").write_text(json.dumps(listed))
    (directory / "1_Pooling").mkdir(exist_ok=True)
    (directory / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    (directory / "sentence_bert_config.json").write_text(json.dumps(settings or {}))


LEGACY = {
    "word_embedding_dimension": WIDTH,
    "pooling_mode_cls_token": False,
    "pooling_mode_mean_tokens": False,
    "pooling_mode_max_tokens": False,
    "pooling_mode_mean_sqrt_len_tokens": False,
    "pooling_mode_weightedmean_tokens": False,
    "pooling_mode_lasttoken": False,
}


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (LEGACY | {"pooling_mode_mean_tokens": True}, "mean"),
        (LEGACY | {"pooling_mode_cls_token": True}, "cls"),
        (LEGACY | {"pooling_mode_lasttoken": True}, "last"),
        (LEGACY, "mean"),
        ({"embedding_dimension": WIDTH, "pooling_mode": "cls"}, "cls"),
        ({"embedding_dimension": WIDTH, "pooling_mode": ["lasttoken"]}, "last"),
    ],
)
def test_pooling_configs(config, expected, tiny, tmp_path):
    """The old flags and the new name are both understood as sentence-transformers does."""
    shutil.copytree(tiny("bert"), tmp_path, dirs_exist_ok=True)
    write(tmp_path, config)
    encoder = LMKEncoder(tmp_path, dtype="float32")
    assert encoder.pooling == expected
    close(encoder.encode_documents(TEXTS), SentenceTransformer(str(tmp_path)).encode(TEXTS))


@pytest.mark.parametrize(
    "config",
    [
        LEGACY | {"pooling_mode_max_tokens": True},
        LEGACY | {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": True},
        {"pooling_mode": "weightedmean"},
        {"pooling_mode": ["mean", "max"]},
        {"pooling_mode": "landmark9000"},
        {"pooling_mode": 7},
    ],
)
def test_an_unknown_pooling_is_an_error(config, tiny, tmp_path):
    """No silent fall-back: another pooling than the saved one would give other vectors."""
    shutil.copytree(tiny("bert"), tmp_path, dirs_exist_ok=True)
    write(tmp_path, config)
    with pytest.raises(ModelError, match="pooling"):
        LMKEncoder(tmp_path)


def test_lmk_config_wins(tiny, tmp_path):
    """lmk_config.json decides over the sentence-transformers files, and arguments over both."""
    shutil.copytree(tiny("bert"), tmp_path, dirs_exist_ok=True)
    write(tmp_path, {"pooling_mode": "cls"}, {"max_seq_length": 100})
    config = {
        "pooling": "lmk",
        "granularity": 16,
        "max_tokens": 64,
        "query_prompt": "q: ",
        "document_prompt": "d: ",
    }
    (tmp_path / "lmk_config.json").write_text(json.dumps(config))
    encoder = LMKEncoder(tmp_path, document_prompt="")
    assert (encoder.pooling, encoder.granularity, encoder.max_tokens) == ("lmk", 16, 64)
    assert (encoder.query_prompt, encoder.document_prompt) == ("q: ", "")
    assert LMKEncoder(tmp_path, granularity=8, max_tokens=50).max_tokens == 50


def test_the_base_equals_sentence_transformers():
    """all-MiniLM-L6-v2 gives the vectors that it is known for."""
    encoder = LMKEncoder("all-MiniLM-L6-v2", dtype="float32")
    texts = ["A fox jumps.", "Long ago in a land far away. " * 20, "émigré 😀 [SEP?]"]
    reference = SentenceTransformer(str(encoder.directory), device="cpu")
    close(encoder.encode_documents(texts), reference.encode(texts))
