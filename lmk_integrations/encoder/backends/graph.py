"""Exported graphs behind the interface of backends. The engines: `openvino`, `onnx`."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from lmk_integrations.encoder.backends.base import Floats, Ints, WindowInput
from lmk_integrations.encoder.backends.graph_batch import pack
from lmk_integrations.errors import ModelError

if TYPE_CHECKING:  # exporting loads torch and transformers; opening a graph does not
    import torch

    from lmk_integrations.encoder.backends.graph_module import GraphModule

SIZES_NAME = "sizes.json"

Run = Callable[[Sequence[Ints]], Floats]
"""(input_ids, attention_mask, batch, position) -> (r, hidden). Thread-safe."""


class Engine(Protocol):
    """What a library does with graphs."""

    name: str
    versions: dict[str, str]
    dtypes: tuple[str, ...]

    def export(
        self, module: GraphModule, inputs: tuple[torch.Tensor, ...], folder: Path, dtype: str
    ) -> None:
        """Write the module's graph, all sizes dynamic, as files of a folder."""
        ...

    def open(self, folder: Path, dtype: str) -> Run:
        """Prepare what `export` wrote for computing in a dtype."""
        ...


class GraphBackend:
    """Runs an exported graph on the CPU. See `Backend`."""

    device = "cpu"

    def __init__(
        self, engine: Engine, folder: Path, *, dtype: str, pad_id: int, max_length: int
    ) -> None:
        self.name = engine.name
        self.dtype = dtype
        sizes = json.loads((folder / SIZES_NAME).read_text(encoding="utf-8"))
        self.dim = int(sizes["dim"])
        self._n_embeddings = int(sizes["n_embeddings"])
        self._pad_id = pad_id if pad_id < self._n_embeddings else 0  # masked in any case
        self._max_length = max_length
        self._run = engine.open(folder, dtype)

    def rows(self, windows: Sequence[WindowInput]) -> list[Floats]:
        """Pad the windows to one batch, run the graph, which gives the wanted positions only."""
        batch = pack(windows, pad_id=self._pad_id, max_length=self._max_length)
        if batch.ids.max() >= self._n_embeddings:
            raise ModelError(
                f"the tokenizer gave the token id {batch.ids.max()}, but the weights hold "
                f"{self._n_embeddings} embeddings: they do not belong together"
            )
        return batch.deal(self._run(batch.inputs))
