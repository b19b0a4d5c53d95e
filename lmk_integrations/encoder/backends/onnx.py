"""ONNX Runtime: runs everywhere, computes in float32 or int8."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lmk_integrations._extras import require
from lmk_integrations.encoder.backends.base import Floats, Ints
from lmk_integrations.encoder.backends.graph import Run

if TYPE_CHECKING:
    import torch

_GRAPH = "graph.onnx"
_OPSET = 17
_FATAL_ONLY = 4  # what goes wrong is raised, too
_INPUTS = ("input_ids", "attention_mask", "batch", "position")


class OnnxRuntime:
    """See `Engine`. Raises MissingExtraError without the package."""

    name = "onnx"
    dtypes: tuple[str, ...] = ("float32", "int8")

    def __init__(self) -> None:
        self._library = require("onnxruntime", extra="onnx")
        self.versions = {name: version(name) for name in ("torch", "transformers")}

    def export(
        self, module: torch.nn.Module, inputs: tuple[torch.Tensor, ...], folder: Path, dtype: str
    ) -> None:
        """Trace the module and write its graph; see `Engine`."""
        import torch

        batch_and_length, rows = {0: "windows", 1: "length"}, {0: "rows"}
        torch.onnx.export(
            module,
            inputs,
            folder / _GRAPH,
            input_names=list(_INPUTS),
            output_names=["states"],
            dynamic_axes=dict(
                zip(_INPUTS, (batch_and_length, batch_and_length, rows, rows), strict=True)
            )
            | {"states": rows},
            opset_version=_OPSET,
            dynamo=False,  # the newer exporter needs two more packages and takes fewer models
        )

    def open(self, folder: Path, dtype: str) -> Run:
        """Load the graph on the CPU; see `Engine`."""
        options = self._library.SessionOptions()
        options.log_severity_level = _FATAL_ONLY
        session = self._library.InferenceSession(
            str(folder / _GRAPH), options, providers=["CPUExecutionProvider"]
        )

        def run(inputs: Sequence[Ints]) -> Floats:
            found = session.run(None, dict(zip(_INPUTS, inputs, strict=True)))[0]
            return np.asarray(found, np.float32)

        return run
