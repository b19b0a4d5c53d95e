"""`lmk adapt`: adapt, evaluate if asked to, print what came of it."""

from __future__ import annotations

import argparse
import json
import sys
import threading
from pathlib import Path
from typing import Any

from lmk_integrations._extras import require
from lmk_integrations.cli.train_run import TrainBar, course


def run_adapt(arguments: argparse.Namespace, stop: threading.Event) -> int:
    """Run the command; returns the exit code. stop: set by the first Ctrl-C."""
    require("accelerate", extra="train")
    from lmk_integrations.evaluation import load_beir
    from lmk_integrations.training.adapt import adapt
    from lmk_integrations.training.adapt_settings import AdaptSettings

    sets = [load_beir(folder) for folder in arguments.eval]  # a wrong folder shows before an hour
    if sets:
        require("ranx", extra="bench")
    minutes = arguments.minutes
    if arguments.steps is None and minutes is None:
        minutes = 60.0
    settings = AdaptSettings(
        steps=arguments.steps,
        minutes=minutes,
        batch=arguments.batch,
        accumulate=arguments.accumulate,
        longest=arguments.longest,
        lr=arguments.lr,
        max_tokens=arguments.max_tokens,
        context_tokens=arguments.context_tokens,
        dtype=arguments.dtype,
        seed=arguments.seed,
        save_every=arguments.save_every,
        device=arguments.device,
        **_granularities(arguments.granularities),
    )
    with TrainBar() as bar:
        report = adapt(
            arguments.base,
            arguments.text,
            arguments.out,
            settings,
            resume=arguments.resume,
            evaluate=(lambda out: _figures(arguments.eval, out)) if sets else None,
            on_progress=bar.update,
            stop=stop,
        )
    for failure in report.failed:
        print(f"lmk: not read: {failure}", file=sys.stderr)
    if arguments.json:
        result = {
            **course(report),
            "tokens": report.tokens,
            "documents": report.documents,
            "failed": list(report.failed),
        }
        print(json.dumps({"type": "result", "command": "adapt", **result}))
    elif report.stopped:
        print(f"stopped after {report.steps:,} steps; go on with --resume")
    else:
        print(
            f"{report.out}: {report.steps:,} steps, {report.tokens:,} tokens of "
            f"{report.documents:,} documents, loss {report.losses[0][1]:.3f} -> "
            f"{report.losses[-1][1]:.3f}, {report.seconds:.0f} s"
        )
    return 130 if report.stopped else 0


def _granularities(asked: tuple[int, ...] | None) -> dict[str, Any]:
    """Equal chances for those asked for; else the usual ones with theirs."""
    if asked is None:
        return {}
    return {"granularities": asked, "shares": (1.0,) * len(asked)}


def _figures(datasets: list[str], out: Path) -> dict[str, float]:
    """nDCG@10 of the text vector and the best landmark, in points of 100, all queries."""
    from lmk_integrations.evaluation import evaluate, load_beir

    found = {}
    for folder in datasets:
        for result in evaluate(load_beir(folder), ("lmk-text", "lmk-best"), model=out):
            name = f"{result.dataset} {result.method} nDCG@10"
            found[name] = round(100 * result.metrics["ndcg@10"].mean, 1)
    return found
