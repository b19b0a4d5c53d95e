"""Freed blocks are used again."""

import os
import platform
import subprocess
import sys

import pytest

# Pages fetched while four blocks of 24 MB are made and freed, eight times over.
_FAULTS = """
import resource
from lmk_integrations.encoder.backends.memory import keep_large_blocks
def faults(): return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
kept = keep_large_blocks()
blocks = [b"x" * (24 << 20) for _ in range(4)]
before = faults()
for _ in range(8):
    blocks.clear()
    blocks += [b"x" * (24 << 20) for _ in range(4)]
print(int(kept), faults() - before)
"""


def run(**environment: str) -> tuple[bool, int]:
    own = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    own.pop("GLIBC_TUNABLES", None)
    done = subprocess.run(
        [sys.executable, "-c", _FAULTS],
        env=own | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    kept, faults = done.stdout.split()
    return bool(int(kept)), int(faults)


@pytest.mark.parametrize("set_up", [{}, {"MALLOC_TRIM_THRESHOLD_": "131072"}])
def test_blocks_are_kept_unless_the_user_has_said_otherwise(set_up):
    """With glibc, freed blocks cost no new pages; the user's own settings stand."""
    kept, faults = run(**set_up)
    assert kept == (platform.libc_ver()[0] == "glibc" and not set_up)
    if kept:
        assert faults < (24 << 20) // 4096  # the pages of one block of the 32
