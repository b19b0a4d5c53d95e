"""What the options of `lmk ingest` mean: which files, and how they are read."""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

from lmk_integrations.errors import ConfigError
from lmk_integrations.ingest.sources import ReadOptions

_SIZE = re.compile(r"(\d{1,15})([KMG]?)B?", re.I)
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def paths_and_options(arguments: argparse.Namespace) -> tuple[list[Path], ReadOptions]:
    """The paths to ingest and how to read them. Raises ConfigError."""
    paths = list(arguments.paths)
    only = None
    if arguments.retry_failed is not None:
        if arguments.prune or arguments.rebuild:
            other = "--prune" if arguments.prune else "--rebuild"
            raise ConfigError(f"--retry-failed reads a few files only, {other} needs all of them")
        only, earlier = _failed(Path(arguments.retry_failed))
        paths = paths or earlier
    if not paths:
        raise ConfigError("the following arguments are required: PATH, or --retry-failed REPORT")
    for path in paths:
        if not Path(path).exists():
            raise ConfigError(f"{path}: no such file or folder")
    options = ReadOptions(
        include=tuple(arguments.include or ()),
        exclude=tuple(arguments.exclude or ()),
        only=only,
        encoding=arguments.encoding,
        pdf_password=arguments.pdf_password,
        max_bytes=None if arguments.max_bytes is None else n_bytes(arguments.max_bytes),
        follow_symlinks=arguments.follow_symlinks,
    )
    return [Path(path) for path in paths], options


def n_bytes(size: str) -> int:
    """The number of bytes that a size means.

    >>> n_bytes("10M")
    10485760
    """
    match = _SIZE.fullmatch(size.strip())
    if match is None:
        raise ConfigError(f"--max-bytes {size}: give a number of bytes such as 90000, 500K or 2G")
    return int(match[1]) * _UNITS[match[2].upper()]


def _failed(report: Path) -> tuple[tuple[str, ...], list[str]]:
    """The ids of what failed in an earlier run, and the paths that it was given."""
    try:
        lines = report.read_text(encoding="utf-8").strip().splitlines()
        found: dict[str, Any] = json.loads(lines[-1])
        names = tuple(str(item["name"]) for item in found["failed"])
        return names, [str(path) for path in found.get("paths", ())]
    except OSError as error:
        raise ConfigError(f"--retry-failed {report}: {error.strerror or error}") from None
    except (ValueError, LookupError, TypeError, AttributeError):
        raise ConfigError(
            f"--retry-failed {report} is no report; keep one with: lmk ingest ... --json > {report}"
        ) from None
