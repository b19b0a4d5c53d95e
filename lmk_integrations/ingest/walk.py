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

    Iterating gives its files, sorted folder by folder, and a Failure for each entry that is not
    followed and could surprise: a link, a folder that cannot be listed. Hidden entries, and what
    include and exclude leave out, are left out in silence.

    root: the folder, absolute. complete: whether everything could be listed; known at the end.
    left_out: ids of the files that exist but were not given.
    """

    def __init__(self, root: Path, options: ReadOptions) -> None:
        self.root = root.resolve()
        self.complete = False
        self.left_out: set[str] = set()
        self._options = options
        self._n_unlisted = 0

    def __iter__(self) -> Iterator[SourceFile | Failure]:
        self.complete = False
        self._n_unlisted = 0
        # What is still to be seen, the next one last; with the folders that lead there.
        pending: list[tuple[Path, frozenset[Path]]] = [(self.root, frozenset())]
        while pending:
            path, above = pending.pop()
            file = self._file(path)
            if path != self.root:
                if self._is_out(file):
                    self.left_out.add(file.doc_id)
                    continue
                if (
                    os.path.islink(path)
                    and (refused := self._refuse(path, file, above)) is not None
                ):
                    self.left_out.add(file.doc_id)
                    yield refused
                    continue
                if not os.path.isdir(path):
                    if self._is_in(file):
                        yield file
                    else:
                        self.left_out.add(file.doc_id)
                    continue
            try:
                names = sorted(name for name in os.listdir(path) if not name.startswith("."))
            except OSError as error:
                self._n_unlisted += 1
                yield Failure(
                    file.doc_id, "unreadable", f"the folder cannot be listed: {error.strerror}"
                )
                continue
            inner = above | {path.resolve()}
            pending += [(path / name, inner) for name in reversed(names)]
        self.complete = self._n_unlisted == 0

    def _file(self, path: Path) -> SourceFile:
        return SourceFile.below(path, self.root)

    def _is_out(self, file: SourceFile) -> bool:
        return matches(file.source, self._options.exclude)

    def _is_in(self, file: SourceFile) -> bool:
        return not self._options.include or matches(file.source, self._options.include)

    def _refuse(self, path: Path, file: SourceFile, above: frozenset[Path]) -> Failure | None:
        """Why a link is not followed, if it is not."""
        if not self._options.follow_symlinks:
            message = "links are not followed; pass --follow-symlinks to read it"
            return Failure(file.doc_id, "symlink", message, skipped=True)
        try:
            target = path.resolve(strict=True)
        except (OSError, RuntimeError):  # what Python 3.10 to 3.12 raise for a loop of links
            return Failure(file.doc_id, "symlink", "it points nowhere", skipped=True)
        if not target.is_relative_to(self.root):
            message = f"it points outside of {self.root.name}, and is not followed there"
            return Failure(file.doc_id, "outside", message, skipped=True)
        if target in above:
            message = "it points to a folder that it is in"
            return Failure(file.doc_id, "symlink", message, skipped=True)
        return None


def matches(relative: str, globs: tuple[str, ...]) -> bool:
    """Whether one of the globs matches a relative path, or its last part.

    ``*`` crosses folders; ``**/`` at the beginning means any folder, the topmost one too.
    """
    name = relative.rsplit("/", 1)[-1]
    for written in globs:
        glob = written.rstrip("/")
        tried = {glob, glob.removeprefix("**/")}
        if any(fnmatch.fnmatch(text, g) for text in (relative, name) for g in tried):
            return True
    return False
