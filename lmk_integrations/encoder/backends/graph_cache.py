"""Exported graphs on disk: made once, verified at each opening, the least used ones dropped."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock

from lmk_integrations.encoder.locate import file_sha256
from lmk_integrations.errors import ModelError

logger = logging.getLogger(__name__)

MAX_BYTES = 4 << 30
"""What all graphs together may take; the least recently opened ones go first."""

_CHECKSUMS = "checksums.json"


class GraphCache:
    """A folder of entries, each a folder of files. Entries hold data only, nothing that is run.

    Processes share it: one makes an entry, the others wait for it. A damaged entry is made anew.
    """

    def __init__(self, folder: Path, *, max_bytes: int = MAX_BYTES) -> None:
        self._folder = folder
        self._max_bytes = max_bytes

    def get(self, key: str, make: Callable[[Path], None]) -> Path:
        """The entry's folder. ``make`` fills an empty folder, if there is no intact entry yet.

        Raises ModelError where the cache cannot be written; errors of ``make`` pass.
        """
        entry = self._folder / key
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with FileLock(self._folder / f"{key}.lock"):
                if not _is_intact(entry):
                    self._make(entry, make)
                os.utime(entry)  # the time of the last use
        # NotImplementedError: what filelock raises on a file system that has no locks.
        except (OSError, NotImplementedError) as error:
            raise ModelError(
                f"graphs cannot be kept in {self._folder} ({error}); set LMK_CACHE to a folder "
                "that can be written, or use backend='torch'"
            ) from error
        self._prune(keep=entry)
        return entry

    def _make(self, entry: Path, make: Callable[[Path], None]) -> None:
        if entry.exists():
            logger.warning("the graph in %s is damaged; it is made again", entry)
        part = entry.with_name(f"{entry.name}.part")
        for old in (part, entry):
            shutil.rmtree(old, ignore_errors=True)
        part.mkdir()
        try:
            make(part)
            sums = {path.name: file_sha256(path) for path in part.iterdir()}
            (part / _CHECKSUMS).write_text(json.dumps(sums), encoding="utf-8")
            part.replace(entry)
        finally:
            shutil.rmtree(part, ignore_errors=True)

    def _prune(self, keep: Path) -> None:
        """Drop entries, the longest unused first, until the others fit."""
        entries = []
        with contextlib.suppress(OSError):  # other processes prune, too
            for entry in self._folder.iterdir():
                if entry.is_dir() and entry.suffix != ".part":
                    size = sum(path.stat().st_size for path in entry.iterdir())
                    entries.append((entry.stat().st_mtime, size, entry))
        room = self._max_bytes
        for _, size, entry in sorted(entries, reverse=True):
            room -= size
            if room < 0 and entry != keep:
                shutil.rmtree(entry, ignore_errors=True)


def _is_intact(entry: Path) -> bool:
    """Whether an entry's files are those that were written."""
    try:
        sums = json.loads((entry / _CHECKSUMS).read_text(encoding="utf-8"))
        names = {path.name for path in entry.iterdir()} - {_CHECKSUMS}
        return names == set(sums) and all(
            file_sha256(entry / name) == digest for name, digest in sums.items()
        )
    except (OSError, ValueError, TypeError, AttributeError):
        return False
