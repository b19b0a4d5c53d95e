"""`lmk bench`: measure, print a table or JSON, draw."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lmk_integrations.bench.machine import describe_machine
from lmk_integrations.bench.plots import check_plot, draw
from lmk_integrations.bench.search import ENCODING, SearchBench, SearchSettings, bench_search
from lmk_integrations.bench.tables import markdown
from lmk_integrations.cli.bar import Bar
from lmk_integrations.qdrant.queries import MODES


def run_bench(arguments: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    if arguments.plot is not None:
        check_plot(Path(arguments.plot))
    kinds: dict[str, Callable[[argparse.Namespace], int]] = {"search": _search}
    return kinds[arguments.bench](arguments)


class BenchProgress(Bar):
    """What is being done, and how far it is."""

    def __init__(self) -> None:
        self._step = ""

    def update(self, step: str, done: int, total: int) -> None:
        """Show where a step stands."""
        if step != self._step:
            self._step = step
            self.open(total, desc=step, unit=" rounds")
        self._bar.update(done - self._bar.n)


def _search(arguments: argparse.Namespace) -> int:
    settings = SearchSettings(
        sections=arguments.sections,
        queries=arguments.queries,
        peer_sections=arguments.peer_sections,
        optimize=arguments.optimize,
        seed=arguments.seed,
        model=arguments.model,
        device=arguments.device,
        homes=Path(arguments.peers_home),
    )
    with BenchProgress() as progress:
        found = bench_search(settings, progress.update)
    if arguments.json:
        _print_json("search", found.to_dict())
    else:
        print(search_table(found))
        print()
        _print_circumstances(found.versions, found.notes)
    if arguments.plot is not None:
        lines = {
            name: [(time.sections, time.p50_ms) for time in found.times if time.name == name]
            for name in dict.fromkeys(time.name for time in found.times)
        }
        title = "Search, median by size of the collection"
        draw(Path(arguments.plot), lines, title=title, x="sections", y="milliseconds")
    return 0


def search_table(found: SearchBench) -> str:
    """A row for each size and way to search."""
    head = ["search", "sections", "p50 ms", "p95 ms", "own section in 10"]
    rows = [
        [
            f"lmk {time.name}" if time.name in MODES else time.name,
            "" if time.name == ENCODING else f"{time.sections:,}",
            f"{time.p50_ms:.2f}",
            f"{time.p95_ms:.2f}",
            "" if time.found is None else f"{100 * time.found:.0f} %",
        ]
        for time in found.times
    ]
    return markdown(head, rows)


def _print_circumstances(versions: Mapping[str, str], notes: Sequence[str]) -> None:
    print(f"Machine: {describe_machine()}.")
    shown = ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))
    print(f"Versions: {shown}.")
    for note in notes:
        print(f"Note: {note}.")


def _print_json(what: str, found: dict[str, Any]) -> None:
    facts = {"type": "result", "command": "bench", "bench": what}
    print(json.dumps({**facts, "machine": describe_machine().to_dict(), **found}))
