"""Progress of an ingest where nobody watches a terminal."""

from __future__ import annotations

import io
import sys

import pytest

from lmk_integrations.cli.progress import IngestProgress
from lmk_integrations.ingest import IngestReport, ReadOptions


def test_a_log_gets_a_line_every_half_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """None for a short run; then documents, tokens and their rate since the beginning."""
    log = io.StringIO()
    monkeypatch.setattr(sys, "stderr", log)
    now = 100.0
    report = IngestReport()
    with IngestProgress([], ReadOptions(), clock=lambda: now) as progress:
        for second in range(75):
            now = 100.0 + second
            report.new = second * 100
            report.unchanged = 1
            report.tokens_encoded = second * 2000
            progress.update(report)
    assert log.getvalue().splitlines() == [
        "lmk: 3,001 documents (1 unchanged, 0 failed), 60,000 tokens embedded, 2,000 tokens/s",
        "lmk: 6,001 documents (1 unchanged, 0 failed), 120,000 tokens embedded, 2,000 tokens/s",
    ]
