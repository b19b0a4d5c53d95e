"""The last layer at the wanted rows gives the plain model's states, for every shape of layer."""

import pytest
import torch
from encoders import ENCODERS, OTHERS, random_ids, tiny_encoder

from lmk_integrations.encoder.backends.last_layer import last_layer_at_rows

ATOL = 2e-5

# Windows of 70, 50 and 20 positions, padded to 70: the rows of each differ in number, one of them
# stands last in its window, and they come in no order.
MASK = torch.arange(70)[None] < torch.tensor([70, 50, 20])[:, None]
BATCH = torch.tensor([2, 0, 0, 0, 1, 2])
POSITION = torch.tensor([19, 0, 33, 69, 49, 4])


def plain_rows(model, ids, mask=MASK):
    states = model(input_ids=ids, attention_mask=mask.long()).last_hidden_state
    return states[BATCH, POSITION]


@torch.inference_mode()
@pytest.mark.parametrize("name", ENCODERS)
def test_rows_are_those_of_the_plain_model(name):
    """float32 states equal transformers' own; the comparison would see another position's."""
    model, ids = tiny_encoder(name), random_ids(3, 70)
    at_rows = last_layer_at_rows(model, model.config)
    assert at_rows is not None
    expected = plain_rows(model, ids)
    found = at_rows(ids, MASK.long(), BATCH, POSITION)
    torch.testing.assert_close(found, expected, atol=ATOL, rtol=0)
    assert (expected - expected.roll(1, 0)).abs().amax(1).min() > 100 * ATOL


@torch.inference_mode()
@pytest.mark.parametrize("name", ENCODERS)
def test_rows_in_bfloat16(name):
    """As exact as bfloat16 is."""
    model, ids = tiny_encoder(name, torch.bfloat16), random_ids(3, 70)
    at_rows = last_layer_at_rows(model, model.config)
    assert at_rows is not None
    expected, found = (
        states.float()
        for states in (plain_rows(model, ids), at_rows(ids, MASK.long(), BATCH, POSITION))
    )
    assert torch.cosine_similarity(found, expected).min() > 0.9995


@torch.inference_mode()
def test_the_position_numbers_given_are_used():
    """roberta numbers positions from its pad id + 1, and by ids: callers say the numbers."""
    model, ids = tiny_encoder("roberta"), random_ids(2, 12)
    ids[0, 5] = model.config.pad_token_id  # a landmark may have the pad's id
    numbers = torch.arange(2, 14)[None].expand(2, -1)
    batch, position = torch.tensor([0, 1]), torch.tensor([8, 8])
    mask = torch.ones_like(ids)
    at_rows = last_layer_at_rows(model, model.config)
    expected = model(input_ids=ids, attention_mask=mask, position_ids=numbers).last_hidden_state
    found = at_rows(ids, mask, batch, position, numbers)
    torch.testing.assert_close(found, expected[batch, position], atol=ATOL, rtol=0)
    without = at_rows(ids, mask, batch, position)
    assert (without[0] - found[0]).abs().max() > 100 * ATOL


@pytest.mark.parametrize("name", OTHERS)
def test_another_architecture_is_left_alone(name):
    """None, so that the plain model runs: no states are guessed."""
    model = tiny_encoder(name)
    assert last_layer_at_rows(model, model.config) is None


@torch.inference_mode()
def test_a_layer_that_only_looks_alike_is_found_out(caplog):
    """A layer with known parts in another order is refused by the trial, and the log says so."""
    model = tiny_encoder("bert")
    model.encoder.layer[-1].register_forward_hook(lambda layer, args, states: states + 1)
    caplog.set_level("INFO", logger="lmk_integrations")
    assert last_layer_at_rows(model, model.config) is None
    assert "bert: its last layer is computed at all positions" in caplog.text


@torch.inference_mode()
def test_the_model_itself_stays_as_it_was():
    """The weights are shared, not copied, and the plain model runs as before, with its pooler."""
    model, ids = tiny_encoder("bert"), random_ids(1, 9)
    before = model(input_ids=ids)
    at_rows = last_layer_at_rows(model, model.config)
    after = model(input_ids=ids)
    torch.testing.assert_close(before.last_hidden_state, after.last_hidden_state, atol=0, rtol=0)
    assert after.pooler_output is not None
    own = {parameter.data_ptr() for parameter in model.parameters()}
    assert {parameter.data_ptr() for parameter in at_rows.parameters()} < own


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("name", ["bert", "mpnet", "modernbert-ends-local"])
def test_it_is_traced_with_all_sizes_free(name):
    """Windows, positions and rows of a traced graph may be of any number."""
    model = tiny_encoder(name)
    at_rows = last_layer_at_rows(model, model.config)
    ids, mask = random_ids(2, 20), torch.ones(2, 20, dtype=torch.long)
    mask[1, 15:] = 0
    with torch.inference_mode():
        traced = torch.jit.trace(
            at_rows, (ids, mask, torch.tensor([0, 1]), torch.tensor([3, 4])), check_trace=False
        )
        ids = random_ids(3, 70)
        found = traced(ids, MASK.long(), BATCH, POSITION)
        torch.testing.assert_close(found, plain_rows(model, ids), atol=ATOL, rtol=0)
