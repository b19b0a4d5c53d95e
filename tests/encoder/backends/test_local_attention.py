"""Attention in blocks equals dense attention under a mask."""

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from lmk_integrations.encoder.backends.local_attention import (
    block_size,
    local_attention,
    local_mask,
)


def dense(query, key, value, group, window):
    steps = torch.arange(len(group))
    seen = (group[:, None] == group[None, :]) & ((steps[:, None] - steps[None]).abs() <= window)
    query, key, value = (x.transpose(0, 1)[None] for x in (query, key, value))
    return scaled_dot_product_attention(query, key, value, attn_mask=seen)[0].transpose(0, 1)


@pytest.mark.parametrize("window", [1, 8, 64])
@pytest.mark.parametrize("lengths", [[1], [31], [32], [33], [300], [200, 5, 128, 1, 40]])
def test_blocks_equal_a_dense_mask(lengths, window):
    """For lengths around a block's, and several windows one after another."""
    torch.manual_seed(0)
    n = sum(lengths)
    query, key, value = torch.randn(3, n, 4, 8)
    group = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))
    mask = local_mask(group, window, torch.float32)
    found = local_attention(query, key, value, mask)
    torch.testing.assert_close(found, dense(query, key, value, group, window), atol=1e-5, rtol=0)


def test_the_cost_grows_with_the_length():
    """The mask, and with it the scores, hold two blocks of keys per query in a text of any size."""
    mask = local_mask(torch.zeros(8192, dtype=torch.long), 64, torch.float32)
    assert mask.numel() == 8192 * 2 * block_size(64)


def test_the_edge_of_the_window_is_seen():
    """A key ``window`` positions away counts, one further does not."""
    value = torch.zeros(100, 1, 4)
    value[50] = 1.0
    equal = torch.zeros(100, 1, 4)
    mask = local_mask(torch.zeros(100, dtype=torch.long), 8, torch.float32)
    found = local_attention(equal, equal, value, mask)[:, 0, 0]
    assert (found > 0).nonzero().flatten().tolist() == list(range(42, 59))
