"""Tiny random encoders of every shape of layer, made in the process."""

from __future__ import annotations

import torch
import transformers
from transformers import PreTrainedModel

VOCABULARY = 300

_SHAPE = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 130,
}
_DISTILBERT = {
    "vocab_size": VOCABULARY,
    "dim": 32,
    "n_layers": 2,
    "n_heads": 4,
    "hidden_dim": 48,
    "max_position_embeddings": 130,
}
# 8 positions to either side; every other layer sees everything.
_LOCAL = {"local_attention": 16, "global_attn_every_n_layers": 2, "pad_token_id": 0}
_SPECIAL = {"bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2}
_TWO_KEY_HEADS = {"num_key_value_heads": 2, "pad_token_id": 0}

# name: (class, its configuration)
ENCODERS: dict[str, tuple[str, dict[str, object]]] = {
    "bert": ("Bert", _SHAPE),
    "roberta": ("Roberta", _SHAPE),
    "xlm-roberta": ("XLMRoberta", _SHAPE),
    "roberta-prelayernorm": ("RobertaPreLayerNorm", _SHAPE),
    "electra": ("Electra", _SHAPE | {"embedding_size": 16}),
    "distilbert": ("DistilBert", _DISTILBERT),
    "mpnet": ("MPNet", _SHAPE),
    "modernbert-ends-local": ("ModernBert", _SHAPE | _LOCAL | _SPECIAL),
    "modernbert-ends-global": ("ModernBert", _SHAPE | _LOCAL | _SPECIAL | {"num_hidden_layers": 3}),
    "nomic": ("NomicBert", _SHAPE),
    "gte": ("Gte", _SHAPE),
    "jina-v3": ("JinaEmbeddingsV3", _SHAPE),
    "eurobert": ("EuroBert", _SHAPE | _TWO_KEY_HEADS | {"bos_token_id": 1, "eos_token_id": 2}),
}
# Their last layer is of another shape, or sees only what stands before.
OTHERS: dict[str, tuple[str, dict[str, object]]] = {
    "albert": ("Albert", _SHAPE | {"embedding_size": 16}),
    "deberta-v2": ("DebertaV2", _SHAPE),
    "llama": ("Llama", _SHAPE | _TWO_KEY_HEADS),
    "qwen3": ("Qwen3", _SHAPE | _TWO_KEY_HEADS | {"head_dim": 8}),
}


def tiny_encoder(name: str, dtype: torch.dtype = torch.float32) -> PreTrainedModel:
    """A model with random weights, far from zero so that its states differ."""
    kind, shape = (ENCODERS | OTHERS)[name]
    torch.manual_seed(0)
    model = getattr(transformers, f"{kind}Model")(getattr(transformers, f"{kind}Config")(**shape))
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            if parameter.ndim > 1:
                parameter.normal_(0.0, 0.5 if "embed" in parameter_name else 0.2)
            else:  # norms and biases, else alike in all models
                parameter.add_(torch.randn_like(parameter) * 0.1)
    return model.eval().to(dtype)


def random_ids(*shape: int) -> torch.Tensor:
    """Token ids, the special ones left out."""
    return torch.randint(5, VOCABULARY, shape, generator=torch.Generator().manual_seed(1))
