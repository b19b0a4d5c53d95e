"""A file as a thing that is named, and that may change while it is read."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from lmk_integrations.errors import DocumentError

T = TypeVar("T")

_TRIES = 3


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file and what it is called: doc_id with its root's name, source relative to its root.

    root: which folder that is, see `root_key`.
    """

    path: Path
    doc_id: str
    source: str
    root: str

    @classmethod
    def below(cls, path: Path, root: Path) -> SourceFile:
        """Name a file below a folder: root name + "/" + relative path."""
        source = spelled(path.relative_to(root).as_posix())
        return cls(path, f"{root_name(root)}/{source}", source, root_key(root))


@dataclass(frozen=True, slots=True)
class Signature:
    """What changes when a file is written to or replaced."""

    size: int
    modified_ns: int
    inode: int
    device: int

    @classmethod
    def of(cls, path: Path) -> Signature:
        """Of the file at a path. Raises OSError."""
        return cls.of_stat(path.stat())

    @classmethod
    def of_stat(cls, found: os.stat_result) -> Signature:
        """Of what `stat` or `fstat` told."""
        return cls(found.st_size, found.st_mtime_ns, found.st_ino, found.st_dev)


def root_name(root: Path) -> str:
    """The name that the ids of a folder's documents begin with."""
    return spelled(root.resolve().name) or "root"


def root_key(root: Path) -> str:
    """Tells folders of one name apart, without telling where they lie."""
    return hashlib.sha256(os.fsencode(root.resolve())).hexdigest()[:16]


def spelled(name: str) -> str:
    """A file name as valid Unicode; bytes that are none are written out."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def read_unchanged(path: Path, read: Callable[[Path], T]) -> T:
    """Read a file so that no one wrote to it meanwhile; tried three times.

    Raises DocumentError, reason "changed", or what `read` raises.
    """
    for _ in range(_TRIES):
        before = Signature.of(path)
        result = read(path)
        if Signature.of(path) == before:
            return result
    raise changed()


def changed() -> DocumentError:
    """The error of a file that is being written to."""
    return DocumentError("it changed while it was read; ingest it again when it is done", "changed")
