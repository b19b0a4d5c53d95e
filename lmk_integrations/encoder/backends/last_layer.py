"""The last layer computed only where its states are wanted.

A landmark stands every few dozen tokens, and only its states leave the model: the last layer
needs keys and values of all positions, but queries, output projection and feed-forward only of
the wanted ones. The numbers are those of the plain model, to float rounding.
"""

from __future__ import annotations

import copy
import logging
from contextvars import ContextVar
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn.functional import cosine_similarity, scaled_dot_product_attention

from lmk_integrations.encoder.backends.layer_parts import LayerParts, layer_parts

logger = logging.getLogger(__name__)

# Where encoders keep their list of layers.
_LAYERS = ("encoder.layer", "transformer.layer", "layers")


class Rows(NamedTuple):
    """The wanted positions: the r-th row is ``position[r]`` of the window ``batch[r]``."""

    batch: torch.Tensor
    position: torch.Tensor
    attention_mask: torch.Tensor


# From the model's door to its last layer. Not a keyword: some models (mpnet) do not hand these on.
_wanted: ContextVar[Rows] = ContextVar("wanted rows")


class LastLayerAtRows(nn.Module):
    """A transformers encoder whose last layer computes only the wanted positions.

    Shares every weight with the model it was made of. Built by `last_layer_at_rows`.
    """

    def __init__(self, model: nn.Module, path: str, parts: LayerParts) -> None:
        super().__init__()
        layers = model.get_submodule(path)
        assert isinstance(layers, nn.ModuleList)
        last = LayerAtRows(layers[-1], parts)
        self.model = _replaced(model, path, nn.ModuleList([*layers[:-1], last]))

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
        arguments: dict[str, Any] = {"input_ids": input_ids, "attention_mask": attention_mask}
        if position_ids is not None:
            arguments["position_ids"] = position_ids
        token = _wanted.set(Rows(batch, position, attention_mask))
        try:
            states: torch.Tensor = self.model(**arguments).last_hidden_state
        finally:
            _wanted.reset(token)
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

        attention_mask is the model's, in one of many forms; the padding comes with the wanted rows.
        """
        parts, (batch, position, mask) = self._parts, _wanted.get()
        n_windows, length = mask.shape
        normed = parts.norm(hidden_states)
        queries = _heads(parts.query(normed[batch, position]), parts.head_dim)
        keys, values = (_heads(x, parts.head_dim) for x in parts.key_value(normed))
        if position_embeddings is not None:
            cos, sin = (x.expand(n_windows, -1, -1)[:, :, None] for x in position_embeddings)
            queries = _rotated(queries, cos[batch, position], sin[batch, position])
            keys = _rotated(keys, cos, sin)
        steps = torch.arange(length, device=mask.device)
        seen = mask.bool()[batch]
        if parts.window is not None:
            seen = seen & ((position[:, None] - steps[None, :]).abs() <= parts.window)
        bias = None if position_bias is None else position_bias[batch, :, position]
        context = _attend(queries, keys, values, batch, seen, bias)
        states = parts.finish(context[None], hidden_states[batch, position][None])
        return (states,) if parts.gives_tuple else states


def last_layer_at_rows(model: nn.Module, config: Any) -> nn.Module | None:
    """The model with its last layer at rows, or None where its architecture does not fit.

    Whether it fits is seen from the layer's structure, and checked with a small batch: the rows
    must be those of the plain model.
    """
    for path in _LAYERS:
        try:
            layers = model.get_submodule(path)
        except AttributeError:
            continue
        parts = layer_parts(layers[-1], config)  # type: ignore[index]
        if parts is None:
            break
        candidate = LastLayerAtRows(model, path, parts).eval()
        if _agree(model, candidate, config, parts.window or 0):
            return candidate
        logger.warning("%s: its last layer cannot be computed at rows", config.model_type)
        return None
    logger.info("%s: its last layer is computed at all positions", config.model_type)
    return None


@torch.inference_mode()
def _agree(model: nn.Module, candidate: nn.Module, config: Any, window: int) -> bool:
    """Whether both give the same rows of two windows, one of them padded."""
    weight = next(model.parameters())
    length = min(window + 12, int(getattr(config, "max_position_embeddings", 64)) - 2)
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(0, int(config.vocab_size), (2, length), generator=generator)
    mask = torch.ones_like(ids)
    mask[1, length - 3 :] = 0
    batch, position = torch.tensor([[0, 0, 0, 1, 1], [0, 3, length - 1, 0, length - 4]])
    ids, mask, batch, position = (x.to(weight.device) for x in (ids, mask, batch, position))
    expected = model(input_ids=ids, attention_mask=mask).last_hidden_state[batch, position]
    try:
        found = candidate(ids, mask, batch, position)
    except (TypeError, RuntimeError, IndexError) as error:
        logger.debug("the last layer at rows failed: %s", error)
        return False
    if found.shape != expected.shape:
        return False
    least = 0.99999 if weight.dtype == torch.float32 else 0.999
    return bool((cosine_similarity(found.float(), expected.float(), dim=-1) > least).all())


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
    return states.unflatten(-1, (-1, head_dim))


def _rotated(states: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotary position embeddings; halves of a head's dimensions are the pairs rotated."""
    first, second = states.float().chunk(2, dim=-1)
    turned = torch.cat((-second, first), dim=-1)
    return (states.float() * cos + turned * sin).to(states.dtype)


def _attend(
    queries: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    batch: torch.Tensor,
    seen: torch.Tensor,
    bias: torch.Tensor | None,
) -> torch.Tensor:
    """Each row's attention over its own window, (r, heads * head_dim).

    queries: (r, heads, d). keys, values: (b, n, key heads, d). seen: (r, n). bias: (r, heads, n).

    The windows' keys stand one after another, and a row sees only its own: with a few rows per
    window that costs little, and nothing depends on how many rows a window has.
    """
    n_windows, _, n_key_heads, _ = keys.shape
    own = batch[:, None] == torch.arange(n_windows, device=batch.device)[None, :]
    allowed = (own[:, :, None] & seen[:, None, :]).flatten(1)[None, None]  # (1, 1, r, b * n)
    mask = allowed
    if bias is not None:
        tiled = bias.transpose(0, 1).repeat(1, 1, n_windows)[None]
        mask = tiled.masked_fill(~allowed, torch.finfo(tiled.dtype).min)
    shared = queries.shape[1] // n_key_heads
    keys, values = (
        x.flatten(0, 1).transpose(0, 1).repeat_interleave(shared, dim=0)[None]
        for x in (keys, values)
    )
    found = scaled_dot_product_attention(
        queries.transpose(0, 1)[None], keys, values, attn_mask=mask
    )
    return found[0].transpose(0, 1).flatten(1)
