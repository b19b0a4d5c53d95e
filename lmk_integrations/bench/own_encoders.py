"""This package's encoder, and what bounds it. Served by serve.py."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any

import torch

from lmk_integrations.bench.peer_encoders import TimedEncoder
from lmk_integrations.encoder import LMKEncoder
from lmk_integrations.encoder.locate import locate_model
from lmk_integrations.errors import ConfigError

_POSITIONS = 4096  # of one batch, as the encoder makes them
_BERT_SHAPED = ("bert", "roberta", "xlm-roberta", "mpnet", "camembert")
_DTYPES = {"bfloat16": torch.bfloat16, "float32": torch.float32, "float16": torch.float16}


def open_worker(name: str) -> Any:
    """ "limit", or an encoder named by its backend and dtype, as in "torch:bfloat16"."""
    if name == "limit":
        return MatrixLimit()
    backend, _, dtype = name.partition(":")
    return OwnEncoder(backend, dtype)


class OwnEncoder(TimedEncoder):
    """LMKEncoder.encode_landmarks: the vector of each text and those of its landmarks."""

    def __init__(self, backend: str, dtype: str) -> None:
        self._backend, self._dtype = backend, dtype

    def load(self, model: str | None, device: str) -> dict[str, Any]:
        """Open the model."""
        self._encoder = LMKEncoder(
            model, device=device, backend=self._backend, dtype=self._dtype
        ).load()
        return {"dtype": self._encoder.dtype, "device": self._encoder.device}

    def encode(self, texts: list[str]) -> Sequence[Sequence[float]]:
        """As an index does."""
        return [found.vector.tolist() for found in self._encoder.encode_landmarks(texts)]


class MatrixLimit:
    """The matrix products that a BERT cannot do without, and nothing else.

    All positions through all layers but the last; there keys and values for all, and the rest at
    landmarks only. No embeddings, norms, softmax, activations, biases; no memory is allocated.
    """

    def load(self, model: str | None, dtype: str) -> None:
        """Read the model's shapes."""
        config = json.loads((locate_model(model) / "config.json").read_text(encoding="utf-8"))
        if config.get("model_type") not in _BERT_SHAPED:
            raise ConfigError(
                f"the limit is not known for models of type {config.get('model_type')!r}"
            )
        self._layers = int(config["num_hidden_layers"])
        self._heads = int(config["num_attention_heads"])
        self._hidden = int(config["hidden_size"])
        self._inner = int(config["intermediate_size"])
        self._dtype = _DTYPES[dtype]

    def shape(self, window: int, granularity: int, tokens: int) -> None:
        """window: positions that see each other; tokens: to be read in one run."""
        windows = max(1, _POSITIONS // window)
        self._full = _Layer(self, windows, window, window)
        self._last = _Layer(self, windows, window, max(1, window // granularity))
        self._batches = tokens / (windows * window)

    def run(self) -> float:
        """Do the products for the tokens. Returns the seconds."""
        whole = max(1, round(self._batches))
        started = time.perf_counter()
        for _ in range(whole):
            for _ in range(self._layers - 1):
                self._full.multiply()
            self._last.multiply()
        return (time.perf_counter() - started) * self._batches / whole

    def matrix(self, *shape: int) -> torch.Tensor:
        """Some numbers."""
        return torch.randn(*shape).to(self._dtype)

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Heads, hidden and inner size."""
        return self._heads, self._hidden, self._inner


class _Layer:
    """One layer's matrices. rows: of each window that are wanted behind it."""

    def __init__(self, of: MatrixLimit, windows: int, window: int, rows: int) -> None:
        heads, hidden, inner = of.sizes
        size = hidden // heads
        every, wanted = of.matrix(windows * window, hidden), of.matrix(windows * rows, hidden)
        square, wide = of.matrix(hidden, hidden), of.matrix(windows * rows, inner)
        query = of.matrix(windows * heads, rows, size)
        key = of.matrix(windows * heads, size, window)
        scores = of.matrix(windows * heads, rows, window)
        value = of.matrix(windows * heads, window, size)
        pairs = [
            *[(every, square)] * 2,  # keys and values
            *[(wanted, square)] * 2,  # queries, and what leaves the attention
            (wanted, of.matrix(hidden, inner)),
            (wide, of.matrix(inner, hidden)),
            (query, key),
            (scores, value),
        ]
        self._products = [(left, right, left @ right) for left, right in pairs]

    @torch.inference_mode()
    def multiply(self) -> None:
        """Do all products."""
        for left, right, out in self._products:
            torch.matmul(left, right, out=out)
