"""Matrix products in 8 bits, where they can bear it: SmoothQuant with a choice per layer.

`nn.Linear` layers are replaced by ones whose weights (per output channel) and inputs (per tensor)
are rounded to 8 bits. A few input channels of a transformer are ten times larger than the others
and would cost these their resolution; so each channel is divided by a factor, which its weights
take on (Xiao et al., arXiv 2211.10438). How much moves into the weights is tried out for each
layer on some text, and a layer that comes out worse than `_MOST_ERROR` anyway stays as it is: in
BERT most second feed-forward layers. Attention, norms and the whole last layer, which the vectors
come from, stay as well.

The rounding is written with torch's fake-quantise functions: torch computes what int8 would give,
and exported graphs hold the pattern that engines turn into integer arithmetic.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.nn.functional import linear

from lmk_integrations.encoder.backends.base import Ints
from lmk_integrations.errors import ModelError

logger = logging.getLogger(__name__)

# How far the range of inputs may move into the weights: 0 not at all, 1 wholly.
_ALPHAS = (0.0, 0.3, 0.5, 0.6, 0.7, 0.8)
# The most that a layer's outputs may differ, as a share of their energy.
_MOST_ERROR = 0.001
_SAMPLE_ROWS = 512
_SMALLEST = 1e-4


class QuantizedLinear(nn.Module):
    """A linear layer with weights and inputs rounded to 8 bits.

    smooth: (in,) what each input channel is divided by. low, high: the range of inputs thereafter.
    """

    weight_scale: torch.Tensor
    weight_zero: torch.Tensor
    shrink: torch.Tensor

    def __init__(self, layer: nn.Linear, smooth: torch.Tensor, low: float, high: float) -> None:
        super().__init__()
        low, high = min(low, 0.0), max(high, _SMALLEST)
        self._scale = (high - low) / 255
        self._zero = round(-low / self._scale)
        self.bias = layer.bias
        self.weight = nn.Parameter(layer.weight.detach() * smooth, requires_grad=False)
        largest = self.weight.abs().amax(1).clamp(min=_SMALLEST**2)
        self.register_buffer("weight_scale", largest / 127)
        self.register_buffer("weight_zero", torch.zeros(len(largest), dtype=torch.int32))
        self.register_buffer("shrink", 1 / smooth)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """(..., in) -> (..., out)"""
        rounded = torch.fake_quantize_per_tensor_affine(
            states * self.shrink, self._scale, self._zero, 0, 255
        )
        weight = torch.fake_quantize_per_channel_affine(
            self.weight, self.weight_scale, self.weight_zero, 0, -128, 127
        )
        return linear(rounded, weight, self.bias)


@dataclass(slots=True)
class _Seen:
    """What calibration saw enter linear layers that share their input.

    low, high: (in,) the least and greatest value of each channel. rows: some inputs, (n, in) each.
    """

    low: torch.Tensor
    high: torch.Tensor
    names: list[str] = field(default_factory=list)
    rows: list[torch.Tensor] = field(default_factory=list)


@torch.no_grad()
def quantize(model: nn.Module, windows: Sequence[Ints]) -> list[str]:
    """Replace linear layers of a model in float32, in place. Returns the names of those replaced.

    windows: token ids of some typical inputs. Raises ModelError where no layer can be replaced.
    """
    layers = _inner_layers(model)
    replaced: dict[str, QuantizedLinear] = {}
    for seen in _observe(model, layers, windows):
        replaced.update(_rounded({name: layers[name] for name in seen.names}, seen))
    if not replaced:
        raise ModelError(
            f"no layer of {type(model).__name__} can be computed in int8 without losing quality; "
            "use another dtype"
        )
    for name, new in replaced.items():
        parent, _, own = name.rpartition(".")
        setattr(model.get_submodule(parent), own, new)
    logger.info("%d of %d inner layers are computed in int8", len(replaced), len(layers))
    return list(replaced)


def _rounded(layers: dict[str, nn.Linear], seen: _Seen) -> dict[str, QuantizedLinear]:
    """The layers of one input by the best of `_ALPHAS`; without those that lose too much."""
    largest = torch.maximum(seen.high, -seen.low).clamp(min=_SMALLEST)
    weights = torch.stack([layer.weight.abs().amax(0) for layer in layers.values()]).amax(0)
    rows = torch.cat(seen.rows)
    best: dict[str, QuantizedLinear] = {}
    least: dict[str, float] = {}
    for alpha in _ALPHAS:
        smooth = largest**alpha / weights.clamp(min=_SMALLEST) ** (1 - alpha)
        if alpha == 0:
            smooth = torch.ones_like(largest)
        low, high = float((seen.low / smooth).min()), float((seen.high / smooth).max())
        tried = {name: QuantizedLinear(layer, smooth, low, high) for name, layer in layers.items()}
        errors = {name: _error(layers[name], new, rows) for name, new in tried.items()}
        if not least or sum(errors.values()) < sum(least.values()):  # one choice for all of them:
            best, least = tried, errors  # then their common input is rounded once
    return {name: new for name, new in best.items() if least[name] <= _MOST_ERROR}


def _error(layer: nn.Linear, rounded: QuantizedLinear, rows: torch.Tensor) -> float:
    """The energy of the difference as a share of the output's, averaged over positions."""
    expected = linear(rows, layer.weight)
    bias = 0 if layer.bias is None else layer.bias
    difference = (rounded(rows) - bias - expected).square().sum(dim=1)
    return float((difference / expected.square().sum(dim=1).clamp(min=_SMALLEST)).mean())


def _inner_layers(model: nn.Module) -> dict[str, nn.Linear]:
    """The linear layers, by name, in all but the last entry of the model's list of layers."""
    lists = [
        (name, part) for name, part in model.named_modules() if isinstance(part, nn.ModuleList)
    ]
    if not lists:
        return {}
    path, stack = max(lists, key=lambda item: len(item[1]))
    last = f"{path}.{len(stack) - 1}."
    return {
        name: part
        for name, part in model.named_modules()
        if type(part) is nn.Linear and name.startswith(f"{path}.") and not name.startswith(last)
    }


def _observe(
    model: nn.Module, layers: dict[str, nn.Linear], windows: Sequence[Ints]
) -> list[_Seen]:
    """Run the windows and keep what enters the layers."""
    seen: dict[str, _Seen] = {}
    before: list[Any] = [None, None]  # the input of the last layer called, and its group
    share = max(1, sum(len(ids) for ids in windows) // _SAMPLE_ROWS)

    def watch(name: str, states: torch.Tensor) -> None:
        values = states.flatten(0, -2)
        if before[0] is states:
            group = before[1]
        else:
            low, high = values.amin(0), values.amax(0)
            group = seen.get(name) or _Seen(low, high)
            group.low, group.high = torch.minimum(group.low, low), torch.maximum(group.high, high)
            group.rows.append(values[::share].clone())
        if name not in seen:
            seen[name] = group
            group.names.append(name)
        before[:] = states, group

    with ExitStack() as hooks:
        for name, layer in layers.items():
            hook = layer.register_forward_pre_hook(
                lambda _, given, name=name: watch(name, given[0])
            )
            hooks.callback(hook.remove)
        for ids in windows:
            row = torch.from_numpy(ids)[None]
            model(input_ids=row, attention_mask=torch.ones_like(row))
    return list({id(group): group for group in seen.values()}.values())
