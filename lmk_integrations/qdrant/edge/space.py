"""Room on the disk: the engine writes through mapped memory, and is killed where there is none."""

from __future__ import annotations

import shutil
from pathlib import Path

from lmk_integrations.errors import StoreError

# What is written lies in several files at first, each of which grows by 32 MiB and more.
RESERVE_BYTES = 128 << 20
_COPIES = 4


def check_space(directory: Path, n_bytes: int) -> None:
    """Raise StoreError unless so many bytes of vectors can be written safely."""
    needed = RESERVE_BYTES + _COPIES * n_bytes
    free = shutil.disk_usage(directory).free
    if free < needed:
        raise StoreError(
            f"the disk of {directory} is nearly full: {free >> 20:,} MiB are free, and writing "
            f"safely takes {needed >> 20:,} MiB. Free some and run again; what is stored is kept"
        )
