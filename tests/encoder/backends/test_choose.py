"""The rule by which a backend is chosen, and what happens where it cannot be had."""

import importlib.util
import logging
import sys

import pytest

from lmk_integrations.encoder import LMKEncoder
from lmk_integrations.encoder.backends import choose
from lmk_integrations.encoder.backends import torch as torch_backend
from lmk_integrations.errors import ConfigError, MissingExtraError, ModelError

HAS_OPENVINO = importlib.util.find_spec("openvino") is not None
WITH_OPENVINO = [None] if HAS_OPENVINO else []

pytestmark = pytest.mark.filterwarnings("ignore:.*was not trained for landmarks")


@pytest.fixture(scope="module")
def shared_cache(tmp_path_factory):
    return tmp_path_factory.mktemp("chosen")


@pytest.fixture(autouse=True)
def a_fast_cpu(monkeypatch, shared_cache):
    """The rule as on a CPU that multiplies bfloat16, whatever this one does."""
    multiplies_bfloat16(monkeypatch, True)
    monkeypatch.setattr(torch_backend.torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch_backend.torch.backends.mps, "is_available", lambda: False)
    monkeypatch.setenv("LMK_CACHE", str(shared_cache))


def multiplies_bfloat16(monkeypatch, answer):
    """Let the CPU be one that does or does not."""
    for module in (choose, torch_backend):
        monkeypatch.setattr(module, "cpu_multiplies_bfloat16", lambda: answer)


def without(monkeypatch, *packages):
    """As if packages were not installed."""
    found = importlib.util.find_spec
    monkeypatch.setattr(
        "importlib.util.find_spec",
        lambda name, *rest: None if name in packages else found(name, *rest),
    )
    for package in packages:
        monkeypatch.setitem(sys.modules, package, None)


@pytest.mark.parametrize("_", WITH_OPENVINO)
def test_auto_takes_openvino_for_encoders_like_bert(_, tiny):
    """In bfloat16, which is what dtype="auto" is on such a CPU."""
    encoder = LMKEncoder(tiny("bert"))
    assert (encoder.backend, encoder.dtype) == ("openvino", "bfloat16")


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("bert", {"dtype": "float32"}),
        ("bert", {"dtype": "float16"}),
        ("bert", {"backend": "torch"}),
        ("bert", {"compile": True}),
        ("modernbert", {}),
        ("qwen3", {}),
        ("deberta-v2", {}),
    ],
    ids=str,
)
def test_auto_leaves_the_others_to_torch(kind, options, tiny):
    """Where nothing is gained or nothing was measured; and whoever asks for torch gets it."""
    assert LMKEncoder(tiny(kind), pooling="mean", **options).backend == "torch"


def test_auto_is_torch_without_openvino(tiny, monkeypatch, caplog):
    """It is optional: nobody is told off for not having it."""
    without(monkeypatch, "openvino")
    with caplog.at_level(logging.WARNING):
        assert LMKEncoder(tiny("bert")).backend == "torch"
    assert caplog.text == ""


def test_auto_is_torch_on_a_slow_cpu(tiny, monkeypatch):
    """Without bfloat16 units the default dtype is float32, and that is torch's."""
    multiplies_bfloat16(monkeypatch, False)
    encoder = LMKEncoder(tiny("bert"))
    assert (encoder.backend, encoder.dtype) == ("torch", "float32")


@pytest.mark.parametrize("_", WITH_OPENVINO)
def test_auto_falls_back_when_an_export_fails(_, tiny, monkeypatch, caplog, tmp_path):
    """With one line in the log that says why; asked for by name, the same is an error."""
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("LMK_CACHE", str(tmp_path / "file"))
    with caplog.at_level(logging.WARNING):
        assert LMKEncoder(tiny("bert")).load().backend == "torch"
    assert [record.message for record in caplog.records if "OpenVINO does not" in record.message]
    assert len(caplog.records) == 1
    with pytest.raises(ModelError, match="LMK_CACHE"):
        LMKEncoder(tiny("bert"), backend="openvino").load()


@pytest.mark.parametrize(
    ("backend", "package", "extra"),
    [("openvino", "openvino", "openvino"), ("onnx", "onnxruntime", "onnx")],
)
def test_a_missing_package_is_named_with_its_extra(backend, package, extra, tiny, monkeypatch):
    """Asked for by name, a backend is not silently another one."""
    without(monkeypatch, package)
    with pytest.raises(MissingExtraError, match=rf"pip install 'lmk-integrations\[{extra}\]'"):
        LMKEncoder(tiny("bert"), backend=backend).load()


def test_int8_without_an_engine_names_one(tiny, monkeypatch):
    """dtype="int8" needs a graph engine, whichever backend is asked for."""
    without(monkeypatch, "openvino", "onnxruntime")
    with pytest.raises(MissingExtraError, match=r"lmk-integrations\[openvino\]"):
        LMKEncoder(tiny("bert"), dtype="int8").load()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"backend": "torch", "dtype": "int8"}, "use backend='openvino' or 'onnx'"),
        ({"backend": "openvino", "device": "cuda"}, "use device='cpu', or backend='torch'"),
        ({"backend": "openvino", "dtype": "float16"}, "float32, bfloat16, int8"),
        ({"backend": "onnx", "dtype": "bfloat16"}, "float32, int8"),
        ({"backend": "tensorflow"}, "'auto', 'torch', 'openvino', 'onnx'"),
        ({"backend": "openvino", "compile": True}, "use backend='torch', or compile=False"),
        ({"dtype": "int8", "compile": True}, "use another dtype, or compile=False"),
        ({"compile": "max-autotune"}, "True or False"),
    ],
    ids=str,
)
def test_what_does_not_go_together_is_told(options, message, tiny, monkeypatch):
    """The error names the option and what to use instead. No library is needed to tell."""
    for package in ("openvino", "onnxruntime"):
        if importlib.util.find_spec(package) is None:
            monkeypatch.setitem(sys.modules, package, importlib)
    monkeypatch.setattr(choose.OpenVINO, "__init__", lambda self: None)
    monkeypatch.setattr(choose.OnnxRuntime, "__init__", lambda self: None)
    with pytest.raises(ConfigError, match=message):
        LMKEncoder(tiny("bert"), **options).load()
