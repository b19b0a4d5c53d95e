"""save_landmark_model writes what LMKEncoder opens, and says of the model what is true."""

from __future__ import annotations

import json

import pytest
import torch
from plain import cosine
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import modules
from tiny_models import CORPUS, KINDS, WIDTH, build_tiny
from transformers import AutoModel

from lmk_integrations.encoder import LMKEncoder
from lmk_integrations.errors import ConfigError, ModelError
from lmk_integrations.training import save_landmark_model
from lmk_integrations.training.card import ModelCard

pytestmark = pytest.mark.filterwarnings("ignore:.*was not trained for landmarks")

TEXTS = ["", "fox", " ".join(CORPUS)]


def same(directory, base, minimum, **options):
    """Whether two directories give the same vectors."""
    found = LMKEncoder(directory, dtype="float32").encode_documents(TEXTS)
    expected = LMKEncoder(base, dtype="float32", **options).encode_documents(TEXTS)
    assert min(cosine(a, b) for a, b in zip(found, expected, strict=True)) > minimum


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("dtype", "minimum"), [("float32", 0.99999), ("float16", 0.9999)])
def test_every_family_and_dtype(kind, dtype, minimum, calm, tmp_path):
    """The vectors of the model as it is in memory, within what the dtype keeps."""
    model = AutoModel.from_pretrained(calm(kind))
    with torch.no_grad():
        model.get_input_embeddings().weight.mul_(1.5)  # the weights in memory, not the base's
    model.save_pretrained(tmp_path / "trained")
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    out = save_landmark_model(
        model,
        calm(kind),
        tmp_path / "out",
        granularity=8,
        max_tokens=64,
        trained_granularities=(8, 16),
        dtype=dtype,
    )
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name])
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / "trained" / name).write_bytes((calm(kind) / name).read_bytes())
    expected = {"pooling": "lmk", "granularity": 8, "max_tokens": 64}
    encoder = LMKEncoder(out)
    assert {name: getattr(encoder, name) for name in expected} == expected
    same(out, tmp_path / "trained", minimum, **expected)
    tensors = load_file(out / "model.safetensors")
    assert {str(tensor.dtype) for tensor in tensors.values()} == {f"torch.{dtype}"}
    assert not [name for name in tensors if "pooler" in name]
    assert json.loads((out / "config.json").read_text())["dtype"] == dtype
    assert sorted(path.name for path in out.glob(".*")) == []  # nothing half written is left


def test_what_the_directory_says(calm, tmp_path):
    """lmk_config.json holds the settings; README.md is the card."""
    out = save_landmark_model(
        AutoModel.from_pretrained(calm("bert")),
        calm("bert"),
        tmp_path / "out",
        max_tokens=128,
        trained_granularities=[32, 64],
        card="# A model",
        query_prompt="q: ",
    )
    assert json.loads((out / "lmk_config.json").read_text()) == {
        "version": 1,
        "pooling": "lmk",
        "granularity": 32,
        "max_tokens": 128,
        "query_prompt": "q: ",
        "document_prompt": "",
        "trained_granularities": [32, 64],
    }
    assert (out / "README.md").read_text() == "# A model"


def test_baked_padding_and_truncation_are_switched_off(tmp_path):
    """Some published tokenizer.json pad and cut; whoever opens the copy must not."""
    base = build_tiny("bert", tmp_path / "base", baked=True)
    assert json.loads((base / "tokenizer.json").read_text())["truncation"]
    model = AutoModel.from_pretrained(base)
    out = save_landmark_model(model, base, tmp_path / "out", max_tokens=64, granularity=8)
    saved = json.loads((out / "tokenizer.json").read_text())
    assert saved["truncation"] is None
    assert saved["padding"] is None
    same(out, base, 0.99999, pooling="lmk", granularity=8, max_tokens=64)


@pytest.mark.parametrize("keep_dense", [False, True])
def test_prompts_and_dense_modules_of_the_base(keep_dense, calm, tmp_path):
    """Prompts are taken over; Dense modules only when asked for."""
    parts = [
        modules.Transformer(str(calm("bert"))),
        modules.Pooling(WIDTH, "mean"),
        modules.Dense(WIDTH, 16),
        modules.Normalize(),
    ]
    prompts = {"query": "q: ", "document": "d: "}
    base = tmp_path / "base"
    SentenceTransformer(modules=parts, prompts=prompts, device="cpu").save(str(base))
    model = AutoModel.from_pretrained(calm("bert"))
    out = save_landmark_model(
        model, base, tmp_path / "out", max_tokens=64, granularity=8, keep_dense=keep_dense
    )
    encoder = LMKEncoder(out, dtype="float32")
    assert (encoder.query_prompt, encoder.document_prompt) == ("q: ", "d: ")
    assert encoder.dim == (16 if keep_dense else WIDTH)
    if keep_dense:
        same(out, base, 0.99999, pooling="lmk", granularity=8, max_tokens=64)


def test_a_model_that_is_not_finite_is_refused(calm, tmp_path):
    """Weights too large for float16, or a training that diverged, are not written."""
    model = AutoModel.from_pretrained(calm("bert"))
    with torch.no_grad():
        model.get_input_embeddings().weight[0, 0] = 1e6
    with pytest.raises(ModelError, match="not finite as float16"):
        save_landmark_model(model, calm("bert"), tmp_path / "a", max_tokens=64, dtype="float16")
    assert not (tmp_path / "a").exists()
    save_landmark_model(model, calm("bert"), tmp_path / "b", max_tokens=64)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"pooling": "max"}, "pooling='max'"),
        ({"granularity": "sentence"}, "granularity='sentence'"),
        ({"granularity": 0}, "granularity=0"),
        ({"dtype": "int8"}, "dtype='int8'"),
    ],
)
def test_impossible_settings(options, named, calm, tmp_path):
    """Refused before anything is written."""
    model = AutoModel.from_pretrained(calm("bert"))
    with pytest.raises(ConfigError, match=named):
        save_landmark_model(model, calm("bert"), tmp_path / "out", max_tokens=64, **options)
    assert not (tmp_path / "out").exists()


def test_model_card():
    """Data, settings and figures are in it, and no name can break its tables."""
    card = ModelCard(
        name="a | b\nc",
        base="base",
        summary="Made so.",
        data=["one set: 5 texts"],
        settings={"lr": 2e-5, "granularities": (32, 64)},
        figures={"a|b": 0.123456},
        license="apache-2.0",
        notes=["## Notice\n\nOf others."],
    ).render()
    assert card.startswith("---\n")
    assert "license: apache-2.0" in card
    assert "# a | b c\n" in card
    assert "- one set: 5 texts" in card
    assert "| lr | 2e-05 |" in card
    assert "| granularities | 32, 64 |" in card
    assert r"| a\|b | 0.12346 |" in card
    assert card.endswith("Of others.\n")
