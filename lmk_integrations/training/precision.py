"""In which precision a training computes."""

from __future__ import annotations

import torch

from lmk_integrations.encoder.backends.hardware import cpu_multiplies_bfloat16
from lmk_integrations.training.settings import Precision


def autocasts(precision: Precision, device: torch.device) -> bool:
    """Whether to compute in bfloat16; "auto": where the hardware multiplies it."""
    if precision != "auto":
        return precision == "bfloat16"
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported())
    return device.type == "cpu" and cpu_multiplies_bfloat16()
