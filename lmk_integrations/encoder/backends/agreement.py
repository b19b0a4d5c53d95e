"""A fast path is taken only where it was seen to give what the plain model gives."""

from __future__ import annotations

import torch
from torch.nn.functional import cosine_similarity


def probe_ids(model: torch.nn.Module, vocab_size: int, *shape: int) -> torch.Tensor:
    """Token ids for a trial, always the same, on the model's device."""
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(0, vocab_size, shape, generator=generator)
    return ids.to(next(model.parameters()).device)


def agree(found: torch.Tensor, expected: torch.Tensor) -> bool:
    """Whether the rows of two (n, hidden) tensors are the same but for rounding."""
    if found.shape != expected.shape:
        return False
    least = 0.99999 if expected.dtype == torch.float32 else 0.99
    return bool((cosine_similarity(found.float(), expected.float(), dim=-1) > least).all())
