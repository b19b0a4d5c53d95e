"""The paper's supervised recipe ("LMK > CLS", arXiv 2601.21525), in sentence-transformers' trainer.

Contrastive, with in-batch and hard negatives, temperature 0.02, and the granularity drawn for
each text.
"""

from __future__ import annotations

import logging
import threading
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lmk_integrations._extras import require
from lmk_integrations.encoder import LMKEncoder
from lmk_integrations.encoder.backends.torch import pick_device, quiet
from lmk_integrations.encoder.model import OpenModel
from lmk_integrations.encoder.settings import EncoderSettings
from lmk_integrations.errors import ConfigError, DocumentError
from lmk_integrations.training.card import ModelCard
from lmk_integrations.training.checkpoints import Checkpoints
from lmk_integrations.training.data import Example, TrainingData
from lmk_integrations.training.in_order import losses_of
from lmk_integrations.training.progress import OnProgress, Watcher
from lmk_integrations.training.settings import (
    DEFAULT_GRANULARITIES,
    MOST_DEFAULT_NEGATIVES,
    TrainSettings,
    require_training,
)

log = logging.getLogger(__name__)

# What may differ when a training is resumed: none of it changes what is learned.
_FREE = ("save_every", "device")


@dataclass(frozen=True, slots=True)
class TrainReport:
    """What a training did.

    losses: (step, mean loss since the one before). stopped: before its end; its checkpoints are
    kept, and the same call with ``resume`` goes on. seconds: of this call.
    """

    out: str
    steps: int
    examples: int
    negatives: int
    losses: tuple[tuple[int, float], ...]
    seconds: float
    stopped: bool = False


def train(
    base: str | Path | None,
    data: TrainingData,
    out: str | Path,
    settings: TrainSettings | None = None,
    *,
    resume: bool = False,
    on_progress: OnProgress | None = None,
    stop: threading.Event | None = None,
) -> TrainReport:
    """Train ``base`` on ``data`` and write a directory that `LMKEncoder` opens.

    base: as `LMKEncoder` takes a model; None is the shipped one. out: holds the checkpoints until
    the end, and then the model, its card and training.json, the report.
    resume: go on from the last checkpoint, to the same loss curve; from the start if there is
    none; a finished training is left as it is. stop: once set, the step in hand is finished, a
    checkpoint written and the report returned.

    Raises ConfigError where the settings, the model and the data do not go together or ``out``
    holds something already, MissingExtraError without sentence-transformers, accelerate, datasets.
    """
    require_training()
    settings = settings or TrainSettings()
    out = Path(out)
    checkpoints = Checkpoints(out, _identity(base, data, settings))
    if (done := checkpoints.finished(resume=resume)) is not None:
        losses = tuple((int(step), float(loss)) for step, loss in done["losses"])
        return TrainReport(**{**done, "out": str(out), "losses": losses})
    negatives = _count_negatives(data, settings)
    columns = _columns(data, settings, negatives)
    from lmk_integrations.training.trainer import build_trainer  # needs the extra

    model = _model(base, settings)
    with checkpoints.begin(resume=resume) as checkpoint:
        watcher = Watcher(on_progress, stop)
        trainer = build_trainer(model, settings, columns, checkpoints.folder, watcher)
        with quiet():
            result = trainer.train(
                resume_from_checkpoint=None if checkpoint is None else str(checkpoint)
            )
        report = TrainReport(
            out=str(out),
            steps=int(trainer.state.global_step),
            examples=len(data.examples),
            negatives=negatives,
            losses=losses_of(trainer),
            seconds=float(result.metrics["train_runtime"]),
            stopped=watcher.stopped,
        )
        if not watcher.stopped:
            _write_model(trainer.model, base, data, settings, out, report)
            checkpoints.finish({**asdict(report), "out": out.resolve().name})
    return report


def _model(base: str | Path | None, settings: TrainSettings) -> Any:
    """The base as a SentenceTransformer in training: float32, granularities drawn."""
    from lmk_integrations.sentence_transformers import to_sentence_transformer

    device = pick_device(settings.device)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*was not trained for landmarks")
        probe = _open(base, settings, str(device), granularity=1)
        tokenizer = probe.model.tokenizer
        room = probe.max_tokens - len(tokenizer.prefix) - len(tokenizer.suffix) - 1
        granularities = _granularities(settings, room)
        # The one that the model is saved with, and used with unless told otherwise.
        usual = DEFAULT_GRANULARITIES[0]
        own = min(usual, room) if not granularities else min(granularities)
        own = usual if usual in granularities else own
        opened = _open(base, settings, str(device), granularity=own)
    return to_sentence_transformer(
        opened,
        train_granularities=granularities,
        train_text_tokens=settings.text_tokens,
        seed=settings.seed,
        device=str(device),
    )


def _open(
    base: str | Path | None, settings: TrainSettings, device: str, *, granularity: int
) -> LMKEncoder:
    return LMKEncoder(
        base,
        pooling=settings.pooling,
        granularity=granularity,
        max_tokens=settings.max_tokens,
        device=device,
        dtype="float32",
    )


def _granularities(settings: TrainSettings, room: int) -> tuple[int, ...]:
    """Those to draw from. room: positions of a window for a chunk and its landmark."""
    if settings.pooling != "lmk":
        return ()
    if settings.granularities is not None:
        return settings.granularities
    fitting = tuple(value for value in DEFAULT_GRANULARITIES if value <= room)
    if not fitting:
        raise ConfigError(
            f"a window has room for {room} tokens, less than {DEFAULT_GRANULARITIES[0]} per "
            "landmark; pass smaller granularities, or a larger max_tokens"
        )
    return fitting


def _count_negatives(data: TrainingData, settings: TrainSettings) -> int:
    """How many hard negatives each example gives."""
    fewest = min(len(example.negatives) for example in data.examples)
    wanted = settings.hard_negatives
    if wanted is None:
        wanted = min(fewest, MOST_DEFAULT_NEGATIVES)
    for where, example in zip(data.where, data.examples, strict=True):
        if len(example.negatives) < wanted:
            raise DocumentError(
                f"{where} has {len(example.negatives)} negatives, but hard_negatives={wanted}; "
                "mine more with lmk mine, or ask for fewer",
                "training_data",
            )
        if settings.teacher_scores is not None and example.scores is None:
            raise DocumentError(
                f"{where} has no scores, which teacher_scores learns from", "training_data"
            )
    if settings.teacher_scores is not None and wanted == 0:
        raise ConfigError("teacher_scores needs at least one hard negative for every query")
    kinds = (len({getattr(one, name) for one in data.examples}) for name in ("query", "positive"))
    if wanted == 0 and min(kinds) < 2:  # the loss would be 0 from the first step
        raise DocumentError(
            f"{data.name} has one query or one positive and no negatives, so there is nothing to "
            "tell apart; add examples, or negatives",
            "training_data",
        )
    return wanted


def _columns(data: TrainingData, settings: TrainSettings, negatives: int) -> Any:
    """The examples as sentence-transformers' losses want them: a column per text."""
    examples = data.examples
    columns: dict[str, list[Any]] = {
        "query": [example.query for example in examples],
        "positive": [example.positive for example in examples],
    }
    for place in range(negatives):
        columns[f"negative_{place + 1}"] = [example.negatives[place] for example in examples]
    if settings.teacher_scores is not None:
        columns["label"] = [_labels(example, settings, negatives) for example in examples]
    return require("datasets", extra="train").Dataset.from_dict(columns)


def _labels(example: Example, settings: TrainSettings, negatives: int) -> list[float]:
    assert example.scores is not None
    return [score / settings.teacher_temperature for score in example.scores[: 1 + negatives]]


def _identity(
    base: str | Path | None, data: TrainingData, settings: TrainSettings
) -> dict[str, Any]:
    """What must be the same for a training to be resumed."""
    options = {name: value for name, value in settings.to_dict().items() if name not in _FREE}
    # By what it is, and by its name: a folder may have come to hold another model.
    space = OpenModel(base, EncoderSettings()).space_parts.digest
    return {**options, "base": _name(base), "base_space": space, "data": data.digest}


def _name(base: str | Path | None) -> str:
    """What goes into files that people publish: no path of this machine."""
    if base is None:
        return "the shipped model"
    path = Path(base).expanduser()
    return path.resolve().name if path.is_dir() else str(base)


def _write_model(
    model: Any,
    base: str | Path | None,
    data: TrainingData,
    settings: TrainSettings,
    out: Path,
    report: TrainReport,
) -> None:
    """The model and its card."""
    model.eval()
    model.save_pretrained(str(out), create_model_card=False)
    first, last = report.losses[0][1], report.losses[-1][1]
    card = ModelCard(
        name=out.resolve().name,
        base=_name(base),
        summary=f"A text encoder with {settings.pooling} pooling, trained contrastively with "
        f"in-batch negatives and {report.negatives} hard negatives per query by `lmk train`.",
        data=[f"{data.name}: {report.examples:,} examples"],
        settings=_shown(model, settings),
        figures={"steps": report.steps, "first loss": first, "last loss": last},
    )
    (out / "README.md").write_text(card.render(), encoding="utf-8")


def _shown(model: Any, settings: TrainSettings) -> dict[str, Any]:
    """The settings as they were in the end, without those that played no part."""
    shown = settings.to_dict()
    shown["max_tokens"] = model[0].max_seq_length
    shown["granularities"] = model[0].training_layout.granularities
    unused = {"steps" if settings.steps is None else "epochs", "save_every", "device"}
    if settings.teacher_scores is None:
        unused |= {"teacher_weight", "teacher_temperature"}
    return {
        name: value
        for name, value in shown.items()
        if name not in unused and value is not None and value != [] and value != ()
    }
