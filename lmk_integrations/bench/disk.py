"""Bytes that a store takes on disk."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from pathlib import Path

_BLOCK = 512  # what st_blocks counts in, whatever the file system's own blocks are


@dataclass(frozen=True, slots=True)
class DiskUse:
    """landmarks: their vectors; log: the write-ahead log, which is reused and does not grow for
    ever; data: all else that is kept."""

    data: int
    landmarks: int
    log: int

    def to_dict(self) -> dict[str, int]:
        """All by name."""
        return asdict(self)


def bytes_on_disk(folder: Path) -> DiskUse:
    """What the files of a folder take, not how long they look: engines allocate ahead."""
    taken = {"data": 0, "landmarks": 0, "log": 0}
    for path in folder.rglob("*"):
        if path.is_file():
            taken[_kind(path.relative_to(folder).parts[:-1])] += _size(path)
    return DiskUse(**taken)


def _kind(folders: tuple[str, ...]) -> str:
    """By the names that the engine gives to its folders."""
    if "wal" in folders:
        return "log"
    return "landmarks" if any(name.endswith("-landmarks") for name in folders) else "data"


def _size(path: Path) -> int:
    facts: os.stat_result = path.stat()
    blocks: int | None = getattr(facts, "st_blocks", None)  # Windows has none
    return facts.st_size if blocks is None else blocks * _BLOCK
