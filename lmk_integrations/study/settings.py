"""The options of the study, checked before anything is read."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from lmk_integrations.core.pooling import Pooling
from lmk_integrations.encoder.settings import check_range
from lmk_integrations.errors import ConfigError
from lmk_integrations.training.settings import check_positive

MOST_PLANTED = 900
"""Documents with a fact about a person each: as many as `planted` has names."""

STUDY_POOLINGS: tuple[Pooling, ...] = ("cls", "mean", "lmk")


@dataclass(frozen=True, slots=True, kw_only=True)
class StudySettings:
    """Options of `run_study`.

    layers: of the small encoder; its width is that of the teacher's word embeddings.
    distil_steps, distil_lr: of the one distillation that all trainings start from.
    steps, batch, lr: of each training. text_tokens: the longest text in it.
    seeds: one training of each pooling for every seed.
    lengths: tokens that documents are cut to. documents: planted ones at each length.
    set_documents: at most so many of each retrieval set.
    """

    layers: int = 4
    distil_steps: int = 700
    distil_lr: float = 1e-3
    steps: int = 200
    batch: int = 64
    lr: float = 2e-4
    text_tokens: int = 512
    seeds: tuple[int, ...] = (0,)
    lengths: tuple[int, ...] = (256, 512, 1024, 2048, 4096, 8192)
    documents: int = 60
    set_documents: int = 150
    save_every: int = 50
    device: str = "auto"

    def __post_init__(self) -> None:
        check_range("layers", self.layers, 1, 6)
        for name in ("distil_steps", "steps", "set_documents", "save_every"):
            check_range(name, getattr(self, name), 1, 1 << 20)
        check_range("batch", self.batch, 2, 4096)
        check_range("documents", self.documents, 2, MOST_PLANTED)
        check_range("text_tokens", self.text_tokens, 32, 8192)
        for name in ("distil_lr", "lr"):
            check_positive(name, getattr(self, name))
        for name, low, high in (("seeds", 0, (1 << 32) - 1), ("lengths", 64, 1 << 17)):
            values = getattr(self, name)
            for value in values:
                check_range(name, value, low, high)
            if not values or len(set(values)) < len(values):
                raise ConfigError(f"{name}={values!r} must name at least one, and none twice")

    def to_dict(self) -> dict[str, Any]:
        """All options as JSON values."""
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in asdict(self).items()
        }
