"""What the machine can do, as PyTorch would say, and without loading it."""

import subprocess
import sys
from pathlib import Path

import torch

from lmk_integrations.encoder.backends.hardware import (
    computes_on_cpu,
    cpu_flags,
    cpu_multiplies_bfloat16,
)


def test_the_flags_of_a_processor(tmp_path: Path) -> None:
    """As Linux lists them, once for each core; where there is no such list, none."""
    facts = tmp_path / "cpuinfo"
    facts.write_text(
        "processor\t: 0\nflags\t\t: fpu sse4_2 avx512_bf16\nbugs\t\t: spectre_v1\n" * 2
    )
    assert cpu_flags(facts) == {"fpu", "sse4_2", "avx512_bf16"}
    assert cpu_flags(tmp_path / "missing") == set()


def test_it_agrees_with_torch() -> None:
    """The same answers as PyTorch's own."""
    supported = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    assert cpu_multiplies_bfloat16() == supported
    assert computes_on_cpu("cpu")
    has_other = torch.cuda.is_available() or torch.backends.mps.is_available()
    assert computes_on_cpu("auto") != has_other


def test_torch_is_not_loaded_to_ask() -> None:
    """On Linux with a CPU build of PyTorch, which takes seconds to load."""
    code = (
        "import sys\n"
        "from lmk_integrations.encoder.backends import hardware\n"
        "hardware.cpu_multiplies_bfloat16(), hardware.computes_on_cpu('auto')\n"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    is_light = sys.platform == "linux" and torch.__version__.endswith("+cpu")
    assert done.stdout.strip() == ("False" if is_light else "True")
