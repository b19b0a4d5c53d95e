"""The parts of an encoder layer under their many names.

transformers has dozens of encoders and few shapes of layers. A layer is known by the submodules
it has, not by its class; `last_layer_at_rows` verifies that the parts make the layer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.functional import linear

State = torch.Tensor


@dataclass(frozen=True, slots=True)
class LayerParts:
    """What a layer does to (..., hidden) states, in the order of use.

    norm: before the projections. query, key_value: the projections. finish: (what the attention
        gathered, the states that entered the layer) -> the layer's states.
    window: how far a position sees to either side; None is everywhere.
    gives_tuple: whether the layer returns its states in a tuple.
    """

    norm: Callable[[State], State]
    query: Callable[[State], State]
    key_value: Callable[[State], tuple[State, State]]
    finish: Callable[[State, State], State]
    head_dim: int
    window: int | None = None
    gives_tuple: bool = False


def layer_parts(layer: nn.Module, config: Any) -> LayerParts | None:
    """The parts of a layer; None for a layer of an unknown shape."""
    for recognise in (_bert, _distilbert, _mpnet, _modernbert, _post_norm, _pre_norm):
        try:
            parts: LayerParts | None = recognise(layer, config)
        except AttributeError:
            continue
        if parts is not None:
            return parts
    return None


def _bert(layer: Any, config: Any) -> LayerParts | None:
    """bert, roberta, xlm-roberta, camembert, electra, ernie, data2vec-text, roberta-prelayernorm"""
    own = layer.attention.self
    if getattr(own, "is_causal", False) or getattr(own, "is_decoder", False):
        return None

    def finish(context: State, entered: State) -> State:
        attended = layer.attention.output(context, entered)
        states: State = layer.output(layer.intermediate(attended), attended)
        return states

    return LayerParts(
        norm=getattr(layer.attention, "LayerNorm", _same),
        query=own.query,
        key_value=lambda states: (own.key(states), own.value(states)),
        finish=finish,
        head_dim=own.attention_head_size,
    )


def _distilbert(layer: Any, config: Any) -> LayerParts:
    own = layer.attention

    def finish(context: State, entered: State) -> State:
        attended = layer.sa_layer_norm(own.out_lin(context) + entered)
        states: State = layer.output_layer_norm(layer.ffn(attended) + attended)
        return states

    return LayerParts(
        norm=_same,
        query=own.q_lin,
        key_value=lambda states: (own.k_lin(states), own.v_lin(states)),
        finish=finish,
        head_dim=own.q_lin.out_features // own.n_heads,
    )


def _mpnet(layer: Any, config: Any) -> LayerParts:
    own = layer.attention.attn

    def finish(context: State, entered: State) -> State:
        attended = layer.attention.LayerNorm(own.o(context) + entered)
        states: State = layer.output(layer.intermediate(attended), attended)
        return states

    return LayerParts(
        norm=_same,
        query=own.q,
        key_value=lambda states: (own.k(states), own.v(states)),
        finish=finish,
        head_dim=own.attention_head_size,
        gives_tuple=True,
    )


def _modernbert(layer: Any, config: Any) -> LayerParts:
    own, fused = layer.attn, layer.attn.Wqkv
    width = fused.out_features // 3

    def part(states: State, begin: int, end: int) -> State:
        bias = None if fused.bias is None else fused.bias[begin:end]
        return linear(states, fused.weight[begin:end], bias)

    def key_value(states: State) -> tuple[State, State]:
        key, value = part(states, width, 3 * width).chunk(2, dim=-1)
        return key, value

    def finish(context: State, entered: State) -> State:
        attended = entered + own.Wo(context)
        states: State = attended + layer.mlp(layer.mlp_norm(attended))
        return states

    is_local = layer.attention_type == "sliding_attention"
    return LayerParts(
        norm=layer.attn_norm,
        query=lambda states: part(states, 0, width),
        key_value=key_value,
        finish=finish,
        head_dim=own.head_dim,
        window=int(config.sliding_window) if is_local else None,
    )


def _post_norm(layer: Any, config: Any) -> LayerParts | None:
    """nomic_bert, gte, jina_embeddings_v3"""
    own, after_attention, after_mlp = (
        layer.self_attn,
        layer.post_attention_layernorm,
        layer.post_mlp_layernorm,
    )
    if own.is_causal:
        return None

    def finish(context: State, entered: State) -> State:
        attended = after_attention(entered + own.o_proj(context))
        states: State = after_mlp(attended + layer.mlp(attended))
        return states

    return LayerParts(
        norm=_same,
        query=own.q_proj,
        key_value=lambda states: (own.k_proj(states), own.v_proj(states)),
        finish=finish,
        head_dim=own.head_dim,
    )


def _pre_norm(layer: Any, config: Any) -> LayerParts | None:
    """eurobert"""
    own = layer.self_attn
    # Decoders have the same parts, but a query there sees only what stands before it.
    if own.is_causal or hasattr(own, "q_norm"):
        return None

    def finish(context: State, entered: State) -> State:
        attended = entered + own.o_proj(context)
        states: State = attended + layer.mlp(layer.post_attention_layernorm(attended))
        return states

    return LayerParts(
        norm=layer.input_layernorm,
        query=own.q_proj,
        key_value=lambda states: (own.k_proj(states), own.v_proj(states)),
        finish=finish,
        head_dim=own.head_dim,
    )


def _same(states: State) -> State:
    return states
