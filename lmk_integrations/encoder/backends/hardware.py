"""What the machine can do, found out without loading PyTorch where that is possible.

Loading it takes seconds, which is most of a search from the command line.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from importlib import metadata
from pathlib import Path

_CPU_FACTS = Path("/proc/cpuinfo")
_BFLOAT16 = {"avx512_bf16", "amx_tile"}  # of which torch asks the processor, too


@lru_cache(maxsize=1)
def cpu_multiplies_bfloat16() -> bool:
    """Whether the CPU has avx512_bf16 or amx; without them bfloat16 is emulated and slow."""
    flags = cpu_flags(_CPU_FACTS)
    if flags:
        return bool(flags & _BFLOAT16)
    import torch

    tests = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    return any(getattr(torch.cpu, name, bool)() for name in tests)


def cpu_flags(facts: Path) -> set[str]:
    """The features that Linux lists of an x86 processor; empty elsewhere."""
    try:
        lines = facts.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return set()
    return {
        word for line in lines if line.startswith("flags") for word in line.split(":")[1].split()
    }


def computes_on_cpu(device: str) -> bool:
    """Whether this is what the name of a device, such as "auto", stands for here."""
    if device == "cpu":
        return True
    # A build of PyTorch for the CPU sees no other device on Linux: no need to ask it.
    if device == "auto" and sys.platform == "linux" and metadata.version("torch").endswith("+cpu"):
        return True
    from lmk_integrations.encoder.backends.torch import pick_device

    return pick_device(device).type == "cpu"
