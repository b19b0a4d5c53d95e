"""Windows padded to one length: for models that cannot take them packed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence

from lmk_integrations.encoder.backends.last_layer import last_layer_at_rows


class PaddedEncoder(nn.Module):
    """Any transformers model, by the interface of `PackedEncoder`."""

    def __init__(self, model: nn.Module, config: Any, pad_id: int, first: int | None) -> None:
        super().__init__()
        self.model = model
        self.at_rows = last_layer_at_rows(model, config)
        self._pad_id = pad_id  # masked, so of no consequence
        self._positions_from = first
        self._keeps_cache = bool(getattr(config, "use_cache", None))

    def forward(
        self, ids: torch.Tensor, lengths: Sequence[int], wanted: torch.Tensor | None = None
    ) -> torch.Tensor:
        """(total, hidden) states after the final norm, or (r, hidden) of the wanted positions.

        ids: (total,) int64, the windows one after another. lengths: positions of each window.
        wanted: (r,) int64, places in ids.
        """
        inputs = pad_sequence(
            list(torch.split(ids, list(lengths))), batch_first=True, padding_value=self._pad_id
        )
        steps = torch.arange(inputs.shape[1], device=ids.device)
        # From the lengths, never from the ids: PAD may equal the landmark.
        mask = steps[None, :] < torch.tensor(lengths, device=ids.device)[:, None]
        arguments: dict[str, Any] = {"input_ids": inputs, "attention_mask": mask.long()}
        if self._positions_from is not None:
            arguments["position_ids"] = (steps + self._positions_from)[None, :].expand_as(inputs)
        batch, position = mask.nonzero(as_tuple=True)
        if wanted is not None:
            batch, position = batch[wanted], position[wanted]
            if self.at_rows is not None:
                states: torch.Tensor = self.at_rows(**arguments, batch=batch, position=position)
                return states
        if self._keeps_cache:
            arguments["use_cache"] = False
        states = self.model(**arguments).last_hidden_state[batch, position]
        return states
