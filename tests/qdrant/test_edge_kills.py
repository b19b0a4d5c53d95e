"""A shard killed at any moment reopens with every acknowledged change, and with no half of one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("rounds", [4, pytest.param(60, marks=pytest.mark.slow)])
def test_a_shard_killed_at_any_moment_has_all_that_was_acknowledged(
    rounds: int, tmp_path: Path
) -> None:
    """SIGKILL while points are written, replaced, changed, deleted, flushed, optimized, copied."""
    done = subprocess.run(
        [
            sys.executable,
            str(Path(__file__).with_name("kill_edge.py")),
            tmp_path / "s",
            str(rounds),
        ],
        capture_output=True,
        text=True,
        timeout=600 * rounds,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["rounds"] == rounds
    assert report["acknowledged"] > 5 * rounds
    # Moments of several kinds were hit, or this says little.
    assert len(report["in_flight"]) >= (3 if rounds > 10 else 1), report
