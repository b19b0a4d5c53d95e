"""Rounding to 8 bits: what is rounded, how, and what is left alone."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cosine_similarity
from transformers import BertConfig, BertModel

from lmk_integrations.encoder.backends.graph_int8 import QuantizedLinear, _rounded, _Seen, quantize
from lmk_integrations.errors import ModelError


def bert(layers=3):
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=100,
        hidden_size=32,
        num_hidden_layers=layers,
        num_attention_heads=2,
        intermediate_size=64,
    )
    model = BertModel(config, add_pooling_layer=False).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.normal_(0.0, 0.3)
    return model


def seen(rows):
    return _Seen(rows.amin(0), rows.amax(0), rows=[rows])


def windows(count=8):
    generator = np.random.default_rng(0)
    return [generator.integers(0, 100, 40) for _ in range(count)]


def test_a_layer_by_hand():
    """Inputs in 255 steps over their range, each weight in 127 steps of its row's largest."""
    layer = nn.Linear(2, 2)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[1.27, -0.634], [0.002, 0.0254]]))
        layer.bias.copy_(torch.tensor([0.5, 0.0]))
    rounded = QuantizedLinear(layer, torch.ones(2), low=-0.55, high=2.0)
    # The step of inputs is 0.01; those of the rows are 0.01 and 0.0002.
    found = rounded(torch.tensor([[1.004, -0.5], [5.0, -9.0]]))
    expected = [
        [1.0 * 1.27 - 0.5 * -0.63 + 0.5, 1.0 * 0.002 - 0.5 * 0.0254],
        [2.0 * 1.27 - 0.55 * -0.63 + 0.5, 2.0 * 0.002 - 0.55 * 0.0254],
    ]
    torch.testing.assert_close(found, torch.tensor(expected), atol=1e-4, rtol=0)


def test_smoothing_changes_nothing_but_the_rounding():
    """What a channel is divided by, its weights are multiplied with."""
    torch.manual_seed(0)
    layer, states = nn.Linear(8, 4), torch.randn(50, 8)
    smooth = torch.rand(8) + 0.5
    low, high = float((states / smooth).min()), float((states / smooth).max())
    rounded = QuantizedLinear(layer, smooth, low, high)
    assert cosine_similarity(rounded(states), layer(states)).min() > 0.999


def test_the_last_layer_and_the_rest_stay():
    """Only linear layers of inner layers are replaced, and the states stay near."""
    model, exact = bert(), bert()
    replaced = quantize(model, windows())
    assert replaced
    assert all(name.startswith(("encoder.layer.0.", "encoder.layer.1.")) for name in replaced)
    for name in replaced:
        assert isinstance(model.get_submodule(name), QuantizedLinear)
    ids = torch.from_numpy(windows(9)[8])[None]
    found, expected = model(ids).last_hidden_state, exact(ids).last_hidden_state
    assert 0.99 < cosine_similarity(found, expected, dim=-1).min() < 0.999999


def test_query_key_and_value_share_one_rounding_of_their_input():
    """So that an engine rounds it once."""
    model = bert()
    replaced = quantize(model, windows())
    own = model.encoder.layer[0].attention.self
    names = [f"encoder.layer.0.attention.self.{part}" for part in ("query", "key", "value")]
    assert set(names) <= set(replaced)
    torch.testing.assert_close(own.query.shrink, own.key.shrink)
    torch.testing.assert_close(own.query.shrink, own.value.shrink)
    assert own.query._scale == own.key._scale == own.value._scale


def test_a_layer_that_cannot_bear_it_is_left_alone():
    """Where the states of a single position are a thousand times larger than all others in every
    channel, the common step is too wide for the others, and no smoothing of channels helps."""
    torch.manual_seed(0)
    layer, rows = nn.Linear(16, 8).requires_grad_(False), torch.randn(64, 16)
    assert list(_rounded({"even": layer}, seen(rows))) == ["even"]
    rows[5] = torch.randn(16).sign() * 1000
    assert _rounded({"uneven": layer}, seen(rows)) == {}


def test_a_model_of_one_layer_has_nothing_to_round():
    """Its layer is the last one, which stays: an error instead of an empty promise."""
    with pytest.raises(ModelError, match="use another dtype"):
        quantize(bert(layers=1), windows())
