"""Graph engines give what transformers gives. They run where their packages are installed."""

import importlib.util
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from plain import PlainModel, cosine
from tiny_models import CORPUS
from transformers import AutoModel

import lmk_integrations
from lmk_integrations.encoder import LMKEncoder
from lmk_integrations.encoder.backends.base import WindowInput
from lmk_integrations.encoder.backends.graph import GraphBackend
from lmk_integrations.encoder.backends.graph_export import export_graph
from lmk_integrations.encoder.backends.onnx import OnnxRuntime
from lmk_integrations.encoder.backends.openvino import OpenVINO
from lmk_integrations.errors import ModelError

PACKAGES = {"openvino": "openvino", "onnx": "onnxruntime"}
ENGINES = [name for name, package in PACKAGES.items() if importlib.util.find_spec(package)]
MAKE = {"openvino": OpenVINO, "onnx": OnnxRuntime}
KINDS = ["bert", "roberta", "distilbert", "mpnet", "modernbert"]
SHIPPED = Path(lmk_integrations.__file__).parent / "models" / "lmk-minilm"
LEAST = {"float32": 0.999999, "bfloat16": 0.9995}

pytestmark = pytest.mark.filterwarnings("ignore:.*was not trained for landmarks")


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    """A cache of graphs that these tests share."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def own_cache(cache, monkeypatch):
    """Never that of the user."""
    monkeypatch.setenv("LMK_CACHE", str(cache))


def windows(n_embeddings, lengths, runs):
    """Windows of random ids, many of them 0, which is what padding is filled with."""
    generator = np.random.default_rng(0)
    made = []
    for length in lengths:
        ids = generator.integers(0, n_embeddings, length)
        ids[generator.random(length) < 0.3] = 0
        starts = np.unique(generator.integers(0, length, 4))
        stops = np.minimum(starts + 5, length) if runs else starts + 1
        made.append(WindowInput(ids, starts, stops))
    return made


def plain_rows(model, window, first):
    """Mean states by transformers, one window at a time, without padding."""
    ids = torch.from_numpy(window.ids)[None]
    given = {} if first is None else {"position_ids": torch.arange(ids.shape[1])[None] + first}
    with torch.no_grad():
        states = model(input_ids=ids, **given).last_hidden_state[0].double().numpy()
    return np.stack(
        [states[a:b].mean(axis=0) for a, b in zip(window.starts, window.stops, strict=True)]
    )


@pytest.mark.parametrize("single_rows", [True, False], ids=["landmarks", "runs"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ENGINES)
def test_a_graph_gives_the_states_of_the_plain_model(name, kind, single_rows, tiny, tmp_path):
    """Windows of all lengths in one batch, each row as transformers gives it alone."""
    export_graph(
        MAKE[name](), tiny(kind), tmp_path, dtype="float32", at_rows=single_rows, calibration=None
    )
    backend = GraphBackend(MAKE[name](), tmp_path, dtype="float32", pad_id=0, max_length=100)
    model = AutoModel.from_pretrained(tiny(kind), dtype=torch.float32).eval()
    first = 2 if kind in ("roberta", "mpnet") else None
    for lengths in ([1], [5, 100, 33, 2], [64] * 7):
        batch = windows(300, lengths, runs=not single_rows)
        for window, rows in zip(batch, backend.rows(batch), strict=True):
            expected = plain_rows(model, window, first)
            assert rows.shape == expected.shape
            assert rows.dtype == np.float32
            for found, wanted in zip(rows, expected, strict=True):
                assert cosine(found, wanted) >= LEAST["float32"]


@pytest.fixture(scope="module")
def shipped():
    """Texts of many lengths, and their encodings by transformers in float32."""
    texts = ["", "fox", CORPUS[0], " ".join(CORPUS), " ".join(CORPUS * 9)]
    plain = PlainModel("bert", SHIPPED, 512)
    return texts, [plain.encode(text, "lmk", 32) for text in texts]


@pytest.mark.parametrize(
    ("name", "dtype"),
    [(n, d) for n in ENGINES for d in ("float32", "bfloat16") if d in MAKE[n].dtypes],
)
def test_the_shipped_model_is_the_same_by_every_engine(name, dtype, shipped):
    """Vectors and landmarks, of queries and of texts over several windows."""
    texts, expected = shipped
    encoder = LMKEncoder(backend=name, dtype=dtype)
    assert (encoder.backend, encoder.dtype, encoder.device) == (name, dtype, "cpu")
    found = encoder.encode_landmarks(texts)
    assert found[-1].n_windows > 1
    for encoding, plain in zip(found, expected, strict=True):
        assert cosine(encoding.vector, plain.vector) >= LEAST[dtype]
        for row, wanted in zip(encoding.landmarks, plain.rows, strict=True):
            assert cosine(row, wanted) >= LEAST[dtype]


@pytest.mark.parametrize("name", ENGINES)
def test_int8_is_near_and_has_a_fingerprint_of_its_own(name, shipped):
    """Comparable with float vectors, hence of the same space, but not the same vectors."""
    texts, expected = shipped
    encoder, exact = LMKEncoder(backend=name, dtype="int8"), LMKEncoder()
    near = [
        cosine(vector, plain.vector)
        for vector, plain in zip(encoder.encode_documents(texts), expected, strict=True)
    ]
    assert min(near) > 0.99  # the least is that of the empty text
    assert 0.995 < np.mean(near) < 0.9999
    assert encoder.dtype == "int8"
    assert encoder.space == exact.space
    assert encoder.fingerprint != exact.fingerprint
    assert encoder.fingerprint_parts["int8"] == "w8a8-1"
    assert exact.fingerprint_parts["int8"] is None


@pytest.mark.parametrize("name", ENGINES)
def test_threads_share_a_backend(name, shipped):
    """Each of many threads gets its own text's vector."""
    texts, expected = shipped
    encoder = LMKEncoder(backend=name, dtype="float32").load()
    found = {}

    def encode(number):
        found[number] = encoder.encode_documents([texts[number % 4]] * 3)[1]

    threads = [threading.Thread(target=encode, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(16):
        assert cosine(found[number], expected[number % 4].vector) > 0.99999


@pytest.mark.parametrize("name", ENGINES)
def test_a_foreign_tokenizer_is_told(name, tiny, tmp_path):
    """A token id without an embedding is an error, not the memory behind the table."""
    export_graph(
        MAKE[name](), tiny("bert"), tmp_path, dtype="float32", at_rows=True, calibration=None
    )
    backend = GraphBackend(MAKE[name](), tmp_path, dtype="float32", pad_id=0, max_length=64)
    beyond = WindowInput(np.array([30000]), np.array([0]), np.array([1]))
    with pytest.raises(ModelError, match="token id 30000"):
        backend.rows([beyond])


@pytest.mark.parametrize("name", ENGINES)
def test_a_graph_that_computes_something_else_is_refused(name, tiny, tmp_path):
    """What an engine was given is compared with torch before it is ever used."""

    class Wrong(MAKE[name]):
        def open(self, folder, dtype):
            run = super().open(folder, dtype)
            return lambda inputs: run(inputs) + 0.3

    with pytest.raises(ModelError, match=r"other numbers .* use backend='torch'"):
        export_graph(
            Wrong(), tiny("bert"), tmp_path, dtype="float32", at_rows=True, calibration=None
        )


@pytest.mark.parametrize("name", [name for name in ENGINES if name == "openvino"])
def test_openvino_reports_nothing(name):
    """Its telemetry is never imported, neither with the library nor by an export."""
    code = (
        "import sys, torch\n"
        "from lmk_integrations.encoder.backends.openvino import OpenVINO\n"
        "import pathlib, tempfile\n"
        "folder = pathlib.Path(tempfile.mkdtemp())\n"
        "OpenVINO().export(torch.nn.Linear(2, 2), (torch.ones(1, 2),), folder, 'float32')\n"
        "assert 'openvino' in sys.modules\n"
        "print([name for name in sys.modules if 'openvino_telemetry' in name])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
