"""The progress line of an ingest: on stderr, and only where a person is looking."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from lmk_integrations.cli.bar import Bar
from lmk_integrations.ingest.readers.options import ReadOptions
from lmk_integrations.ingest.report import IngestReport
from lmk_integrations.ingest.walk import Walk


class IngestProgress(Bar):
    """Shows documents, the time left and tokens/s as the report grows.

    The time left goes by the number of files: it is unknown once a file has turned out to hold
    many documents.
    """

    def __init__(self, paths: Sequence[Path], options: ReadOptions) -> None:
        self._paths = paths
        self._options = options

    def __enter__(self) -> IngestProgress:
        total = _count_files(self._paths, self._options) if sys.stderr.isatty() else None
        # miniters: a long document shows tokens, though the count stands still
        self.open(total, unit=" documents", miniters=0)
        return self

    def update(self, report: IngestReport) -> None:
        """Show where the ingest stands."""
        self._bar.n = report.documents
        elapsed = self._bar.format_dict["elapsed"]
        if elapsed:
            rate = report.tokens_encoded / elapsed
            self._bar.set_postfix_str(
                f"{rate:,.0f} tokens/s, {report.unchanged} unchanged, {len(report.failed)} failed",
                refresh=False,
            )
        self._bar.update(0)


def _count_files(paths: Sequence[Path], options: ReadOptions) -> int:
    """How many files an ingest of these paths will look at."""
    return sum(sum(1 for _ in Walk(path, options)) if path.is_dir() else 1 for path in paths)
