"""Optimizing a shard in a process of its own: the engine holds Python's global lock meanwhile."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

logger = logging.getLogger(__name__)

# It ends with its parent (prctl: PR_SET_PDEATHSIG, SIGKILL), or it would keep the shard from the
# process that comes next. Killed at any moment, it leaves the shard whole.
_CHILD = """
import sys
sys.path[:] = {path!r}
if sys.platform == "linux":
    import ctypes, os
    ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)
    if os.getppid() != int(sys.argv[2]):  # it was gone before that
        sys.exit("its parent has ended")
import qdrant_edge
shard = qdrant_edge.EdgeShard.load(sys.argv[1])
shard.optimize()
shard.close()
"""


def optimize_in_child(directory: Path) -> bool:
    """Merge the segments and build the indexes of a shard that no one has open.

    Returns whether it was done; the log says why not. An optimization more or less changes speed,
    never results.
    """
    child = subprocess.Popen(
        [
            sys.executable,
            "-B",
            "-c",
            _CHILD.format(path=sys.path),
            str(directory),
            str(os.getpid()),
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C is for us
    )
    try:
        _, errors = child.communicate()
    finally:
        child.kill()
        child.wait()
    if child.returncode == 0:
        return True
    reason = errors.decode(errors="replace").strip().splitlines()[-1:] or ["it was ended"]
    logger.warning("%s was not optimized: %s", directory.name, reason[0])
    return False
