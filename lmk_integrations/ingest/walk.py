"""The files below a folder, in the same order every time, none of them outside it."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterator
from pathlib import Path

from lmk_integrations.ingest.readers import ReadOptions
from lmk_integrations.ingest.readers.files import SourceFile
from lmk_integrations.records import Failure


class Walk:
    """One walk of a folder.

    Iterating gives its files, sorted by path, and a Failure for each entry that is left out and
    could surprise: a link, a folder that cannot be listed. Hidden entries are left out in silence,
    and so is what include and exclude leave out.
    complete: whether every folder could be listed; true only when the walk has ended.
    left_out: ids of the files that are there and were not given.
    """

    def __init__(self, root: Path, options: ReadOptions) -> None:
        self.root = root.resolve()
        self.complete = False
        self.left_out: set[str] = set()
        self._options = options
        self._n_errors = 0

    def __iter__(self) -> Iterator[SourceFile | Failure]:
        self.complete = False
        self._n_errors = 0
        # Folders that lead to the one being listed: a link back to one of them is a loop.
        pending: list[tuple[Path, tuple[Path, ...]]] = [(self.root, ())]
        while pending:
            path, above = pending.pop()
            if path == self.root or path.is_dir():
                entries = self._list(path)
                if isinstance(entries, Failure):
                    yield entries
                    continue
                inner = (*above, path.resolve())
                pending += [(path / entry, inner) for entry in reversed(entries)]
                continue
            file = SourceFile.below(path, self.root)
            if self._is_included(file):
                yield file
            else:
                self.left_out.add(file.doc_id)
            ...
        self.complete = self._n_errors == 0

    def _list(self, folder: Path) -> list[str] | Failure:
        raise NotImplementedError

    def _is_included(self, file: SourceFile) -> bool:
        raise NotImplementedError
