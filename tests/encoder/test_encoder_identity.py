"""The space says which vectors compare; the fingerprint which are the same."""

import json
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_models import build_tiny

from lmk_integrations.encoder import LMKEncoder
from lmk_integrations.errors import ModelError

pytestmark = pytest.mark.filterwarnings("ignore:.*was not trained for landmarks")


@pytest.fixture
def copy(tiny, tmp_path):
    """A model directory of the test's own."""
    return shutil.copytree(tiny("bert"), tmp_path / "model")


@pytest.fixture(scope="module")
def base(tiny):
    return LMKEncoder(tiny("bert"))


SAME_SPACE = [
    {"dtype": "float32"},
    {"dtype": "bfloat16"},
    {"granularity": 8},
    {"granularity": "sentence"},
    {"max_tokens": 64},
    {"overlap_tokens": 16},
    {"query_prompt": "q: "},
    {"document_prompt": "d: "},
    {"token_budget": 1},
    {"device": "cpu"},
    {"backend": "torch"},
    {"compile": True},
    {"local_files_only": True},
    {"pooling": "mean"},  # what None comes to
]


@pytest.mark.parametrize("options", SAME_SPACE)
def test_options_that_keep_the_space(options, base, tiny):
    """How a vector is computed does not decide what it compares with."""
    assert LMKEncoder(tiny("bert"), **options).space == base.space


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"pooling": "lmk"}, "pooling"),
        ({"pooling": "cls"}, "pooling"),
        ({"truncate_dim": 16}, "dim"),
        ({"normalize": False}, "normalize"),
    ],
)
def test_options_that_change_the_space(options, part, base, tiny):
    """Another pooling, dimension or scale is another space, and the parts say which."""
    other = LMKEncoder(tiny("bert"), **options)
    assert other.space != base.space
    mine, theirs = base.space_parts.to_dict(), other.space_parts.to_dict()
    assert part in {name for name in mine if mine[name] != theirs[name]}


@pytest.mark.parametrize(
    "name", ["dtype", "query_prompt", "token_budget", "device", "backend", "compile"]
)
def test_options_that_keep_the_fingerprint(name, base, tiny):
    """What changes no document's vector beyond tolerance keeps the fingerprint."""
    values = {"dtype": "bfloat16", "token_budget": 9, "device": "cpu", "backend": "torch"}
    values |= {"compile": True}
    options = {name: values.get(name, "q: ")}
    assert LMKEncoder(tiny("bert"), **options).fingerprint == base.fingerprint


@pytest.mark.parametrize(
    "options",
    [
        {"granularity": 8},
        {"granularity": "sentence"},
        {"max_tokens": 64},
        {"overlap_tokens": 16},
        {"document_prompt": "d: "},
        {"pooling": "lmk"},
        {"normalize": False},
    ],
)
def test_options_that_change_the_fingerprint(options, base, tiny):
    """What changes a document's vector changes the fingerprint."""
    assert LMKEncoder(tiny("bert"), **options).fingerprint != base.fingerprint


def test_identities_are_hex_and_stable(base, tiny):
    """Two openings agree; space and fingerprint differ from one another."""
    again = LMKEncoder(tiny("bert"))
    assert (again.space, again.fingerprint) == (base.space, base.fingerprint)
    assert base.space != base.fingerprint
    for digest in (base.space, base.fingerprint):
        assert len(bytes.fromhex(digest)) == 16


def test_a_moved_model_is_the_same(base, copy):
    """The path is no part of the identity."""
    assert LMKEncoder(copy).space == base.space


def test_sharded_weights_are_the_same(base, copy):
    """The same tensors in two files, in another order, with other metadata."""
    tensors = load_file(copy / "model.safetensors")
    names = sorted(tensors, reverse=True)
    shards = {
        "model-00001-of-00002.safetensors": names[: len(names) // 2],
        "model-00002-of-00002.safetensors": names[len(names) // 2 :],
    }
    for file, own in shards.items():
        save_file({n: tensors[n] for n in own}, copy / file, metadata={"format": "pt", "by": "me"})
    index = {"metadata": {}, "weight_map": {n: file for file, own in shards.items() for n in own}}
    (copy / "model.safetensors.index.json").write_text(json.dumps(index))
    (copy / "model.safetensors").unlink()
    sharded = LMKEncoder(copy, dtype="float32")
    assert sharded.space == base.space
    whole = LMKEncoder(base.directory, dtype="float32")
    np.testing.assert_allclose(
        sharded.encode_documents(["fox"]), whole.encode_documents(["fox"]), atol=1e-6
    )


@pytest.mark.parametrize("which", [0, -1])
def test_one_weight_changes_the_space(which, base, copy):
    """A single changed number in any tensor is another space."""
    tensors = load_file(copy / "model.safetensors")
    name = sorted(tensors)[which]
    tensors[name].view(-1)[which] += 1e-3
    save_file(tensors, copy / "model.safetensors", metadata={"format": "pt"})
    other = LMKEncoder(copy)
    assert other.space != base.space
    assert other.space_parts.tokenizer == base.space_parts.tokenizer


def edit(path, change):
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value))


def test_another_vocabulary_changes_the_space(base, copy):
    """Two tokens that change places make every vector another one."""

    def swap(tokenizer):
        vocabulary = tokenizer["model"]["vocab"]
        vocabulary["a"], vocabulary["b"] = vocabulary["b"], vocabulary["a"]

    edit(copy / "tokenizer.json", swap)
    assert LMKEncoder(copy).space != base.space


def test_another_normaliser_changes_the_space(base, copy):
    """The same vocabulary over text that keeps its case gives other tokens."""

    def keep_case(settings):
        assert settings["do_lower_case"]
        settings["do_lower_case"] = False

    edit(copy / "tokenizer_config.json", keep_case)
    assert LMKEncoder(copy).space != base.space


def test_the_spelling_of_a_tokenizer_is_not_the_space(tiny, tmp_path):
    """Merges as "a b" or as ["a", "b"], entries in another order: versions differ in that."""
    copy = shutil.copytree(tiny("roberta"), tmp_path / "model")
    before = LMKEncoder(copy).space

    def respell(tokenizer):
        merges = tokenizer["model"]["merges"]
        assert merges
        pairs = isinstance(merges[0], list)
        tokenizer["model"]["merges"] = [" ".join(m) if pairs else m.split(" ") for m in merges]
        tokenizer["model"] = dict(reversed(tokenizer["model"].items()))

    edit(copy / "tokenizer.json", respell)
    assert LMKEncoder(copy).space == before


def test_padding_and_truncation_do_not_change_the_space(base, copy):
    """What the tokenizer bakes in is switched off, so it is no part of the space either."""

    def unbake(tokenizer):
        assert tokenizer["padding"]
        tokenizer["padding"] = tokenizer["truncation"] = None

    edit(copy / "tokenizer.json", unbake)
    assert LMKEncoder(copy).space == base.space


@pytest.mark.parametrize(
    ("key", "value", "same"),
    [
        ("transformers_version", "4.0.0", True),
        ("architectures", ["BertForMaskedLM"], True),
        ("_name_or_path", "elsewhere", True),
        ("use_cache", True, True),
        ("hidden_act", "relu", False),
        ("layer_norm_eps", 1e-3, False),
        ("num_attention_heads", 8, False),
    ],
)
def test_config_entries(key, value, same, base, copy):
    """Facts of the file do not count, what the weights are used for does."""
    edit(copy / "config.json", lambda config: config.update({key: value}))
    assert (LMKEncoder(copy).space == base.space) == same


def test_lmk_config_does_not_change_the_space(base, copy):
    """Where an option comes from does not matter."""
    (copy / "lmk_config.json").write_text(json.dumps({"pooling": "mean", "granularity": 8}))
    other = LMKEncoder(copy)
    assert other.space == base.space
    assert other.fingerprint == LMKEncoder(base.directory, granularity=8).fingerprint


def test_dense_weights_are_part_of_the_space(tiny, tmp_path):
    """Two models that differ in their Dense module only are two spaces."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer import modules

    spaces = set()
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        parts = [
            modules.Transformer(str(tiny("bert"))),
            modules.Pooling(32, "mean"),
            modules.Dense(32, 8),
        ]
        SentenceTransformer(modules=parts, device="cpu").save(str(tmp_path / str(seed)))
        spaces.add(LMKEncoder(tmp_path / str(seed)).space)
    assert len(spaces) == 2


def test_families_and_seeds_are_spaces_of_their_own(tiny, tmp_path):
    """No two models share a space."""
    other = build_tiny("bert", tmp_path / "other", seed=1)
    directories = [tiny("bert"), tiny("distilbert"), tiny("llama"), other]
    assert len({LMKEncoder(directory).space for directory in directories}) == 4


@pytest.mark.parametrize("damage", ["cut", "header", "size", "empty"])
def test_damaged_weights_have_no_space(damage, copy):
    """A file that ends early, or is none at all, is an error and never hashed as it is."""
    path = copy / "model.safetensors"
    data = path.read_bytes()
    changed = {
        "cut": data[:-100],
        "header": data[:8] + b"x" + data[9:],
        "size": b"\xff" * 8 + data[8:],
        "empty": b"",
    }
    path.write_bytes(changed[damage])
    encoder = LMKEncoder(copy)
    with pytest.raises(ModelError, match="damaged"):
        _ = encoder.space
    with pytest.raises(ModelError, match="cannot be opened"):
        encoder.encode_documents(["fox"])
