"""The progress line of an ingest: on stderr, and only where a person is looking."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any

from lmk_integrations.ingest.report import IngestReport


class IngestProgress:
    """Shows documents and tokens/s as the report grows. Silent unless stderr is a terminal."""

    def __init__(self) -> None:
        self._bar: Any = None

    def __enter__(self) -> IngestProgress:
        from tqdm import tqdm

        self._bar = tqdm(
            unit=" documents",
            disable=not sys.stderr.isatty(),
            file=sys.stderr,
            dynamic_ncols=True,
            leave=False,
            miniters=0,  # a long document shows tokens, though the count stands still
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.close()

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
