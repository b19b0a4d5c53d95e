"""The model through torch.compile gives what it gives without, whatever the batches' shapes."""

import pytest
import torch
from encoders import random_ids, tiny_encoder
from torch._dynamo.utils import counters

from lmk_integrations.encoder import LMKEncoder
from lmk_integrations.encoder.backends.compiled import compile_encoder
from lmk_integrations.encoder.backends.packed import packed_encoder
from lmk_integrations.encoder.backends.padded import PaddedEncoder
from lmk_integrations.errors import ModelError

# Windows per batch and their lengths differ; among them equal ones, a single one, and one token.
BATCHES = [
    [70, 33, 33, 20, 2],
    [40, 40, 40],
    [97],
    [1],
    [120, 3],
    [5] * 7,
    [64, 63, 62, 61],
    *([20 + 7 * n, 90 - 5 * n] for n in range(13)),
]
MOST_GRAPHS = 4
"""Sizes of 1 have graphs of their own: one token in all, one wanted row, one window."""


@pytest.fixture(autouse=True)
def afresh():
    """No graph of another test is used, or counted."""
    torch.compiler.reset()
    counters.clear()


def open_encoder(name, compiled):
    model = tiny_encoder(name)
    if name == "mpnet":
        encoder = PaddedEncoder(model, model.config, 0, 2)
    else:
        encoder = packed_encoder(model, model.config, 0)
    if compiled:
        compile_encoder(encoder)
    return encoder


def with_backend(monkeypatch, backend):
    """Let torch.compile end in another backend: cheap, where the code it makes is not the point."""
    real = torch.compile
    monkeypatch.setattr(
        torch, "compile", lambda module, **own: real(module, backend=backend, **own)
    )


def wanted_rows(ids, number):
    return torch.arange(0, len(ids), 3 + number % 5)


def assert_same_states(name, rows, batches):
    plain, compiled = open_encoder(name, False), open_encoder(name, True)
    for number, lengths in enumerate(batches):
        ids = random_ids(sum(lengths))
        wanted = wanted_rows(ids, number) if rows == "rows" else None
        found, expected = compiled(ids, lengths, wanted), plain(ids, lengths, wanted)
        assert torch.cosine_similarity(found, expected).min() > 0.999999, lengths


@torch.inference_mode()
@pytest.mark.parametrize("rows", ["all", "rows"])
@pytest.mark.parametrize("name", ["bert", "modernbert-ends-local", "mpnet"])
def test_the_same_states_from_few_graphs(name, rows, monkeypatch):
    """Packed, sliding and padded: whole graphs, and none for each new shape."""
    with_backend(monkeypatch, "eager")
    assert_same_states(name, rows, BATCHES)
    assert 0 < counters["stats"]["unique_graphs"] <= MOST_GRAPHS
    assert not counters["graph_break"]


@torch.inference_mode()
@pytest.mark.parametrize("name", ["bert", "modernbert-ends-global"])
def test_the_same_states_from_the_code_that_is_made(name):
    """In float32 the cosine is over 0.999999, and one graph does for these shapes."""
    assert_same_states(name, "rows", [*BATCHES[:3], *BATCHES[-3:]])
    assert counters["stats"]["unique_graphs"] == 1


@torch.inference_mode()
def test_encoders_do_not_use_up_the_graphs_of_others(monkeypatch):
    """PyTorch gives up compiling a function after so many graphs; each encoder has its own."""
    with_backend(monkeypatch, "eager")
    ids = random_ids(30)
    with torch._dynamo.config.patch(recompile_limit=1):
        for _ in range(3):
            open_encoder("bert", True)(ids, [20, 10])
    assert counters["stats"]["unique_graphs"] == 3


@torch.inference_mode()
def test_a_graph_that_is_wrong_is_found_out(monkeypatch):
    """The first batch is computed both ways."""
    with_backend(monkeypatch, lambda graph, _: lambda *given: [x.flip(-1) for x in graph(*given)])
    encoder = open_encoder("bert", True)
    with pytest.raises(ModelError, match=r"other states.*compile=False"):
        encoder(random_ids(30), [20, 10])


def test_a_python_that_cannot_be_compiled_for(monkeypatch):
    """Told when the model is opened."""

    def refuse(*_, **__):
        raise RuntimeError("torch.compile is not supported on Python 3.99+")

    monkeypatch.setattr(torch, "compile", refuse)
    with pytest.raises(ModelError, match=r"Python 3.99.*compile=False"):
        open_encoder("bert", True)


@pytest.mark.filterwarnings("ignore:.*was not trained for landmarks")
def test_without_a_compiler(tiny):
    """The error of the first batch says what is missing and what to do without it."""
    encoder = LMKEncoder(tiny("bert"), device="cpu", dtype="float32", compile=True)
    with (
        torch._inductor.config.patch({"cpp.cxx": ("no-such-compiler",)}),
        pytest.raises(ModelError, match=r"[Cc]ompiler.*compile=False"),
    ):
        encoder.encode_documents(["a text"])
