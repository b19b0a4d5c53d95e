"""The options of a contrastive training, checked before anything is opened."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from lmk_integrations._extras import require
from lmk_integrations.core.pooling import POOLINGS, Pooling
from lmk_integrations.encoder.settings import check_choice, check_range
from lmk_integrations.errors import ConfigError

Precision = Literal["auto", "float32", "bfloat16"]
Teacher = Literal["kl", "margin_mse"]

DEFAULT_GRANULARITIES = (32, 64, 128, 256)
MOST_DEFAULT_NEGATIVES = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainSettings:
    """Options of `train`.

    pooling: "lmk", or "mean", "cls", "last" for comparisons.
    steps: optimiser steps; None trains ``epochs`` passes over the data.
    batch: examples per step, whose texts are each other's negatives; mini_batch: texts that are in
        memory with their gradients at once, for batches that do not fit; accumulate: batches per
        step (they share no negatives).
    lr: peak learning rate, after ``warmup`` (a share of the steps), falling to 0 as a cosine.
    max_tokens: positions of one window; None takes the base's. text_tokens: read only the first so
        many tokens of a text in training; None reads all, in as many windows as it takes.
    granularities: tokens per landmark, one drawn for each text; None takes those of 32, 64, 128,
        256 that fit the window.
    hard_negatives: per query; None takes as many as every example has, 7 at most.
    teacher_scores: learn from the data's scores, too: by the divergence of their distributions or
        the error of their margins; teacher_weight: of that loss beside the contrastive one;
        teacher_temperature: what the scores are divided by.
    matryoshka: dimensions that shall serve alone, beside all.
    save_every: steps between checkpoints. precision: "auto" is bfloat16 autocast where the
        hardware multiplies it.
    """

    pooling: Pooling = "lmk"
    steps: int | None = None
    epochs: float = 1.0
    batch: int = 32
    mini_batch: int | None = None
    accumulate: int = 1
    lr: float = 2e-5
    warmup: float = 0.1
    temperature: float = 0.02
    max_tokens: int | None = None
    text_tokens: int | None = None
    granularities: tuple[int, ...] | None = None
    hard_negatives: int | None = None
    teacher_scores: Teacher | None = None
    teacher_weight: float = 1.0
    teacher_temperature: float = 1.0
    matryoshka: tuple[int, ...] = ()
    seed: int = 0
    save_every: int = 500
    precision: Precision = "auto"
    device: str = "auto"

    def __post_init__(self) -> None:
        check_choice("pooling", self.pooling, POOLINGS)
        check_choice("precision", self.precision, get_args(Precision))
        for name in ("epochs", "lr", "temperature", "teacher_weight", "teacher_temperature"):
            check_positive(name, getattr(self, name))
        if not 0 <= self.warmup < 1:
            raise ConfigError(f"warmup={self.warmup!r} must be a share of the steps, below 1")
        self._check_whole_numbers()
        if self.teacher_scores is not None:
            check_choice("teacher_scores", self.teacher_scores, get_args(Teacher))
            if self.mini_batch is not None:
                raise ConfigError(
                    "mini_batch and teacher_scores do not go together; use a smaller batch, or "
                    "leave one of the two away"
                )

    def _check_whole_numbers(self) -> None:
        for name, low in (("batch", 2), ("accumulate", 1), ("save_every", 1)):
            check_range(name, getattr(self, name), low, 1 << 20)
        for name in ("steps", "mini_batch", "max_tokens", "text_tokens"):
            if getattr(self, name) is not None:
                check_range(name, getattr(self, name), 1, 1 << 30)
        check_range("seed", self.seed, 0, (1 << 32) - 1)
        if self.hard_negatives is not None:
            check_range("hard_negatives", self.hard_negatives, 0, 1024)
        if self.granularities is not None and not self.granularities:
            raise ConfigError("granularities names none; pass None for the usual ones")
        for value in self.granularities or ():
            check_range("granularities", value, 1, 4096)
        for value in self.matryoshka:
            check_range("matryoshka", value, 1, 1 << 16)

    def to_dict(self) -> dict[str, Any]:
        """All options as JSON values."""
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in asdict(self).items()
        }


def check_positive(name: str, value: object) -> None:
    """Raise ConfigError unless ``value`` is a finite number above 0."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or value <= 0:  # type: ignore[arg-type, operator]
        raise ConfigError(f"{name}={value!r} must be a number above 0")


def require_training() -> None:
    """Raise MissingExtraError unless everything that the trainer needs is installed."""
    # In this order: sentence-transformers imports the others where it finds them.
    for module in ("accelerate", "datasets", "sentence_transformers"):
        require(module, extra="train")
