"""Sliding-window attention in blocks: its cost grows with the length, not with its square."""

from __future__ import annotations

import torch
from torch.nn.functional import pad, scaled_dot_product_attention


def block_size(window: int) -> int:
    """Queries per block: twice the window, so that half of a block's keys are its own."""
    return max(2 * window, 32)


def local_mask(group: torch.Tensor, window: int, dtype: torch.dtype) -> torch.Tensor:
    """What each block's queries see of the keys around it, (blocks, 1, block, block + 2 window).

    group: (n,), positions of one number see each other, ``window`` to either side and no further.
    The mask is added to the scores: 0 where a query sees a key, else minus infinity. A query sees
    itself in any case, also in the last block behind the end, so that no row is empty.
    """
    block, n = block_size(window), len(group)
    n_blocks = -(-n // block)
    query = torch.arange(block, device=group.device)
    key = torch.arange(-window, block + window, device=group.device)
    starts = torch.arange(n_blocks, device=group.device)[:, None] * block
    # Behind either end stands the group -1; in front of it so does nothing that asks.
    around = pad(group, (window, n_blocks * block - n + window), value=-1)
    same = around[starts + window + query][:, :, None] == around[starts + window + key][:, None, :]
    seen = same & ((query[:, None] - key[None, :]).abs() <= window)
    mask = torch.zeros(seen.shape, dtype=dtype, device=group.device)
    return mask.masked_fill_(~seen, -torch.inf)[:, None]


def local_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor,
    scale: float | None = None,
) -> torch.Tensor:
    """Attention within a window to either side, (n, heads, d).

    query, key, value: (n, heads, d). mask: of `local_mask`.
    """
    n = len(query)
    n_blocks, _, block, span = mask.shape
    window, behind = (span - block) // 2, n_blocks * block - n
    queries = pad(query, (0, 0, 0, 0, 0, behind))
    queries = queries.view(n_blocks, block, *query.shape[1:]).transpose(1, 2)
    # (blocks, heads, span, d): each block's keys with their neighbours, views of one tensor.
    keys, values = (
        pad(x, (0, 0, 0, 0, window, window + behind)).unfold(0, span, block).transpose(2, 3)
        for x in (key, value)
    )
    found = scaled_dot_product_attention(queries, keys, values, attn_mask=mask, scale=scale)
    return found.transpose(1, 2).flatten(0, 1)[:n]
