"""One process per store: an operating-system lock, and a note saying who holds it."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import socket
import sys
from pathlib import Path

from filelock import FileLock, Timeout

from lmk_integrations.errors import StoreError, StoreLockedError

LOCK_NAME = "store.lock"
HOLDER_NAME = "store.holder.json"


class StoreLock:
    """Exclusive lock on a store directory.

    The lock itself belongs to the operating system, so a killed process frees it. The holder
    file beside it only serves to name the holder: process id, host, start time and program
    name, never its arguments, which could hold secrets.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._holder_file = directory / HOLDER_NAME
        self._lock = FileLock(directory / LOCK_NAME, thread_local=False)

    def acquire(self, wait_s: float = 0.0) -> None:
        """Take the lock.

        wait_s: seconds to wait for another process to let go.

        Raises StoreLockedError naming the holder, StoreError where the directory cannot be locked.
        """
        try:
            self._lock.acquire(timeout=wait_s)
        except Timeout as error:
            raise StoreLockedError(
                f"The store {self._directory} is in use by {self._describe_holder()}. One process "
                "at a time can open it: close the other one, or serve both from a Qdrant server."
            ) from error
        # NotImplementedError: what filelock raises on a file system that has no locks.
        except (OSError, NotImplementedError) as error:
            raise StoreError(f"The store {self._directory} cannot be locked: {error}") from error
        # Without the note the lock still holds; only the message of the next one is poorer.
        with contextlib.suppress(OSError):
            self._holder_file.write_text(json.dumps(_this_process()), encoding="utf-8")

    def release(self) -> None:
        """Give the lock back. Harmless when it is not held."""
        if self._lock.is_locked:
            with contextlib.suppress(OSError):
                self._holder_file.unlink()
            self._lock.release()

    def _describe_holder(self) -> str:
        try:
            holder = json.loads(self._holder_file.read_text(encoding="utf-8"))
            return (
                f"process {int(holder['pid'])} ({holder['command']}) on {holder['host']}, "
                f"since {holder['since']}"
            )
        except (OSError, ValueError, KeyError, TypeError):
            return "another process (which left no name)"


def _this_process() -> dict[str, object]:
    return {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "since": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "command": os.path.basename(sys.argv[0]) if sys.argv and sys.argv[0] else "python",
    }
