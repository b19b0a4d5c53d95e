"""The Dense modules that some models put after their pooling, in NumPy: they are tiny."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from lmk_integrations.encoder.model_files import DenseFiles
from lmk_integrations.errors import ModelError

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Dense:
    """weight: (out, in); bias: (out,); activation by name."""

    weight: Floats
    bias: Floats
    activation: str

    def __call__(self, rows: Floats) -> Floats:
        """(n, in) -> (n, out) float32."""
        out = rows @ self.weight.T + self.bias
        if self.activation == "tanh":
            out = np.tanh(out)
        elif self.activation == "relu":
            out = np.maximum(out, 0)
        elif self.activation == "gelu":
            out = _gelu(out)
        return np.asarray(out, np.float32)


def load_dense(files: DenseFiles) -> Dense:
    """Open one module's safetensors weights."""
    import torch
    from safetensors.torch import load_file

    path = files.directory / "model.safetensors"
    if not path.is_file():
        raise ModelError(f"the Dense module in {files.directory} has no model.safetensors")
    try:
        tensors = {name: t.to(torch.float32).numpy() for name, t in load_file(str(path)).items()}
        weight = tensors["linear.weight"]
        out, _ = weight.shape
        bias = tensors.get("linear.bias", np.zeros(out, np.float32)).reshape(out)
    except Exception as error:  # SafetensorError, OSError, KeyError, ValueError
        raise ModelError(f"{path} is not the weights of a Dense module: {error!r}") from error
    return Dense(weight, bias, files.activation)


def _gelu(x: Floats) -> Floats:
    import torch

    erf = torch.erf(torch.from_numpy(x / sqrt(2))).numpy()
    return np.asarray(0.5 * x * (1 + erf), np.float32)
