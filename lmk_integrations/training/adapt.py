"""Any sentence encoder -> its landmark version, from plain text without labels.

Self-distillation: the student starts as the base and reads ``[CLS] c1 [SEP] c2 [SEP] ...``; the
frozen base, with its own pooling, says what the vectors should be. See `objective` for the aims.
"""

from __future__ import annotations

import re
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import Trainer

from lmk_integrations._extras import require
from lmk_integrations.encoder.backends.torch import load_transformer, pick_device, quiet
from lmk_integrations.encoder.model import OpenModel
from lmk_integrations.encoder.settings import EncoderSettings
from lmk_integrations.errors import ConfigError
from lmk_integrations.training.adapt_settings import AdaptSettings
from lmk_integrations.training.card import ModelCard
from lmk_integrations.training.checkpoints import Checkpoints, check_out, write_whole
from lmk_integrations.training.corpus import Corpus, read_corpus
from lmk_integrations.training.in_order import in_order_trainer, losses_of
from lmk_integrations.training.objective import Objective, StudentLayout
from lmk_integrations.training.pieces import Piece, Steps
from lmk_integrations.training.precision import autocasts
from lmk_integrations.training.progress import OnProgress, Watcher
from lmk_integrations.training.save import save_landmark_model
from lmk_integrations.training.teacher import Teacher

# What may differ when a training is resumed: none of it changes what is learned.
_FREE = ("save_every", "device", "minutes", "steps", "dtype")
_TIMED_BATCHES = 4
_TEXT_TOKENS = 512  # of a text with several landmarks, about
_SAMPLED_TEXTS = 400  # to learn what domains the corpus has


@dataclass(frozen=True, slots=True)
class AdaptReport:
    """What an adaptation did.

    losses: (step, mean loss since the one before). tokens: of text read, landmarks not counted.
    stopped: before its end; its checkpoints are kept, and ``resume`` goes on. seconds: of this
    call. failed: files of the text that could not be read.
    """

    out: str
    steps: int
    tokens: int
    documents: int
    losses: tuple[tuple[int, float], ...]
    seconds: float
    stopped: bool = False
    failed: tuple[str, ...] = ()


def adapt(
    base: str | Path | None,
    text: str | Path,
    out: str | Path,
    settings: AdaptSettings,
    *,
    resume: bool = False,
    evaluate: Callable[[Path], dict[str, float]] | None = None,
    on_progress: OnProgress | None = None,
    stop: threading.Event | None = None,
) -> AdaptReport:
    """Adapt ``base`` to landmarks with the files below ``text``; write what `LMKEncoder` opens.

    base: as `LMKEncoder` takes a model. out: holds the checkpoints until the end, and then the
    model, its card and training.json, the report.
    resume: go on from the last checkpoint, to the same loss curve; from the start if there is
    none. evaluate: called with the model's directory, gives figures for its card.
    stop: once set, the step in hand is finished, a checkpoint written and the report returned.

    Raises ConfigError where settings, model and text do not go together or ``out`` holds something
    already, DocumentError where there is no text, MissingExtraError without accelerate.
    """
    require("accelerate", extra="train")
    out = Path(out)
    began = time.monotonic()
    check_out(out, resume=resume)  # reading the text may take long
    if Path(text).is_dir() and out.resolve().is_relative_to(Path(text).resolve()):
        raise ConfigError(f"{out} is inside the text {text}, which would be read from it, too")
    device = pick_device(settings.device)
    teacher_model = _open(base, settings, str(device), pooling=None)
    student_model = _open(base, settings, str(device), pooling="lmk")
    granularities = _fitting(settings, student_model)
    corpus = read_corpus(text, teacher_model.tokenizer)
    checkpoints = Checkpoints(out, _identity(settings, corpus, teacher_model))
    if (done := checkpoints.finished(resume=resume)) is not None:
        return _report_from({**done, "out": str(out)})
    with checkpoints.begin(resume=resume) as checkpoint:
        run = _Run(settings, corpus, teacher_model, student_model, granularities)
        steps = _steps(settings, checkpoints, run, device, resume=checkpoint is not None)
        watcher = Watcher(on_progress, stop)
        trainer = run.trainer(steps, checkpoints.folder, watcher, device)
        with quiet():
            trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))
        report = AdaptReport(
            out=str(out),
            steps=int(trainer.state.global_step),
            tokens=run.tokens(int(trainer.state.global_step) * settings.accumulate),
            documents=corpus.documents,
            losses=losses_of(trainer),
            seconds=time.monotonic() - began,
            stopped=watcher.stopped,
            failed=corpus.failed,
        )
        if not watcher.stopped:
            _save(run, out, "", settings)
            figures = {} if evaluate is None else evaluate(out)
            card = _card(out, teacher_model, corpus, settings, report, figures)
            _save(run, out, card, settings)
            checkpoints.finish({**asdict(report), "out": out.resolve().name})
    return report


class _Run:
    """The student, its teacher and the batches of one training."""

    def __init__(
        self,
        settings: AdaptSettings,
        corpus: Corpus,
        teacher_model: OpenModel,
        student_model: OpenModel,
        granularities: tuple[int, ...],
    ) -> None:
        self.settings = settings
        self.granularities = granularities
        self.student_model = student_model
        self.steps = Steps(corpus, settings, np.array(granularities, np.int64))
        self._teacher = Teacher(teacher_model, settings.context_tokens, settings.sharpen)
        # Texts drawn twice would look like texts that are alike.
        sampled = min(_SAMPLED_TEXTS, len(corpus.ids) // (2 * _TEXT_TOKENS))
        self._teacher.learn_domains(self.steps.sample(sampled), settings.seed)
        self._layout = StudentLayout(student_model)
        student, _ = load_transformer(student_model.transformer, torch.float32)
        self.objective = Objective(
            student, student_model, settings, memory=_memory(settings, corpus)
        )

    def batch(self, number: int) -> dict[str, Any]:
        """What `Objective` takes, for the batch of this number."""
        pieces: list[Piece] = self.steps.batch(number)
        return {
            "windows": self._layout.windows(pieces),
            "targets": self._teacher.targets(pieces),
        }

    def tokens(self, batches: int) -> int:
        """How many tokens of text the first batches hold."""
        return sum(len(piece.ids) for n in range(batches) for piece in self.steps.batch(n))

    def trainer(self, steps: int, folder: Path, watcher: Watcher, device: torch.device) -> Trainer:
        """The trainer of this run."""
        settings = self.settings
        return in_order_trainer(
            self.objective,
            self.batch,
            steps,
            folder,
            watcher,
            device,
            lr=settings.lr,
            warmup=settings.warmup,
            weight_decay=settings.weight_decay,
            seed=settings.seed,
            save_every=settings.save_every,
            precision=settings.precision,
            accumulate=settings.accumulate,
        )


def _open(base: str | Path | None, settings: AdaptSettings, device: str, pooling: Any) -> OpenModel:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*was not trained for landmarks")
        options = EncoderSettings(
            pooling=pooling, granularity=1, max_tokens=settings.max_tokens, device=device
        )
        return OpenModel(base, options)


def _fitting(settings: AdaptSettings, opened: OpenModel) -> tuple[int, ...]:
    """The granularities that leave a window room for at least one chunk."""
    capacity = StudentLayout(opened).capacity
    fitting = tuple(value for value in settings.granularities if value < capacity)
    if not fitting:
        raise ConfigError(
            f"granularities={settings.granularities!r}: a window of {opened.name!r} has room for "
            f"{capacity - 1} tokens and their landmark; pass smaller ones"
        )
    return fitting


def _identity(settings: AdaptSettings, corpus: Corpus, base: OpenModel) -> dict[str, Any]:
    options = {name: value for name, value in settings.to_dict().items() if name not in _FREE}
    return {**options, "text": corpus.digest, "base": base.space_parts.digest}


def _memory(settings: AdaptSettings, corpus: Corpus) -> int:
    """How many texts to remember: no more than a quarter of what the corpus holds.

    Else the same words would come as a text and as its negative.
    """
    return min(settings.memory, len(corpus.ids) // (4 * _TEXT_TOKENS))


def _steps(
    settings: AdaptSettings,
    checkpoints: Checkpoints,
    run: _Run,
    device: torch.device,
    *,
    resume: bool,
) -> int:
    """How many steps to train. With ``minutes``: by the pace of a few, kept for a resume."""
    if settings.steps is not None:
        return settings.steps
    noted = checkpoints.folder / "steps.txt"
    if resume and noted.is_file():
        return int(noted.read_text(encoding="utf-8"))
    assert settings.minutes is not None
    objective = run.objective.to(device).train()
    enabled = autocasts(settings.precision, device)
    seconds = []
    for number in range(_TIMED_BATCHES):
        began = time.monotonic()
        batch = run.batch(number)
        with torch.autocast(device.type, torch.bfloat16, enabled=enabled):
            objective(**batch).backward()
        seconds.append(time.monotonic() - began)
    objective.zero_grad(set_to_none=True)
    objective.forget()
    pace = float(np.mean(seconds[1:])) * settings.accumulate
    steps = max(1, round(settings.minutes * 60 / pace))
    write_whole(noted, f"{steps}\n")
    return steps


def _save(run: _Run, out: Path, card: str, settings: AdaptSettings) -> None:
    opened = run.student_model
    usual = 32 if 32 in run.granularities else run.granularities[0]
    save_landmark_model(
        run.objective.student,
        opened.directory,
        out,
        granularity=usual,
        max_tokens=opened.max_tokens,
        trained_granularities=run.granularities,
        dtype=settings.dtype,
        card=card,
        keep_dense=True,
    )


def _card(
    out: Path,
    base: OpenModel,
    corpus: Corpus,
    settings: AdaptSettings,
    report: AdaptReport,
    figures: dict[str, float],
) -> str:
    return ModelCard(
        name=out.resolve().name,
        base=_name(base),
        summary="The landmark version of the base, made by `lmk adapt` from plain text without "
        "labels: its landmarks, and their mean, live in the base's own vector space.",
        data=[
            f"{corpus.documents:,} documents, {corpus.characters:,} characters, of which "
            f"{report.tokens:,} tokens were read in {report.steps:,} steps"
        ],
        settings={key: value for key, value in settings.to_dict().items() if value is not None},
        figures={
            **figures,
            "first loss": report.losses[0][1],
            "last loss": report.losses[-1][1],
        },
        license=(license_name := base_license(base.directory)),
        notes=[
            f"Derived from {_name(base)}, whose weights it was initialised with"
            + (f" ({license_name}, as its card says)." if license_name else ".")
            + " Changed: all weights, by the training above."
        ],
    ).render()


def _name(base: OpenModel) -> str:
    return Path(base.name).name if Path(base.name).exists() else base.name


def base_license(directory: Path) -> str | None:
    """The licence that a model's card names in its metadata; None where it names none."""
    try:
        text = (directory / "README.md").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    head = re.match(r"---\n(.*?)\n---", text, re.DOTALL)
    found = re.search(r"^license:[ \t]*([\w.+-]+)[ \t]*$", head[1], re.MULTILINE) if head else None
    return found[1] if found else None


def _report_from(saved: dict[str, Any]) -> AdaptReport:
    losses = tuple((int(step), float(loss)) for step, loss in saved.pop("losses"))
    return AdaptReport(**{**saved, "losses": losses, "failed": tuple(saved["failed"])})
