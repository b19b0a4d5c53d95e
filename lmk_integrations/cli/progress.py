"""The progress of an ingest on stderr: a moving line for a person, one now and then for a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from lmk_integrations.cli.bar import Bar
from lmk_integrations.ingest.readers.options import ReadOptions
from lmk_integrations.ingest.report import IngestReport
from lmk_integrations.ingest.walk import Walk

_LOG_EVERY_S = 30.0


class IngestProgress(Bar):
    """Shows documents, the time left and tokens/s as the report grows.

    The time left goes by the number of files: it is unknown once a file has turned out to hold
    many documents. Where stderr is no terminal, a line is written every ``every_s`` seconds.

    clock: seconds, as `time.monotonic`.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        options: ReadOptions,
        *,
        every_s: float = _LOG_EVERY_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._paths = paths
        self._options = options
        self._every_s = every_s
        self._clock = clock
        self._started = self._logged = clock()

    def __enter__(self) -> IngestProgress:
        total = _count_files(self._paths, self._options) if sys.stderr.isatty() else None
        # miniters: a long document shows tokens, though the count stands still
        self.open(total, unit=" documents", miniters=0)
        self._started = self._logged = self._clock()
        return self

    def update(self, report: IngestReport) -> None:
        """Show where the ingest stands."""
        if not sys.stderr.isatty():
            self._log(report)
            return
        self._bar.n = report.documents
        elapsed = self._bar.format_dict["elapsed"]
        if elapsed:
            rate = report.tokens_encoded / elapsed
            self._bar.set_postfix_str(
                f"{rate:,.0f} tokens/s, {report.unchanged} unchanged, {len(report.failed)} failed",
                refresh=False,
            )
        self._bar.update(0)

    def _log(self, report: IngestReport) -> None:
        now = self._clock()
        if now - self._logged < self._every_s:
            return
        self._logged = now
        rate = report.tokens_encoded / (now - self._started)
        print(
            f"lmk: {report.documents:,} documents ({report.unchanged:,} unchanged, "
            f"{len(report.failed):,} failed), {report.tokens_encoded:,} tokens embedded, "
            f"{rate:,.0f} tokens/s",
            file=sys.stderr,
            flush=True,
        )


def _count_files(paths: Sequence[Path], options: ReadOptions) -> int:
    """How many files an ingest of these paths will look at."""
    return sum(sum(1 for _ in Walk(path, options)) if path.is_dir() else 1 for path in paths)
