"""Hard negatives: the texts that a model takes for answers, but which are none."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmk_integrations._extras import require
from lmk_integrations.encoder import LMKEncoder
from lmk_integrations.encoder.settings import check_range
from lmk_integrations.errors import ConfigError
from lmk_integrations.training.data import Example, TrainingData
from lmk_integrations.training.settings import require_training

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class MineSettings:
    """How negatives are chosen.

    negatives: per example, at most. margin: how much less similar than the positive a negative
    must be, as a share of the positive's similarity (0.05: at most 95 % of it), for a text that is
    nearly as similar may be an answer that nobody marked; 0 allows all below the positive.
    skip: ranks passed over from the top. depth: ranks looked at; None: ten per negative.
    """

    negatives: int = 7
    margin: float = 0.05
    skip: int = 0
    depth: int | None = None
    batch: int = 32

    def __post_init__(self) -> None:
        check_range("negatives", self.negatives, 1, 1024)
        check_range("skip", self.skip, 0, 1 << 20)
        check_range("batch", self.batch, 1, 1 << 20)
        if self.depth is not None:
            check_range("depth", self.depth, self.skip + self.negatives, 1 << 20)
        if not 0 <= self.margin < 1:
            raise ConfigError(f"margin={self.margin!r} must be at least 0 and below 1")


@dataclass(frozen=True, slots=True)
class MineReport:
    """What mining found. short: examples with fewer negatives than asked for, none included."""

    examples: int
    negatives: int
    short: int
    without: int


def mine(
    encoder: LMKEncoder,
    data: TrainingData,
    out: str | Path,
    settings: MineSettings | None = None,
) -> MineReport:
    """Find hard negatives for every example and write them as JSONL that `lmk train` reads.

    Negatives come from all texts of ``data``; another answer to the same query is none. Each
    line's scores are the encoder's cosines. Lines without a negative are written too.
    sentence-transformers shows its progress bars on stderr.

    Raises ConfigError where ``out`` exists, MissingExtraError without sentence-transformers.
    """
    require_training()
    settings = settings or MineSettings()
    out = Path(out)
    if out.exists():
        raise ConfigError(f"{out} exists already; pass another out, or delete it")
    found = _negatives(encoder, data, settings)
    counts: list[int] = []
    part = out.with_name(out.name + ".part")
    part.parent.mkdir(parents=True, exist_ok=True)
    with part.open("w", encoding="utf-8") as file:
        for example in _examples(data, found):
            counts.append(len(example.negatives))
            file.write(json.dumps(_row(example), ensure_ascii=False) + "\n")
    os.replace(part, out)
    return MineReport(
        examples=len(counts),
        negatives=sum(counts),
        short=sum(count < settings.negatives for count in counts),
        without=counts.count(0),
    )


_Found = dict[tuple[str, str], tuple[list[str], list[float]]]


def _negatives(encoder: LMKEncoder, data: TrainingData, settings: MineSettings) -> _Found:
    """By query and positive: texts, best first, and the scores of the positive and of each."""
    from sentence_transformers.util import mine_hard_negatives

    from lmk_integrations.sentence_transformers import to_sentence_transformer

    dataset = require("datasets", extra="train").Dataset
    pairs = dict.fromkeys((example.query, example.positive) for example in data.examples)
    model = to_sentence_transformer(encoder, device=encoder.device)
    rows = mine_hard_negatives(
        dataset.from_dict({"query": [q for q, _ in pairs], "positive": [p for _, p in pairs]}),
        model,
        corpus=list(data.corpus),
        range_min=settings.skip,
        range_max=settings.depth,
        relative_margin=settings.margin,
        num_negatives=settings.negatives,
        output_format="labeled-list",
        output_scores=True,
        batch_size=settings.batch,
        verbose=False,
    )
    columns = rows.column_names
    return {
        (row[columns[0]], row[columns[1]][0]): (row[columns[1]][1:], row[columns[2]])
        for row in rows
    }


def _examples(data: TrainingData, found: _Found) -> Iterator[Example]:
    for example in dict.fromkeys((example.query, example.positive) for example in data.examples):
        texts, scores = found.get(example, ([], []))
        yield Example(*example, tuple(texts), tuple(scores) or None)


def _row(example: Example) -> dict[str, Any]:
    row: dict[str, Any] = {"query": example.query, "positive": example.positive}
    row["negatives"] = list(example.negatives)
    if example.scores is not None:
        row["scores"] = list(example.scores)
    return row
