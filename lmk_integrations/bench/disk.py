"""Bytes that a store takes on disk."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from pathlib import Path

_BLOCK = 512  # what st_blocks counts in, whatever the file system's own blocks are


@dataclass(frozen=True, slots=True)
class DiskUse:
    """data: what is kept; log: the write-ahead log, which is reused and does not grow for ever."""

    data: int
    log: int

    def to_dict(self) -> dict[str, int]:
        """Both by name."""
        return asdict(self)


def bytes_on_disk(folder: Path) -> DiskUse:
    """What the files of a folder take, not how long they look: engines allocate ahead."""
    data = log = 0
    for path in folder.rglob("*"):
        if path.is_file():
            taken = _taken(path)
            if "wal" in path.relative_to(folder).parts[:-1]:
                log += taken
            else:
                data += taken
    return DiskUse(data, log)


def _taken(path: Path) -> int:
    facts: os.stat_result = path.stat()
    blocks: int | None = getattr(facts, "st_blocks", None)  # Windows has none
    return facts.st_size if blocks is None else blocks * _BLOCK
