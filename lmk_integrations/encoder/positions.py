"""How long a window a model can read, from its config.json."""

from __future__ import annotations

from pathlib import Path

from lmk_integrations.errors import ModelError

_UNLIMITED = 1 << 20
_OFFSET_TYPES = ("roberta", "camembert", "mpnet", "longformer", "data2vec-text")


def position_limit(directory: Path) -> tuple[int, int]:
    """(hidden size, positions one window may have) of the transformer in a directory."""
    from transformers import AutoConfig

    try:
        config = AutoConfig.from_pretrained(
            str(directory), trust_remote_code=False, local_files_only=True
        )
        hidden = int(config.hidden_size)
        positions = int(getattr(config, "max_position_embeddings", None) or _UNLIMITED)
        if any(kind in config.model_type for kind in _OFFSET_TYPES):
            # Their position table begins behind the padding's entry.
            positions -= int(config.pad_token_id or 0) + 1
    except Exception as error:  # transformers raises OSError, ValueError, KeyError, ...
        raise ModelError(
            f"config.json in {directory} cannot be used: {error}. Models that need code of their "
            "own (trust_remote_code) are not supported"
        ) from error
    kernel = getattr(config, "_attn_implementation", None)
    if isinstance(kernel, str) and "/" in kernel:
        # transformers would fetch and run such a kernel from the hub.
        raise ModelError(
            f"config.json in {directory} asks for the attention kernel {kernel!r}, which is code "
            "from the hub; remove its attn_implementation entry"
        )
    return hidden, positions
