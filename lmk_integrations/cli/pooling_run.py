"""`lmk bench pooling`: train, score, print tables or JSON, draw."""

from __future__ import annotations

import argparse
import json
import threading
from pathlib import Path

from lmk_integrations.bench.machine import describe_machine
from lmk_integrations.bench.plots import Panel, check_plot, draw_panels
from lmk_integrations.bench.tables import markdown
from lmk_integrations.cli.bar import StepsBar
from lmk_integrations.evaluation.metrics import Estimate
from lmk_integrations.study.report import ALL, Report

Lines = dict[str, list[tuple[float, Estimate]]]


def run_pooling(arguments: argparse.Namespace, stop: threading.Event) -> int:
    """Run the command; returns the exit code. stop: set by the first Ctrl-C."""
    from lmk_integrations.study.run import run_study
    from lmk_integrations.study.settings import StudySettings

    settings = StudySettings(
        layers=arguments.layers,
        distil_steps=arguments.distil_steps,
        steps=arguments.steps,
        batch=arguments.batch,
        seeds=arguments.seeds,
        lengths=arguments.lengths,
        documents=arguments.documents,
        set_documents=arguments.set_documents,
        device=arguments.device,
    )
    if arguments.plot is not None:
        check_plot(Path(arguments.plot))
    with StepsBar("steps") as bar:
        found = run_study(
            arguments.text,
            arguments.sets,
            arguments.out,
            settings,
            base=arguments.base,
            on_progress=bar.update,
            stop=stop,
        )
    if arguments.json:
        result = {
            "out": found.out,
            "seeds": list(found.seeds),
            "settings": settings.to_dict(),
            "report": None if found.report is None else found.report.to_dict(),
            "notes": list(found.notes),
        }
        facts = {"type": "result", "command": "bench", "bench": "pooling"}
        print(json.dumps({**facts, "machine": describe_machine().to_dict(), **result}))
    else:
        if found.report is not None:
            print(length_table(found.report))
            print()
            if found.report.by_depth:
                print(depth_table(found.report))
                print()
            print(f"nDCG@10 in percent, with 95 % intervals over queries; seeds {found.seeds}.")
        print(f"Machine: {describe_machine()}.")
        for note in found.notes:
            print(f"Note: {note}.")
    if arguments.plot is not None and found.report is not None:
        draw_panels(Path(arguments.plot), panels(found.report))
    return 130 if stop.is_set() else 0


def length_table(report: Report) -> str:
    """A row for each task and length."""
    poolings = list(report.by_length[0].scores)
    others = list(report.by_length[0].gains)
    head = ["task", "tokens", "queries", *poolings, *(f"lmk - {name}" for name in others)]
    rows = [
        [
            row.task,
            f"{row.length:,}",
            f"{row.queries:,}",
            *(_percent(row.scores[name]) for name in poolings),
            *(_percent(row.gains[name], sign=True) for name in others),
        ]
        for row in report.by_length
    ]
    return markdown(head, rows)


def depth_table(report: Report) -> str:
    """A row for each part of the document in which the evidence begins."""
    poolings = list(report.by_length[0].scores)
    rows = [
        [
            row.tasks,
            f"{100 * row.low:.0f} to {100 * row.high:.0f} %",
            f"{row.queries:,}",
            *(_percent(row.scores[name]) for name in poolings),
        ]
        for row in report.by_depth
    ]
    return markdown(["texts past the trained length", "evidence at", "queries", *poolings], rows)


def panels(report: Report) -> list[Panel]:
    """Score by length, and score by the evidence's depth."""
    poolings = list(report.by_length[0].scores)
    over = [row for row in report.by_length if row.task == ALL]
    by_length: Lines = {name: [(row.length, row.scores[name]) for row in over] for name in poolings}
    found = [_panel("By length: mean of the long tasks", "tokens of a document", by_length)]
    found[0].log_x = True
    for tasks in dict.fromkeys(row.tasks for row in report.by_depth):
        rows = [row for row in report.by_depth if row.tasks == tasks]
        by_depth: Lines = {
            name: [(50 * (row.low + row.high), row.scores[name]) for row in rows]
            for name in poolings
        }
        found.append(_panel(f"By depth of the evidence: {tasks}", "% of the document", by_depth))
    return found


def _panel(title: str, x: str, lines: Lines) -> Panel:
    return Panel(
        title,
        x,
        "nDCG@10",
        {
            name: [(at, 100 * of.mean, 100 * of.low, 100 * of.high) for at, of in points]
            for name, points in lines.items()
        },
    )


def _percent(of: Estimate, *, sign: bool = False) -> str:
    shown = "+" if sign else ""
    return f"{100 * of.mean:{shown}.1f} ({100 * of.low:{shown}.1f} to {100 * of.high:{shown}.1f})"
