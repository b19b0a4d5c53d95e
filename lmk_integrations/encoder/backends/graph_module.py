"""The model as one torch module that graph engines can take over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

from lmk_integrations.encoder.backends.base import Ints
from lmk_integrations.encoder.backends.graph_int8 import quantize
from lmk_integrations.encoder.backends.last_layer import last_layer_at_rows
from lmk_integrations.encoder.backends.torch import load_transformer, offset_positions

INPUTS = ("input_ids", "attention_mask", "batch", "position")

Example = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


class GraphModule(nn.Module):
    """Ids and wanted positions in, their states out."""

    def __init__(self, model: nn.Module, config: Any, *, at_rows: bool) -> None:
        super().__init__()
        self.model = model
        self.at_rows = last_layer_at_rows(model, config) if at_rows else None
        self._positions_from = offset_positions(config)
        self._keeps_cache = bool(getattr(config, "use_cache", None))

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        batch: torch.Tensor,
        position: torch.Tensor,
    ) -> torch.Tensor:
        """input_ids, attention_mask: (b, n) int64; batch, position: (r,) int64 -> (r, hidden)."""
        arguments: dict[str, Any] = {"input_ids": input_ids, "attention_mask": attention_mask}
        if self._positions_from is not None:
            steps = torch.arange(input_ids.shape[1]) + self._positions_from
            arguments["position_ids"] = steps[None, :].expand_as(input_ids)
        states: torch.Tensor
        if self.at_rows is not None:
            states = self.at_rows(**arguments, batch=batch, position=position)
            return states
        if self._keeps_cache:
            arguments["use_cache"] = False
        states = self.model(**arguments).last_hidden_state
        return states[batch, position]


def graph_module(
    directory: Path, *, at_rows: bool, calibration: list[Ints] | None
) -> tuple[GraphModule, dict[str, int]]:
    """The module of a model directory in float32, and the sizes that its user must know.

    at_rows: compute the last layer at the wanted positions only, where the architecture allows.
    calibration: token ids of some windows; given, the matrix products are rounded to int8.
    """
    model, config = load_transformer(directory, torch.float32)
    sizes = {
        "dim": int(config.hidden_size),
        "n_embeddings": int(model.get_input_embeddings().weight.shape[0]),
    }
    if calibration is not None:
        quantize(model, calibration)
    return GraphModule(model, config, at_rows=at_rows).eval(), sizes


def example(n_embeddings: int, *, windows: int, length: int) -> Example:
    """A batch of windows of different lengths, always the same, to trace and to compare with."""
    generator = torch.Generator().manual_seed(windows)
    ids = torch.randint(0, n_embeddings, (windows, length), generator=generator)
    lengths = torch.arange(length, length - windows, -1)
    mask = (torch.arange(length)[None, :] < lengths[:, None]).long()
    batch = torch.arange(windows).repeat_interleave(3)
    position = torch.stack([torch.zeros_like(lengths), lengths // 2, lengths - 1], dim=1).flatten()
    return ids, mask, batch, position
