"""The small encoder of the study: ModernBERT's architecture with a teacher's words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from lmk_integrations.encoder.backends.torch import load_transformer, quiet
from lmk_integrations.encoder.model import OpenModel
from lmk_integrations.training.save import save_landmark_model

_HEAD = 64
_MOST_POSITIONS = 1 << 18  # rotary positions: no table, so no weights that grow with it


def small_encoder(teacher: OpenModel, layers: int, seed: int) -> Any:
    """A `ModernBertModel` of random weights, but the teacher's word embeddings.

    Attention is global in every third layer, else over 128 tokens, as in ModernBERT; positions are
    rotary, so that lengths never trained on can be read.
    """
    from transformers import ModernBertConfig, ModernBertModel

    model, _ = load_transformer(teacher.transformer, torch.float32)
    words: torch.Tensor = model.get_input_embeddings().weight.detach()
    width = int(words.shape[1])
    tokenizer = teacher.tokenizer
    config = ModernBertConfig(
        vocab_size=int(words.shape[0]),
        hidden_size=width,
        intermediate_size=2 * width,
        num_hidden_layers=layers,
        num_attention_heads=max(1, width // _HEAD),
        max_position_embeddings=_MOST_POSITIONS,
        pad_token_id=tokenizer.pad_id,
        cls_token_id=tokenizer.prefix[0],
        sep_token_id=tokenizer.suffix[-1],
        bos_token_id=tokenizer.prefix[0],
        eos_token_id=tokenizer.suffix[-1],
    )
    torch.manual_seed(seed)
    with quiet():
        small: Any = ModernBertModel(config)
    with torch.no_grad():
        small.get_input_embeddings().weight.copy_(words)
    return small


def save_small(model: Any, teacher: OpenModel, out: Path, max_tokens: int) -> None:
    """Write it as a directory that `LMKEncoder` opens; the pooling is chosen at opening."""
    save_landmark_model(
        model,
        teacher.directory,
        out,
        pooling="mean",
        granularity=32,
        max_tokens=max_tokens,
        query_prompt="",
        document_prompt="",
    )
