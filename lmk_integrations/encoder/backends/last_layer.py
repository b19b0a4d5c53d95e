"""The last layer computed only where its states are wanted.

A landmark stands every few dozen tokens, and only its states leave the model: the last layer
needs keys and values of all positions, but queries, output projection and feed-forward only of
the wanted ones. The numbers are those of the plain model, to float rounding.
"""

from __future__ import annotations

import contextlib
import copy
import logging
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from lmk_integrations.encoder.backends.agreement import agree, probe_ids
from lmk_integrations.encoder.backends.layer_parts import LayerParts, layer_parts

logger = logging.getLogger(__name__)

# Where encoders keep their list of layers.
_LAYERS = ("encoder.layer", "transformer.layer", "layers")


class Rows(NamedTuple):
    """The wanted positions of a (b, n) batch, all its positions counted as one sequence.

    at: (r,) int64. group: (b * n,) int64, the window that each position belongs to, -1 for
    padding: positions of one group see each other.
    """

    at: torch.Tensor
    group: torch.Tensor


class _Wanted(threading.local):
    rows: Rows | None = None


# From the model's door to its last layer. Not a keyword: some models (mpnet) do not hand these on.
# Not a context variable: torch.compile follows what is local to a thread, but not these.
_wanted = _Wanted()


@contextlib.contextmanager
def wanted_rows(rows: Rows) -> Iterator[None]:
    """What `LayerAtRows` computes inside the with block."""
    _wanted.rows = rows
    try:
        yield
    finally:
        _wanted.rows = None  # torch.compile cannot follow a del


class LastLayerAtRows(nn.Module):
    """A transformers encoder whose last layer computes only the wanted positions.

    Shares every weight with the model it was made of. Built by `last_layer_at_rows`. It can be
    traced and exported with all sizes dynamic.
    """

    def __init__(self, at_rows: nn.Module) -> None:
        super().__init__()
        self.model = at_rows

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        batch: torch.Tensor,
        position: torch.Tensor,
        position_ids: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """States after the final norm, (r, hidden): ``last_hidden_state[batch, position]``.

        input_ids, attention_mask, position_ids: (b, n) int64. batch, position: (r,) int64.
        """
        n_windows, length = input_ids.shape
        arguments = {"input_ids": input_ids, "attention_mask": attention_mask}
        if position_ids is not None:
            arguments["position_ids"] = position_ids
        windows = torch.arange(n_windows, device=input_ids.device)[:, None]
        group = torch.where(attention_mask.bool(), windows, -1).flatten()
        with wanted_rows(Rows(batch * length + position, group)):
            states: torch.Tensor = self.model(**arguments).last_hidden_state
        return states[0]


class LayerAtRows(nn.Module):
    """Stands in for an encoder's last layer: all positions in, the wanted ones out."""

    def __init__(self, layer: nn.Module, parts: LayerParts) -> None:
        super().__init__()
        self.layer = layer
        self._parts = parts

    def __getattr__(self, name: str) -> Any:
        """Some models ask their layers of what kind they are."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("layer"), name)

    def forward(
        self,
        hidden_states: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        position_bias: torch.Tensor | None = None,
        *_: Any,
        position_embeddings: tuple[torch.Tensor, torch.Tensor] | None = None,
        **__: Any,
    ) -> Any:
        """(b, n, hidden) -> (1, r, hidden), in a tuple where the layer itself gives one.

        attention_mask comes in a form of the model's own; what sees what is in the wanted rows.
        """
        parts, rows = self._parts, _wanted.rows
        assert rows is not None
        n_windows, length, _hidden = hidden_states.shape
        normed = parts.norm(hidden_states).flatten(0, 1)
        entered = hidden_states.flatten(0, 1)[rows.at]
        queries = _heads(parts.query(normed[rows.at]), parts.head_dim)
        keys, values = (_heads(x, parts.head_dim) for x in parts.key_value(normed))
        if position_embeddings is not None:
            cos, sin = (
                x.expand(n_windows, -1, -1).flatten(0, 1)[:, None] for x in position_embeddings
            )
            queries = _rotated(queries, cos[rows.at], sin[rows.at])
            keys = _rotated(keys, cos, sin)
        bias = None
        if position_bias is not None:  # alike in all windows
            bias = position_bias[0][:, rows.at % length].repeat(1, 1, n_windows)
        seen = _seen(rows, parts.window)
        states = parts.finish(_attend(queries, keys, values, seen, bias)[None], entered[None])
        return (states,) if parts.gives_tuple else states


def with_last_layer_at_rows(model: nn.Module, config: Any) -> nn.Module | None:
    """A copy of the model, sharing its weights, that gives (1, r, hidden) of the `wanted_rows`.

    None where the last layer's structure is not known; that it is known is no proof that it fits.
    """
    for path in _LAYERS:
        try:
            layers = model.get_submodule(path)
        except AttributeError:
            continue
        assert isinstance(layers, nn.ModuleList)
        parts = layer_parts(layers[-1], config)
        if parts is not None:
            last = LayerAtRows(layers[-1], parts)
            return _replaced(model, path, nn.ModuleList([*layers[:-1], last])).eval()
    return None


def last_layer_at_rows(model: nn.Module, config: Any) -> LastLayerAtRows | None:
    """The model with its last layer at rows, or None where its architecture does not fit.

    Checked with a small batch, one window of it padded: its rows must be the plain model's.
    """
    at_rows = with_last_layer_at_rows(model, config)
    if at_rows is None:
        return None
    candidate = LastLayerAtRows(at_rows).eval()
    window = getattr(config, "sliding_window", None) or 0
    length = min(window + 12, int(getattr(config, "max_position_embeddings", 64)) - 2)
    ids = probe_ids(model, int(config.vocab_size), 2, length)
    mask = torch.ones_like(ids)
    mask[1, length - 3 :] = 0
    batch, position = torch.tensor(
        [[0, 0, 0, 1, 1], [0, 3, length - 1, 0, length - 4]], device=ids.device
    )
    with torch.inference_mode():
        expected = model(input_ids=ids, attention_mask=mask).last_hidden_state[batch, position]
        try:
            if agree(candidate(ids, mask, batch, position), expected):
                return candidate
        except (TypeError, RuntimeError, IndexError) as error:
            logger.debug("the last layer at rows failed: %s", error)
    logger.info("%s: its last layer is computed at all positions", config.model_type)
    return None


def _replaced(module: nn.Module, path: str, new: nn.Module) -> nn.Module:
    """A copy that shares all submodules but the one at a path, and has no pooler."""
    name, _, rest = path.partition(".")
    fresh = copy.copy(module)
    fresh._modules = dict(module._modules)
    fresh._modules[name] = _replaced(module.get_submodule(name), rest, new) if rest else new
    if fresh._modules.get("pooler") is not None:  # nobody asks for its output
        fresh._modules["pooler"] = None
    return fresh


def _heads(states: torch.Tensor, head_dim: int) -> torch.Tensor:
    return states.view(*states.shape[:-1], -1, head_dim)


def _rotated(states: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotary position embeddings; a dimension's partner stands half a head further."""
    first, second = states.float().chunk(2, dim=-1)
    turned = torch.cat((-second, first), dim=-1)
    return (states.float() * cos + turned * sin).to(states.dtype)


def _seen(rows: Rows, window: int | None) -> torch.Tensor:
    """(r, b * n) bool: which positions each row sees."""
    seen = rows.group[rows.at][:, None] == rows.group[None, :]
    if window is None:
        return seen
    # The length from the shape: traced, len() would be fixed for good.
    steps = torch.arange(rows.group.shape[0], device=rows.group.device)
    return seen & ((rows.at[:, None] - steps[None, :]).abs() <= window)


def _attend(
    queries: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    seen: torch.Tensor,
    bias: torch.Tensor | None,
) -> torch.Tensor:
    """What each row gathers, (r, heads * d).

    queries: (r, heads, d). keys, values: (m, key heads, d). seen: (r, m). bias: (heads, r, m).

    A row's scores with other windows are computed and masked: with a few rows per window that is
    little work, and it leaves nothing that depends on how many rows each window has.
    """
    mask = seen[None, None]
    if bias is not None:
        mask = bias[None].masked_fill(~mask, torch.finfo(bias.dtype).min)
    shared = queries.shape[1] // keys.shape[1]
    keys, values = (x.transpose(0, 1).repeat_interleave(shared, 0)[None] for x in (keys, values))
    found = scaled_dot_product_attention(
        queries.transpose(0, 1)[None], keys, values, attn_mask=mask
    )
    return found[0].transpose(0, 1).flatten(1)
