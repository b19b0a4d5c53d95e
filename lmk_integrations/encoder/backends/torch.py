"""The PyTorch backend: any transformers encoder or decoder that gives hidden states."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lmk_integrations.encoder.backends.base import Floats, Ints, WindowInput
from lmk_integrations.encoder.backends.hardware import cpu_multiplies_bfloat16
from lmk_integrations.encoder.backends.memory import keep_large_blocks
from lmk_integrations.encoder.backends.packed import PackedEncoder, packed_encoder
from lmk_integrations.encoder.backends.padded import PaddedEncoder
from lmk_integrations.errors import ConfigError, ModelError

# These number positions from padding_idx + 1 and find the padding by token id, so a window whose
# landmark has the pad's id would be numbered wrongly: they are told their positions.
_OFFSET_POSITIONS = {
    "camembert",
    "data2vec-text",
    "longformer",
    "mpnet",
    "roberta",
    "roberta-prelayernorm",
    "xlm-roberta",
    "xlm-roberta-xl",
}
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
_UNUSED_WEIGHTS = ("pooler.", ".pooler.")


# The last layer is computed at the wanted rows where these are at most this share of all positions:
# with more, its attention of rows costs more than it saves.
_FEW = 1 / 3


class TorchBackend:
    """Runs the model in a directory on one device. See `Backend`."""

    name = "torch"

    def __init__(
        self, directory: Path, *, pad_id: int, device: str, dtype: str, compiled: bool = False
    ) -> None:
        self._device = pick_device(device)
        self.device = str(self._device)
        self.dtype = _pick_dtype(dtype, self._device)
        if self._device.type == "cpu":
            keep_large_blocks()
        model, self.config = load_transformer(directory, DTYPES[self.dtype])
        model.to(self._device)
        self.dim = int(self.config.hidden_size)
        self._n_embeddings = int(model.get_input_embeddings().weight.shape[0])
        first = offset_positions(self.config)
        pad_id = pad_id if pad_id < self._n_embeddings else 0
        self._encoder: PackedEncoder | PaddedEncoder = packed_encoder(
            model, self.config, first or 0
        ) or PaddedEncoder(model, self.config, pad_id, first)
        if compiled:
            from lmk_integrations.encoder.backends.compiled import compile_encoder

            compile_encoder(self._encoder)

    @torch.inference_mode()
    def rows(self, windows: Sequence[WindowInput]) -> list[Floats]:
        """Run the windows in one batch, take the wanted rows on the device."""
        ids = np.concatenate([window.ids for window in windows])
        if ids.max() >= self._n_embeddings:
            raise ModelError(
                f"the tokenizer gave the token id {ids.max()}, but the weights hold "
                f"{self._n_embeddings} embeddings: they do not belong together"
            )
        lengths = [len(window.ids) for window in windows]
        counts = [len(window.starts) for window in windows]
        first = np.repeat(np.cumsum(lengths) - lengths, counts)
        starts = first + np.concatenate([window.starts for window in windows])
        stops = first + np.concatenate([window.stops for window in windows])
        inputs = self._moved(ids)
        if len(starts) <= len(ids) * _FEW and bool(np.all(stops - starts == 1)):
            taken: torch.Tensor = self._encoder(inputs, lengths, self._moved(starts)).float()
        else:
            taken = self._means(self._encoder(inputs, lengths), starts, stops)
        return np.split(taken.cpu().numpy(), np.cumsum(counts)[:-1])

    def _means(self, states: torch.Tensor, starts: Ints, stops: Ints) -> torch.Tensor:
        """Mean states of runs of positions, (n_runs, dim) float32."""
        # The positions of all runs one after another, summed back into their rows.
        lengths = stops - starts
        row = np.repeat(np.arange(len(starts)), lengths)
        within = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        values = states[self._moved(np.repeat(starts, lengths) + within)].float()
        taken = torch.zeros(len(starts), states.shape[-1], device=states.device)
        taken.index_add_(0, self._moved(row), values)
        return taken / self._moved(lengths)[:, None]

    def _moved(self, values: Ints) -> torch.Tensor:
        tensor = torch.from_numpy(values)
        if self._device.type == "cuda":  # from pinned memory the copy runs beside the GPU's work
            return tensor.pin_memory().to(self._device, non_blocking=True)
        return tensor.to(self._device)


def offset_positions(config: Any) -> int | None:
    """The number of a window's first position for models that must be told; None: they know."""
    if config.model_type not in _OFFSET_POSITIONS:
        return None
    return int(config.pad_token_id or 0) + 1


def load_transformer(directory: Path, dtype: torch.dtype) -> tuple[Any, Any]:
    """Open the weights: safetensors only, no code from the directory, nothing left random."""
    from transformers import AutoConfig, AutoModel

    if not list(directory.glob("*.safetensors")):
        raise ModelError(
            f"{directory} holds no .safetensors weights. Pickled weights (.bin, .pt) can run code "
            "and are not opened: convert them with safetensors first"
        )
    with quiet():
        try:
            config = AutoConfig.from_pretrained(
                str(directory), trust_remote_code=False, local_files_only=True
            )
            model, info = AutoModel.from_pretrained(
                str(directory),
                config=config,
                trust_remote_code=False,
                use_safetensors=True,
                local_files_only=True,
                dtype=dtype,
                output_loading_info=True,
            )
        except Exception as error:  # transformers raises OSError, ValueError, KeyError, ...
            raise ModelError(f"the model in {directory} cannot be opened: {error}") from error
    missing = [
        key
        for key in info["missing_keys"]
        if not any(key.startswith(p) or p in key for p in _UNUSED_WEIGHTS)
    ]
    if missing:
        raise ModelError(
            f"the weights in {directory} lack {len(missing)} tensors that its config.json asks "
            f"for, such as {sorted(missing)[0]!r}: they do not belong together"
        )
    if getattr(config, "is_encoder_decoder", False):
        raise ModelError(
            f"{config.model_type!r} in {directory} is an encoder-decoder model; not supported"
        )
    return model.eval(), config


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silence transformers' loading reports: what matters of them is checked above."""
    from transformers.utils import logging as hf_logging

    before = hf_logging.get_verbosity()
    hf_logging.set_verbosity(logging.ERROR)
    bars = hf_logging.is_progress_bar_enabled()
    hf_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        hf_logging.set_verbosity(before)
        if bars:
            hf_logging.enable_progress_bar()  # type: ignore[no-untyped-call]


def pick_device(device: str) -> torch.device:
    """The device of a name; "auto" is the best there is. Raises ConfigError for others."""
    if device == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        chosen = torch.device(device)
    except RuntimeError as error:
        raise ConfigError(f"device={device!r} is not a torch device: {error}") from error
    if chosen.type == "cuda" and not torch.cuda.is_available():
        raise ConfigError(f"device={device!r}: this torch build sees no GPU; use device='cpu'")
    return chosen


def _pick_dtype(dtype: str, device: torch.device) -> str:
    if dtype != "auto":
        return dtype
    if device.type == "cuda":
        return "bfloat16" if torch.cuda.is_bf16_supported() else "float16"
    if device.type == "cpu" and cpu_multiplies_bfloat16():
        return "bfloat16"
    return "float32"
