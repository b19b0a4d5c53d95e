"""OpenVINO: on CPUs with bfloat16 or int8 units usually the fastest engine."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lmk_integrations._extras import require
from lmk_integrations.encoder.backends.base import Floats, Ints
from lmk_integrations.encoder.backends.graph import Run

if TYPE_CHECKING:
    import torch

_GRAPH = "graph.xml"  # beside it graph.bin with the weights


class OpenVINO:
    """See `Engine`. Raises MissingExtraError without the package."""

    name = "openvino"
    dtypes: tuple[str, ...] = ("float32", "bfloat16", "int8")

    def __init__(self) -> None:
        with _no_telemetry():
            self._library = require("openvino", extra="openvino")
        self.versions = {name: version(name) for name in ("openvino", "torch", "transformers")}

    def export(
        self, module: torch.nn.Module, inputs: tuple[torch.Tensor, ...], folder: Path, dtype: str
    ) -> None:
        """Trace the module and write its graph; see `Engine`."""
        with _no_telemetry():
            graph = self._library.convert_model(module, example_input=inputs)
        # float16 holds every weight at least as well as the bfloat16 that computes with it.
        self._library.save_model(graph, folder / _GRAPH, compress_to_fp16=dtype != "float32")

    def open(self, folder: Path, dtype: str) -> Run:
        """Compile the graph for this machine; see `Engine`."""
        core = self._library.Core()
        properties = {
            "PERFORMANCE_HINT": "LATENCY",  # one batch at a time, on all cores
            # In int8 what is not rounded is computed in bfloat16, where the hardware has it.
            "INFERENCE_PRECISION_HINT": "f32" if dtype == "float32" else "bf16",
        }
        compiled = core.compile_model(core.read_model(folder / _GRAPH), "CPU", properties)
        return _Requests(compiled)


class _Requests:
    """Runs a compiled graph; each thread that comes while others compute gets its own request."""

    def __init__(self, compiled: Any) -> None:
        self._compiled = compiled
        self._idle: list[Any] = []  # pop and append are atomic

    def __call__(self, inputs: Sequence[Ints]) -> Floats:
        try:
            request = self._idle.pop()
        except IndexError:
            request = self._compiled.create_infer_request()
        try:
            found = request.infer(list(inputs), share_inputs=True, share_outputs=True)[0]
            return np.array(found, np.float32)  # a copy: the request's memory is used again
        finally:
            self._idle.append(request)


@contextlib.contextmanager
def _no_telemetry() -> Iterator[None]:
    """OpenVINO reports its use over the network unless the package for that is missing."""
    name = "openvino_telemetry"
    before = sys.modules.get(name)
    sys.modules[name] = None  # type: ignore[assignment]  # importing it raises ImportError
    try:
        yield
    finally:
        if before is None:
            del sys.modules[name]
        else:
            sys.modules[name] = before
