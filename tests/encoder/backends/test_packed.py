"""Windows packed into one sequence, or padded, give the states that each gives alone."""

import pytest
import torch
from encoders import ENCODERS, OTHERS, random_ids, tiny_encoder

from lmk_integrations.encoder.backends.packed import PackedEncoder, packed_encoder
from lmk_integrations.encoder.backends.padded import PaddedEncoder
from lmk_integrations.encoder.backends.torch import offset_positions

ATOL = 2e-5
LENGTHS = [70, 33, 33, 20, 1]
WANTED = torch.tensor([156, 0, 33, 69, 70, 102, 110])
PADDED = ("mpnet", "deberta-v2", "llama", "qwen3")


def open_encoder(model):
    first = offset_positions(model.config)
    return packed_encoder(model, model.config, first or 0) or PaddedEncoder(
        model, model.config, 0, first
    )


def states_alone(model, ids, lengths=LENGTHS):
    first = offset_positions(model.config)
    states = []
    for one in ids.split(lengths):
        own = {} if first is None else {"position_ids": torch.arange(len(one))[None] + first}
        states.append(model(input_ids=one[None], **own).last_hidden_state[0])
    return torch.cat(states)


@torch.inference_mode()
@pytest.mark.parametrize("name", [*ENCODERS, *OTHERS])
def test_windows_together_are_as_each_alone(name):
    """All states, and the wanted ones alone, whatever the lengths of the windows."""
    model, ids = tiny_encoder(name), random_ids(sum(LENGTHS))
    expected = states_alone(model, ids)
    encoder = open_encoder(model)
    assert isinstance(encoder, PaddedEncoder if name in PADDED else PackedEncoder)
    assert (encoder.at_rows is not None) == (name in ENCODERS)
    torch.testing.assert_close(encoder(ids, LENGTHS), expected, atol=ATOL, rtol=0)
    torch.testing.assert_close(encoder(ids, LENGTHS, WANTED), expected[WANTED], atol=ATOL, rtol=0)


@torch.inference_mode()
@pytest.mark.parametrize("name", [*ENCODERS, *OTHERS])
def test_bfloat16(name):
    """As exact as bfloat16 is."""
    model, ids = tiny_encoder(name, torch.bfloat16), random_ids(sum(LENGTHS))
    expected = states_alone(model, ids).float()
    encoder = open_encoder(model)
    for found, wanted in (
        (encoder(ids, LENGTHS), slice(None)),
        (encoder(ids, LENGTHS, WANTED), WANTED),
    ):
        assert torch.cosine_similarity(found.float(), expected[wanted]).min() > 0.999


@torch.inference_mode()
@pytest.mark.parametrize("wanted", [None, WANTED], ids=["all", "rows"])
@pytest.mark.parametrize("name", [name for name in ENCODERS if name not in PADDED])
def test_all_that_a_batch_makes_is_on_the_models_device(name, wanted):
    """On one without data, as a GPU is not everywhere: PyTorch refuses to mix them likewise."""
    encoder = open_encoder(tiny_encoder(name)).to("meta")
    rows = None if wanted is None else wanted.to("meta")
    states = encoder(random_ids(sum(LENGTHS)).to("meta"), LENGTHS, rows)
    assert states.is_meta
    assert states.shape == (sum(LENGTHS) if wanted is None else len(wanted), 32)


@torch.inference_mode()
def test_positions_that_packing_gets_wrong_are_found_out():
    """A model that does not fit is seen by the trial, and keeps the attention it had."""
    model, ids = tiny_encoder("bert"), random_ids(sum(LENGTHS))
    expected = states_alone(model, ids)
    # A model that tells windows apart by the batch they stand in cannot be packed.
    hook = model.embeddings.register_forward_hook(
        lambda module, args, states: states + states.mean(1, keepdim=True)
    )
    assert packed_encoder(model, model.config, 0) is None
    assert model.config._attn_implementation == "sdpa"
    hook.remove()
    torch.testing.assert_close(states_alone(model, ids), expected, atol=0, rtol=0)
