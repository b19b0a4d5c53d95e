"""`lmk copy`, and `lmk ingest --rebuild`: run them, print what came of it."""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lmk_integrations.cli.bar import Bar
from lmk_integrations.cli.progress import IngestProgress
from lmk_integrations.cli.render import print_report
from lmk_integrations.errors import ConfigError, StoreError
from lmk_integrations.ingest.sources import ReadOptions
from lmk_integrations.qdrant import connect
from lmk_integrations.qdrant.move import CopyReport, copy_collection
from lmk_integrations.qdrant.rebuild import RebuildReport, rebuild

_KEYS = ("LMK_FROM_API_KEY", "LMK_TO_API_KEY")


class CopyProgress(Bar):
    """Shows points, points/s and the time left."""

    def update(self, report: CopyReport) -> None:
        """Show where the copy stands."""
        if self._bar is None:
            self.open(report.total, unit=" points")
        self._bar.n = report.copied + report.unchanged
        self._bar.set_postfix_str(f"{report.n_bytes / 1e6:,.0f} MB sent", refresh=False)
        self._bar.update(0)


def run_copy(arguments: argparse.Namespace, stop: threading.Event) -> int:
    """Run the command; returns the exit code. stop: set by the first Ctrl-C."""
    places = (arguments.source, arguments.target)
    if ":memory:" in places:
        raise ConfigError("':memory:' ends with this command; use copy_collection in Python")
    if "://" not in places[0] and not Path(places[0]).expanduser().exists():
        raise StoreError(f"there is no store at {places[0]}")
    source = connect(places[0], api_key=os.environ.get(_KEYS[0]))
    try:
        target = connect(places[1], api_key=os.environ.get(_KEYS[1]))
        try:
            with CopyProgress() as progress:
                report = copy_collection(
                    source,
                    target,
                    arguments.collection,
                    target_name=arguments.target_name,
                    prune=arguments.prune,
                    on_progress=progress.update,
                    stop=stop,
                )
        finally:
            target.close()
    finally:
        source.close()
    if arguments.json:
        print(json.dumps({"type": "result", "command": "copy", **report.to_dict()}))
    else:
        _print_copy(report, *places)
    return 130 if report.interrupted else 0


def _print_copy(report: CopyReport, source: str, target: str) -> None:
    print(f"copied {report.source!r} at {source} to {report.target!r} at {target}")
    rows = [
        ("copied", report.copied),
        ("unchanged", report.unchanged),
        ("removed", report.removed),
        ("only there", report.only_in_target),
    ]
    for name, count in rows:
        print(f"  {name:<10} {count:>8,}")
    if report.interrupted:
        print("  interrupted: what is copied is kept; run again to resume")
        return
    kinds = f"{report.heads:,} documents, {report.sections:,} sections"
    if report.items or report.others:
        kinds += f", {report.items + report.others:,} other points"
    print(f"  verified: {kinds}; {report.n_bytes / 1e6:,.1f} MB, {report.seconds:.1f} s")


def check_rebuild(arguments: argparse.Namespace) -> None:
    """Raise ConfigError for arguments that do not go together."""
    if arguments.rebuild:
        for name in ("dry_run", "fail_fast"):
            if getattr(arguments, name):
                raise ConfigError(f"--{name.replace('_', '-')} cannot go with --rebuild")
        return
    for name in ("drop_old", "allow_failures", "allow_missing"):
        if getattr(arguments, name):
            raise ConfigError(f"--{name.replace('_', '-')} needs --rebuild")


def run_rebuild(
    arguments: argparse.Namespace,
    encoder: Callable[[], Any],
    paths: list[Path],
    options: ReadOptions,
    stop: threading.Event,
) -> int:
    """Run `lmk ingest --rebuild`; returns the exit code. stop: set by the first Ctrl-C."""
    client = connect(arguments.location)
    try:
        with IngestProgress(paths, options) as progress:
            report = rebuild(
                client,
                arguments.collection,
                encoder(),
                paths,
                section_tokens=arguments.section_tokens,
                language=arguments.language,
                landmark_datatype=arguments.landmark_datatype,
                options=options,
                prune=arguments.prune,
                drop_old=arguments.drop_old,
                allow_failures=arguments.allow_failures,
                allow_missing=arguments.allow_missing,
                on_progress=progress.update,
                stop=stop,
            )
    finally:
        client.close()
    if arguments.json:
        print(json.dumps({"type": "result", "command": "rebuild", **report.to_dict()}))
    else:
        _print_rebuild(report, arguments.location)
    for problem in report.problems:
        print(f"lmk: not swapped: {problem}", file=sys.stderr)
    if report.interrupted:
        return 130
    if report.problems:
        return 3 if report.ingest.failed and not arguments.allow_failures else 1
    return 3 if report.ingest.failed else 0


def _print_rebuild(report: RebuildReport, location: str) -> None:
    print_report(report.ingest, report.collection, location)
    if report.swapped:
        print(f"  {report.name!r} stands for {report.collection!r} now")
    elif not report.problems and not report.interrupted:
        print(f"  {report.name!r} was made this way already: nothing to swap")
    for name in report.kept:
        print(f"  kept: {name}")
    for name in report.dropped:
        print(f"  deleted: {name}")
