"""Watching a training, and stopping it: what sentence-transformers' trainer is told to call."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from transformers import TrainerCallback

from lmk_integrations.errors import ModelError


@dataclass(frozen=True, slots=True)
class TrainProgress:
    """Where a training stands. loss: the mean since the last report."""

    step: int
    steps: int
    loss: float
    seconds_left: float


OnProgress = Callable[[TrainProgress], None]


class Watcher(TrainerCallback):
    """Reports every logged loss, and stops, with a checkpoint, when asked to."""

    def __init__(self, on_progress: OnProgress | None, stop: threading.Event | None) -> None:
        self._on_progress = on_progress
        self._stop = stop
        self._began = time.monotonic()
        self._first_step = 0
        self.stopped = False

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """The clock starts here; a resumed training starts at its checkpoint."""
        self._began = time.monotonic()
        self._first_step = int(state.global_step)

    def on_log(
        self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any
    ) -> None:
        """A mean loss is known. Raises ModelError where it is no number: nothing comes after."""
        if logs is None or "loss" not in logs:
            return
        step, steps = int(state.global_step), int(state.max_steps)
        loss = float(logs["loss"])
        if not math.isfinite(loss):
            raise ModelError(
                f"the loss is {loss} at step {step}: the training diverged; pass a lower lr, and "
                "another out"
            )
        if self._on_progress is None:
            return
        pace = (time.monotonic() - self._began) / max(1, step - self._first_step)
        self._on_progress(TrainProgress(step, steps, loss, pace * (steps - step)))

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """A step is done: the moment to stop."""
        if self._stop is not None and self._stop.is_set() and state.global_step < state.max_steps:
            self.stopped = True
            control.should_save = True
            control.should_training_stop = True
