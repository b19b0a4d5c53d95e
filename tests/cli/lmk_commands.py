"""Running `lmk` as a shell does."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

LMK = [sys.executable, "-m", "lmk_integrations.cli"]


def lmk(
    *arguments: Any, cwd: Path, timeout: float = 120, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run one command to its end."""
    return subprocess.run(
        [*LMK, *map(str, arguments)],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=timeout,
        **options,
    )


def result(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """The one JSON line that --json prints, and nothing else on stdout."""
    assert done.stdout.count("\n") == 1, done.stdout + done.stderr
    parsed: dict[str, Any] = json.loads(done.stdout)
    assert parsed["type"] == "result"
    return parsed
