"""`lmk train` and `lmk mine`: read the data, train or mine, print what came of it."""

from __future__ import annotations

import argparse
import json
import sys
import threading
from contextlib import nullcontext, redirect_stderr
from io import StringIO
from typing import Any

from lmk_integrations.cli.bar import Bar
from lmk_integrations.encoder import LMKEncoder
from lmk_integrations.training.data import TrainingData, read_training_data
from lmk_integrations.training.settings import require_training


def run_train(arguments: argparse.Namespace, stop: threading.Event) -> int:
    """Run the command; returns the exit code. stop: set by the first Ctrl-C."""
    require_training()
    from lmk_integrations.training.contrastive import train
    from lmk_integrations.training.settings import TrainSettings

    settings = TrainSettings(
        pooling=arguments.pooling,
        steps=arguments.steps,
        epochs=arguments.epochs,
        batch=arguments.batch,
        mini_batch=arguments.mini_batch,
        accumulate=arguments.accumulate,
        lr=arguments.lr,
        temperature=arguments.temperature,
        max_tokens=arguments.max_tokens,
        text_tokens=arguments.text_tokens,
        granularities=arguments.granularities,
        hard_negatives=arguments.hard_negatives,
        teacher_scores=arguments.teacher_scores,
        teacher_temperature=arguments.teacher_temperature,
        matryoshka=arguments.matryoshka,
        seed=arguments.seed,
        save_every=arguments.save_every,
        device=arguments.device,
    )
    data = _data(arguments)
    with TrainBar() as bar:
        report = train(
            arguments.base,
            data,
            arguments.out,
            settings,
            resume=arguments.resume,
            on_progress=bar.update,
            stop=stop,
        )
    if arguments.json:
        result = {
            **course(report),
            "examples": report.examples,
            "negatives": report.negatives,
        }
        print(json.dumps({"type": "result", "command": "train", **result}))
    elif report.stopped:
        print(f"stopped after {report.steps:,} steps; go on with --resume")
    else:
        print(
            f"trained {report.out} in {report.steps:,} steps on {report.examples:,} examples "
            f"({report.negatives} hard negatives each): loss {report.losses[0][1]:.4f} -> "
            f"{report.losses[-1][1]:.4f}, {report.seconds:.0f} s"
        )
    return 130 if report.stopped else 0


def run_mine(arguments: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    require_training()
    from lmk_integrations.training.mine import MineSettings, mine

    settings = MineSettings(
        negatives=arguments.negatives,
        margin=arguments.margin,
        skip=arguments.skip,
        depth=arguments.depth,
    )
    data = _data(arguments)
    encoder = LMKEncoder(
        arguments.model,
        device=arguments.device,
        dtype=arguments.dtype,
        backend=arguments.backend,
        compile=arguments.compile,
    )
    with nullcontext() if sys.stderr.isatty() else redirect_stderr(StringIO()):  # its bars
        report = mine(encoder, data, arguments.out, settings)
    if arguments.json:
        result = {
            "out": arguments.out,
            "examples": report.examples,
            "negatives": report.negatives,
            "short": report.short,
            "without": report.without,
        }
        print(json.dumps({"type": "result", "command": "mine", **result}))
    else:
        print(
            f"{arguments.out}: {report.examples:,} examples, {report.negatives:,} negatives; "
            f"{report.short:,} examples have fewer than {settings.negatives}, "
            f"{report.without:,} have none"
        )
    return 0


def _data(arguments: argparse.Namespace) -> TrainingData:
    return read_training_data(arguments.data, half=arguments.half, titles=arguments.titles)


def course(report: Any) -> dict[str, Any]:
    """How a training went, as JSON values: of a `TrainReport` or an `AdaptReport`."""
    return {
        "out": report.out,
        "steps": report.steps,
        "first_loss": report.losses[0][1] if report.losses else None,
        "last_loss": report.losses[-1][1] if report.losses else None,
        "seconds": round(report.seconds, 3),
        "stopped": report.stopped,
    }


class TrainBar(Bar):
    """Steps, loss and time left."""

    def update(self, progress: Any) -> None:
        """Show a `TrainProgress`."""
        if self._bar is None:
            shape = "{percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} steps{postfix}"
            self.open(progress.steps, unit=" steps", bar_format=shape)
        minutes, seconds = divmod(round(progress.seconds_left), 60)
        hours, minutes = divmod(minutes, 60)
        left = f"{hours}:{minutes:02}:{seconds:02} left"
        self._bar.n = progress.step
        self._bar.set_postfix_str(f"loss {progress.loss:.4f}, {left}")
