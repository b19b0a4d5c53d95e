"""`lmk verify`: run it, print what it found."""

from __future__ import annotations

import argparse
import json
import threading
from collections.abc import Callable
from typing import Any

from lmk_integrations.cli.ingest_options import paths_and_options
from lmk_integrations.cli.render import safe
from lmk_integrations.qdrant import LandmarkIndex
from lmk_integrations.qdrant.verify import verify
from lmk_integrations.qdrant.verify_report import KINDS, Problem, VerifyReport

_LISTED = 20  # problems named in full


def run_verify(
    arguments: argparse.Namespace,
    location: str,
    encoder: Callable[[], Any],
    stop: threading.Event,
) -> int:
    """Run the command; returns the exit code. stop: set by the first Ctrl-C."""
    paths, options = paths_and_options(arguments) if arguments.paths else (None, None)
    # Nothing is encoded but to mend what only its source can bring back.
    needed = None
    if arguments.repair and paths:
        arguments.granularity = _granularity(location, arguments.collection)
        needed = encoder()
    with LandmarkIndex(location, arguments.collection, needed) as index:
        report = verify(
            index,
            paths,
            options=options,
            repair=arguments.repair,
            delete_foreign=arguments.delete_foreign,
            allow_foreign=arguments.allow_foreign,
            stop=stop,
        )
    if arguments.json:
        print(json.dumps({"type": "result", "command": "verify", **report.to_dict()}))
    else:
        _print(report, location, with_paths=bool(paths), repair=arguments.repair)
    if report.interrupted:
        return 130
    if report.remaining:
        return 1
    return 3 if report.unread else 0


def _granularity(location: str, collection: str) -> Any:
    """That of the documents stored: what is mended is to be like them."""
    with LandmarkIndex(location, collection) as index:
        return (index.info()["recipe"] or {}).get("granularity")


def _print(report: VerifyReport, location: str, *, with_paths: bool, repair: bool) -> None:
    print(f"verified {report.collection!r} at {location}")
    compared = f", {report.compared:,} compared with their source" if with_paths else ""
    print(
        f"  {report.documents:,} documents{compared}, {report.sections:,} sections, "
        f"{report.items:,} items, {report.seconds:.1f} s"
    )
    found = report.problems
    for kind in KINDS:
        count = sum(problem.kind == kind for problem in found)
        if count:
            print(f"  {kind:<10} {count:>8,}")
    _print_problems("found", found)
    for item in report.unread[:_LISTED]:
        print(f"  not read: {safe(f'{item.name}: {item.reason}: {item.message}')}")
    if report.left is not None:
        print(f"  repaired {report.repaired:,} of {len(found):,}")
        _print_problems("left", report.remaining)
    elif report.interrupted:
        print("  interrupted: not all was looked at")
    elif not found:
        print("  all is as it should be")
    if report.remaining and not (repair and with_paths):
        print("  to mend it: lmk verify PATH... --repair, with the files it was filled from")


def _print_problems(what: str, problems: list[Problem]) -> None:
    for problem in problems[:_LISTED]:
        where = "" if problem.doc_id is None else f"{problem.doc_id}: "
        print(f"  {what}: {problem.kind}: {safe(where + problem.message)}")
    if len(problems) > _LISTED:
        print(f"  {what}: and {len(problems) - _LISTED:,} more; --json lists all")
