"""Windows of any lengths run as one sequence, without padding and without masks.

All that a model does position by position sees (1, total length) positions. Attention alone must
know the windows, and transformers lets it be replaced by name: here each window, or a run of
windows of one length, gets the unmasked kernel, and sliding-window layers work in blocks.

To torch.compile the attention is one operator that it does not look into. So the lengths of the
windows, which are another list in each batch, are no part of the compiled graph.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextvars import ContextVar
from itertools import groupby
from typing import Any

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from lmk_integrations.encoder.backends.agreement import agree, probe_ids
from lmk_integrations.encoder.backends.last_layer import Rows, wanted_rows, with_last_layer_at_rows
from lmk_integrations.encoder.backends.local_attention import local_attention, local_mask

logger = logging.getLogger(__name__)

_ATTENTION = "lmk_packed"


class Packing:
    """Where the windows of one packed batch stand.

    lengths: positions of each window, in order. group, position: (total,) int64, the number of
    each position's window, and its place therein.
    """

    def __init__(self, lengths: Sequence[int], device: torch.device) -> None:
        sizes = torch.tensor(lengths, device=device)
        total = sum(lengths)
        self.lengths = list(lengths)
        self.group = torch.arange(len(lengths), device=device).repeat_interleave(
            sizes, output_size=total
        )
        starts = sizes.cumsum(0) - sizes
        self.position = torch.arange(total, device=device) - starts[self.group]
        self._local_masks: dict[tuple[int, torch.dtype], torch.Tensor] = {}

    def runs(self) -> list[tuple[int, int]]:
        """(windows, length) of each run of neighbours of one length."""
        return [(len(list(run)), length) for length, run in groupby(self.lengths)]

    def local_mask(self, window: int, dtype: torch.dtype) -> torch.Tensor:
        """The mask of all layers with this window, made once."""
        key = (window, dtype)
        if key not in self._local_masks:
            self._local_masks[key] = local_mask(self.group, window, dtype)
        return self._local_masks[key]


# From the model's door to the attention in its layers.
_packing: ContextVar[Packing] = ContextVar("packing")


class PackedEncoder(nn.Module):
    """A transformers encoder that reads windows of any lengths one after another.

    Shares every weight with the model. Built by `packed_encoder`.
    """

    def __init__(self, model: nn.Module, at_rows: nn.Module | None, positions_from: int) -> None:
        super().__init__()
        self.model = model
        self.at_rows = at_rows
        self._positions_from = positions_from

    def forward(
        self, ids: torch.Tensor, lengths: Sequence[int], wanted: torch.Tensor | None = None
    ) -> torch.Tensor:
        """(total, hidden) states after the final norm, or (r, hidden) of the wanted positions.

        ids: (total,) int64, the windows one after another. lengths: positions of each window.
        wanted: (r,) int64, places in ids.
        """
        packing = Packing(lengths, ids.device)
        inputs = {
            "input_ids": ids[None],
            "position_ids": packing.position[None] + self._positions_from,
        }
        token = _packing.set(packing)
        try:
            if wanted is None or self.at_rows is None:
                states: torch.Tensor = self.model(**inputs).last_hidden_state[0]
                return states if wanted is None else states[wanted]
            with wanted_rows(Rows(wanted, packing.group)):
                states = self.at_rows(**inputs).last_hidden_state[0]
            return states
        finally:
            _packing.reset(token)


def packed_encoder(model: Any, config: Any, positions_from: int) -> PackedEncoder | None:
    """The model packed, or None where it cannot be: decoders, and attention of their own kind.

    positions_from: the number of a window's first position.
    Replaces the model's attention where it can. Whether it can is checked with a small batch:
    windows run together must give the states that they give alone.
    """
    if not getattr(model, "_supports_attention_backend", False) or any(
        getattr(module, "is_causal", False) for module in model.modules()
    ):
        return None
    lengths = _probe_lengths(config)
    ids = probe_ids(model, int(config.vocab_size), sum(lengths))
    wanted = torch.arange(0, len(ids), 3, device=ids.device)
    before = config._attn_implementation
    with torch.inference_mode():
        expected = torch.cat(
            [_alone(model, one, positions_from) for one in torch.split(ids, lengths)]
        )
        try:
            _replace_attention(model)
            at_rows = with_last_layer_at_rows(model, config)
            packed = PackedEncoder(model, at_rows, positions_from).eval()
            if agree(packed(ids, lengths), expected):
                if not agree(packed(ids, lengths, wanted), expected[wanted]):
                    packed.at_rows = None
                return packed
        except (ImportError, TypeError, ValueError, RuntimeError, IndexError) as error:
            logger.debug("packed windows failed: %s", error)
    model.set_attn_implementation(before)
    logger.info("%s: its windows cannot be packed and are padded", config.model_type)
    return None


def _probe_lengths(config: Any) -> list[int]:
    """Two windows of one length, and one that is longer than what a layer sees at once."""
    longest = 3 * (getattr(config, "sliding_window", None) or 6) + 5
    return [7, 7, min(longest, int(getattr(config, "max_position_embeddings", 64)) - 2)]


def _alone(model: Any, ids: torch.Tensor, positions_from: int) -> torch.Tensor:
    steps = torch.arange(len(ids), device=ids.device)[None]
    states: torch.Tensor = model(
        input_ids=ids[None], position_ids=steps + positions_from
    ).last_hidden_state[0]
    return states


def _replace_attention(model: Any) -> None:
    from transformers import AttentionInterface

    # No mask is registered under this name, so transformers makes none.
    AttentionInterface.register(_ATTENTION, _attention)
    model.set_attn_implementation(_ATTENTION)


def _attention(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    sliding_window: int | None = None,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """Attention of a packed batch, by the interface of transformers.

    query: (1, heads, total, d). key, value: (1, key heads, total, d). Returns (1, total, heads, d).
    sliding_window: positions seen to one side, the own one counted.
    """
    if torch.compiler.is_dynamo_compiling():
        return _OPERATOR(query, key, value, scaling, sliding_window), None
    return _attend(query, key, value, scaling, sliding_window), None


def _attend(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    scaling: float | None,
    sliding_window: int | None,
) -> torch.Tensor:
    packing = _packing.get()
    shared = query.shape[1] // key.shape[1]
    # (total, heads, d)
    query, key, value = (x[0].transpose(0, 1) for x in (query, key, value))
    if shared > 1:
        key, value = (x.repeat_interleave(shared, dim=1) for x in (key, value))
    if sliding_window is not None and sliding_window < max(packing.lengths):
        mask = packing.local_mask(sliding_window - 1, query.dtype)
        return local_attention(query, key, value, mask, scaling)[None]
    runs = packing.runs()
    sizes = [windows * length for windows, length in runs]
    parts = [torch.split(x, sizes) for x in (query, key, value)]
    found = [
        _run(windows, q, k, v, scaling) for (windows, _), q, k, v in zip(runs, *parts, strict=True)
    ]
    return (found[0] if len(found) == 1 else torch.cat(found))[None]


def _run(
    n_windows: int,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    scale: float | None,
) -> torch.Tensor:
    """Full attention inside each of some windows of one length, (total, heads, d)."""
    query, key, value = (
        x.reshape(n_windows, -1, *x.shape[1:]).transpose(1, 2) for x in (query, key, value)
    )
    found = scaled_dot_product_attention(query, key, value, scale=scale)
    return found.transpose(1, 2).flatten(0, 1)


def _attend_anew(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    scaling: float | None,
    sliding_window: int | None,
) -> torch.Tensor:
    """What an operator must give: a tensor of its own, in the order that is foretold."""
    return _attend(query, key, value, scaling, sliding_window).contiguous()


def _foretold(query: torch.Tensor, *_: Any) -> torch.Tensor:
    one, heads, total, width = query.shape
    return query.new_empty((one, total, heads, width))


_OPERATOR = torch.library.custom_op(
    "lmk::packed_attention",
    _attend_anew,
    mutates_args=(),
    schema="(Tensor query, Tensor key, Tensor value, float? scaling, int? window) -> Tensor",
)
_OPERATOR.register_fake(_foretold)
