"""The whole study: one distillation, a training for each pooling and seed, scores, a report.

Everything is kept in one folder, and a call goes on where an earlier one stopped.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from lmk_integrations.core.pooling import Pooling
from lmk_integrations.encoder import EncodingCancelled
from lmk_integrations.encoder.backends.torch import pick_device
from lmk_integrations.encoder.locate import BASE_MODEL
from lmk_integrations.encoder.model import OpenModel
from lmk_integrations.encoder.settings import EncoderSettings
from lmk_integrations.errors import ConfigError, DocumentError
from lmk_integrations.evaluation.metrics import check_ranx
from lmk_integrations.study.cuts import CuttableSet
from lmk_integrations.study.distil import distil
from lmk_integrations.study.pairs import sentence_pairs
from lmk_integrations.study.report import Report, build_report
from lmk_integrations.study.scores import Scores, make_tasks, score_model
from lmk_integrations.study.settings import STUDY_POOLINGS, StudySettings
from lmk_integrations.training.contrastive import train
from lmk_integrations.training.corpus import iter_texts, read_corpus
from lmk_integrations.training.data import TrainingData
from lmk_integrations.training.progress import TrainProgress, Watcher
from lmk_integrations.training.settings import TrainSettings, require_training

PLANTED = ("passkey", "needle")
_WINDOW = 1024  # positions in training: room for 512 tokens and their landmarks

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class StudyResult:
    """report: None where the study was stopped before its end; seeds: those that are whole."""

    out: str
    report: Report | None
    seeds: tuple[int, ...]
    notes: tuple[str, ...]


def run_study(
    text: str | Path,
    sets: Sequence[str | Path],
    out: str | Path,
    settings: StudySettings,
    *,
    base: str | Path | None = None,
    on_progress: Progress | None = None,
    stop: threading.Event | None = None,
) -> StudyResult:
    """Train and score, or go on with it.

    text: files to train on, as `lmk adapt` reads them. sets: folders in BEIR's layout, at least
    one, never trained on; needles are hidden in their text. out: where everything is kept.
    base: the teacher, a BERT-like encoder; None is all-MiniLM-L6-v2.
    on_progress: called with (what is done, steps done, steps). stop: once set, the step in hand
    is finished, and a later call goes on.

    Raises ConfigError where ``out`` holds another study or lies in ``text``, or there is no set;
    DocumentError where there is no text, or not enough; MissingExtraError without the extra
    ``bench``.
    """
    require_training()
    check_ranx()
    _check_places(Path(text), sets, Path(out))
    study = _Study(Path(text), Path(out), settings, base, on_progress, stop or threading.Event())
    # Opened first: a wrong folder is told before hours of training.
    cuttable = [
        CuttableSet(Path(folder), study.teacher.tokenizer, settings.set_documents)
        for folder in sets
    ]
    names = [*PLANTED, *(one.name for one in cuttable)]
    if len(set(names)) < len(names):
        raise ConfigError(f"sets: two tasks of one name among {', '.join(names)}; rename a folder")
    tasks = make_tasks(cuttable, study.teacher.tokenizer, settings)
    study.check_text()
    whole: list[int] = []
    scores: dict[str, list[list[Scores]]] = {pooling: [] for pooling in STUDY_POOLINGS}
    finished = study.distil()
    notes = [f"{failed} could not be read" for failed in study.failed]
    for seed in settings.seeds if finished else ():
        of_seed = {}
        for pooling in STUDY_POOLINGS:
            directory = study.train(pooling, seed)
            if directory is None:
                break
            study.say(f"scoring {directory.name}", 0, len(tasks))
            try:
                of_seed[pooling] = score_model(
                    directory,
                    pooling,
                    tasks,
                    study.out / f"scores-{directory.name}.json",
                    longest=max(settings.lengths),
                    device=settings.device,
                    progress=study.say_scoring(directory.name),
                    cancelled=study.stop.is_set,
                )
            except EncodingCancelled:
                break
        if len(of_seed) < len(STUDY_POOLINGS):
            finished = False
            break
        for pooling, found in of_seed.items():
            scores[pooling].append(found)
        whole.append(seed)
    report = None
    if whole:
        report = build_report(scores, planted=PLANTED, trained=settings.text_tokens)
    if not finished:
        notes.append("stopped before the end: the same command goes on")
    return StudyResult(str(out), report, tuple(whole), tuple(notes))


def _check_places(text: Path, sets: Sequence[str | Path], out: Path) -> None:
    if not sets:
        raise ConfigError("sets names none: pass folders in BEIR's layout, to be cut and searched")
    if not text.exists():
        raise ConfigError(f"{text}: no such file or folder; pass plain text to train on")
    if out.resolve().is_relative_to(text.resolve()):
        raise ConfigError(f"{out} lies in {text}, and would be read as text; pass another out")


class _Study:
    """What the steps share: where things are, and whom to tell."""

    def __init__(
        self,
        text: Path,
        out: Path,
        settings: StudySettings,
        base: str | Path | None,
        on_progress: Progress | None,
        stop: threading.Event,
    ) -> None:
        self.out = out
        self.stop = stop
        self._text = text
        self._settings = settings
        self._on_progress = on_progress
        options = EncoderSettings(device=str(pick_device(settings.device)))
        self.teacher = OpenModel(BASE_MODEL if base is None else base, options)
        tokenizer = self.teacher.tokenizer
        if not tokenizer.prefix or not tokenizer.suffix or tokenizer.landmark_id is None:
            raise ConfigError(
                f"base={self.teacher.name!r} does not frame texts with tokens such as [CLS] and "
                "[SEP], which cls and lmk pooling need; pass another"
            )
        self.failed: list[str] = []
        out.mkdir(parents=True, exist_ok=True)
        self._texts: list[str] = []

    def say(self, what: str, done: int, total: int) -> None:
        """Tell how far a step is."""
        if self._on_progress is not None:
            self._on_progress(what, done, total)

    def say_scoring(self, name: str) -> Progress:
        """For `score_model`."""
        return lambda task, done, total: self.say(f"scoring {name}", done, total)

    def check_text(self) -> None:
        """Raise DocumentError for a text that has no pairs to train on."""
        self.say("reading text", 0, 1)
        self._pairs(self._settings.seeds[0])

    def distil(self) -> bool:
        """The encoder that all trainings start from; whether it is finished."""
        corpus = read_corpus(self._text, self.teacher.tokenizer)
        self.failed = list(corpus.failed)
        return distil(
            self.teacher,
            corpus,
            self.out / "base",
            self._settings,
            lambda: Watcher(self._watching("distilling"), self.stop),
        )

    def train(self, pooling: Pooling, seed: int) -> Path | None:
        """The directory of a trained encoder; None where it was stopped."""
        settings = self._settings
        directory = self.out / f"{pooling}-{seed}"
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*was not trained for landmarks")
            report = train(
                self.out / "base",
                self._pairs(seed),
                directory,
                TrainSettings(
                    pooling=pooling,
                    steps=settings.steps,
                    batch=settings.batch,
                    lr=settings.lr,
                    text_tokens=settings.text_tokens,
                    max_tokens=max(_WINDOW, 2 * settings.text_tokens),
                    seed=seed,
                    save_every=settings.save_every,
                    device=settings.device,
                ),
                resume=True,
                on_progress=self._watching(f"training {directory.name}"),
                stop=self.stop,
            )
        return None if report.stopped else directory

    def _pairs(self, seed: int) -> TrainingData:
        if not self._texts:
            self._texts = list(iter_texts(self._text, []))
        if not self._texts:
            raise DocumentError(f"{self._text} holds no text to train on", "training_data")
        settings = self._settings
        count = settings.steps * settings.batch
        return sentence_pairs(self._texts, count, seed, text_tokens=settings.text_tokens)

    def _watching(self, what: str) -> Callable[[TrainProgress], None]:
        return lambda progress: self.say(what, progress.step, progress.steps)
