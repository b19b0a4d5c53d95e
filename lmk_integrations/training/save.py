"""Save a trained model as a directory that `LMKEncoder` opens."""

from __future__ import annotations

import copy
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from lmk_integrations.core.pooling import Pooling
from lmk_integrations.encoder.model_files import read_model_files
from lmk_integrations.encoder.model_write import (
    SavedSettings,
    copy_dense,
    copy_tokenizer,
    write_settings,
)
from lmk_integrations.encoder.settings import check_choice
from lmk_integrations.errors import ModelError

SavedDtype = Literal["float32", "float16", "bfloat16"]

_POOLERS = ("pooler.", ".pooler.")


def save_landmark_model(
    model: Any,
    tokenizer_dir: str | Path,
    out: str | Path,
    *,
    pooling: Pooling = "lmk",
    granularity: int = 32,
    max_tokens: int,
    trained_granularities: Sequence[int] = (),
    dtype: SavedDtype = "float32",
    card: str = "",
    query_prompt: str | None = None,
    document_prompt: str | None = None,
    keep_dense: bool = False,
) -> Path:
    """Write a transformers model as a directory that `LMKEncoder` opens, and return it.

    model: the trained ``PreTrainedModel``, unchanged by this; its pooler's weights are left out,
        for nothing here reads them.
    tokenizer_dir: the directory of the base, whose tokenizer and prompts are taken over; padding
        and truncation baked into its tokenizer are switched off.
    granularity, max_tokens: what the encoder uses when not told otherwise.
    dtype: of the weights as stored. card: the text of README.md; "" writes none.
    query_prompt, document_prompt: None takes those of the base. keep_dense: copy the Dense modules
        of the base, too.

    The weights arrive last, under their own name only when complete. Raises ModelError where a
    weight does not fit ``dtype``, ConfigError for an impossible setting.
    """
    check_choice("dtype", dtype, ("float32", "float16", "bfloat16"))
    out = Path(out)
    base = read_model_files(Path(tokenizer_dir))
    dense = [files.directory for files in base.dense] if keep_dense else []
    settings = SavedSettings(
        pooling=pooling,
        hidden=int(model.config.hidden_size),
        granularity=granularity,
        max_tokens=max_tokens,
        trained_granularities=tuple(trained_granularities),
        query_prompt=(base.query_prompt or "") if query_prompt is None else query_prompt,
        document_prompt=(base.document_prompt or "")
        if document_prompt is None
        else document_prompt,
        lower_case=base.lower_case,
        pool_prompt=base.pool_prompt,
        dense=tuple(f"{place}_Dense" for place in range(2, 2 + len(dense))),
    )
    weights = _weights(model, dtype)
    out.mkdir(parents=True, exist_ok=True)
    copy_tokenizer(base.transformer, out)
    copy_dense(dense, out)
    write_settings(out, settings)
    if card:
        (out / "README.md").write_text(card, encoding="utf-8")
    _write_weights(model, weights, dtype, out)
    return out


def _weights(model: Any, dtype: SavedDtype) -> dict[str, Any]:
    """The model's tensors on the CPU in the wanted dtype, without the pooler."""
    import torch

    wanted = getattr(torch, dtype)
    found = {}
    for name, tensor in model.state_dict().items():
        if any(name.startswith(pooler) or pooler in name for pooler in _POOLERS):
            continue
        # Copies: safetensors refuses tensors that share memory.
        kept = tensor.detach().to("cpu", copy=True).contiguous()
        if kept.is_floating_point():
            kept = kept.to(wanted)
            if not bool(torch.isfinite(kept).all()):
                raise ModelError(
                    f"the weight {name!r} is not finite as {dtype}: the training diverged, or the "
                    "weight needs dtype='float32'"
                )
        found[name] = kept
    return found


def _write_weights(model: Any, weights: dict[str, Any], dtype: str, out: Path) -> None:
    """config.json and model.safetensors, by transformers itself, which may rename tensors."""
    from lmk_integrations.encoder.backends.torch import quiet

    config = copy.deepcopy(model.config)
    for left in out.glob(".saving-*"):  # by a process that was killed
        shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=out, prefix=".saving-") as folder, quiet():
        model.save_pretrained(folder, state_dict=weights, max_shard_size="1000GB")
        written = Path(folder)
        # save_pretrained notes the dtype in memory; stored is another.
        config.dtype = dtype
        config.architectures = [type(model).__name__]
        config.save_pretrained(folder)
        for path in sorted(written.glob("*.json")) + sorted(written.glob("*.safetensors")):
            shutil.copymode(out / "lmk_config.json", path)  # safetensors lets none but us read
            path.replace(out / path.name)
