"""Large blocks of memory are used again instead of being fetched from the kernel anew.

A layer's intermediate states take tens of megabytes, and glibc returns such blocks to the kernel
as soon as they are free. The next layer's then come page by page, zeroed, at a cost of 10 to 20 %
of the encoding time. What is kept is bounded, and other allocations go as before.
"""

from __future__ import annotations

import ctypes
import os
import platform
from functools import lru_cache

# mallopt(3). Fixing the first switches off that glibc moves both by itself.
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3
_SETTINGS = (
    (_MMAP_THRESHOLD, 32 << 20),  # the most that glibc takes: larger blocks are mapped, as ever
    (_TRIM_THRESHOLD, 1 << 30),  # free memory at the heap's end beyond this goes back
    (_TOP_PAD, 64 << 20),  # the heap grows in such steps
)


@lru_cache(maxsize=1)
def keep_large_blocks() -> bool:
    """Tell the C library once. False where it is not glibc, or the user has set it up already."""
    own = ("MALLOC_", "GLIBC_TUNABLES")
    if platform.libc_ver()[0] != "glibc" or any(name.startswith(own) for name in os.environ):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and all(mallopt(name, value) for name, value in _SETTINGS)
