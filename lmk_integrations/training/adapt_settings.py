"""The options of an adaptation, checked before anything is opened."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, get_args

from lmk_integrations.encoder.settings import check_choice, check_range
from lmk_integrations.errors import ConfigError
from lmk_integrations.training.save import SavedDtype
from lmk_integrations.training.settings import Precision, check_positive

_MAY_BE_0 = (
    "weight_decay",
    "sharpen",
    "text_weight",
    "landmark_weight",
    "find_weight",
    "part_weight",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdaptSettings:
    """Options of `adapt`.

    steps: optimiser steps; minutes: as many steps as fit, by the pace of the first few; one of
        the two. batch: texts per step, from single sentences to ``longest`` tokens; accumulate:
        batches per step.
    granularities: tokens per landmark, one drawn for each text with the chances in ``shares``.
    max_tokens: positions of one window; None takes those of the base.
    context_tokens: the most tokens that the base reads at once for a target. Keep it to what the
        base was trained on; longer texts are the mean over such windows.
    lr: peak learning rate, after ``warmup`` (a share of the steps), falling to 0 as a cosine.
    sharpen: how much of the direction that tells a long text from others of its domain is added
        to its target (see `domains`); 0 keeps the plain mean over windows.
    text_weight, landmark_weight: of the distances to the targets; find_weight, part_weight: of
        finding a text by one of its chunks, by its vector and by its other landmarks, with
        ``temperature``; memory: text vectors of past steps that serve as further negatives.
    save_every: steps between checkpoints. dtype: of the weights as saved.
    """

    steps: int | None = None
    minutes: float | None = None
    batch: int = 24
    accumulate: int = 1
    longest: int = 3000
    granularities: tuple[int, ...] = (32, 64, 128, 256)
    shares: tuple[float, ...] = (0.5, 0.2, 0.2, 0.1)
    max_tokens: int | None = None
    context_tokens: int = 254
    lr: float = 2e-4
    warmup: float = 0.05
    weight_decay: float = 0.01
    sharpen: float = 0.5
    text_weight: float = 10.0
    landmark_weight: float = 10.0
    find_weight: float = 1.0
    part_weight: float = 0.3
    temperature: float = 0.02
    memory: int = 4096
    seed: int = 0
    save_every: int = 200
    dtype: SavedDtype = "float32"
    precision: Precision = "auto"
    device: str = "auto"

    def __post_init__(self) -> None:
        if (self.steps is None) == (self.minutes is None):
            raise ConfigError("pass either steps or minutes: how long to train")
        if self.minutes is not None:
            check_positive("minutes", self.minutes)
        for name, low in (("batch", 2), ("accumulate", 1), ("longest", 8), ("save_every", 1)):
            check_range(name, getattr(self, name), low, 1 << 20)
        for name in ("steps", "max_tokens"):
            if getattr(self, name) is not None:
                check_range(name, getattr(self, name), 1, 1 << 30)
        check_range("context_tokens", self.context_tokens, 4, 1 << 20)
        check_range("memory", self.memory, 0, 1 << 20)
        check_range("seed", self.seed, 0, (1 << 32) - 1)
        for value in self.granularities:
            check_range("granularities", value, 1, 4096)
        if not self.granularities or len(self.shares) != len(self.granularities):
            raise ConfigError(
                f"shares={self.shares!r} must give one chance for each of "
                f"granularities={self.granularities!r}"
            )
        for share in self.shares:
            check_positive("shares", share)
        for name in ("lr", "temperature"):
            check_positive(name, getattr(self, name))
        for name in _MAY_BE_0:
            _check_not_negative(name, getattr(self, name))
        if not 0 <= self.warmup < 1:
            raise ConfigError(f"warmup={self.warmup!r} must be a share of the steps, below 1")
        check_choice("dtype", self.dtype, get_args(SavedDtype))
        check_choice("precision", self.precision, get_args(Precision))

    def to_dict(self) -> dict[str, Any]:
        """All options as JSON values."""
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in asdict(self).items()
        }


def _check_not_negative(name: str, value: object) -> None:
    if value != 0:
        check_positive(name, value)
