"""Where all trainings of the study start: a small encoder that was taught a teacher's states.

No pooling shall start ahead of the others. So the three take turns, batch by batch: the text is
read as that pooling reads it, the states of its tokens learn the teacher's, and the pooled vector
learns the teacher's vector.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from lmk_integrations.core.landmarks import chunk_bounds, insert_landmarks
from lmk_integrations.encoder.backends.torch import load_transformer, pick_device, quiet
from lmk_integrations.encoder.model import OpenModel
from lmk_integrations.errors import DocumentError
from lmk_integrations.study.settings import STUDY_POOLINGS, StudySettings
from lmk_integrations.study.small import save_small, small_encoder
from lmk_integrations.training.checkpoints import Checkpoints
from lmk_integrations.training.corpus import Corpus
from lmk_integrations.training.in_order import in_order_trainer, losses_of
from lmk_integrations.training.precision import autocasts
from lmk_integrations.training.progress import Watcher

Ints = NDArray[np.int64]

GRANULARITIES = (32, 64, 128, 256)
TOKENS_PER_BATCH = 8192
_SHORTEST = 24
_SEED = 0
_MAX_TOKENS = 1024


class Distillation(torch.nn.Module):
    """The student and its loss: the states' squared error + 1 - cosine of the vectors."""

    def __init__(self, student: Any) -> None:
        super().__init__()
        self.student = student

    def forward(
        self,
        ids: torch.Tensor,
        tokens: torch.Tensor,
        pooled: torch.Tensor,
        states: torch.Tensor,
        vectors: torch.Tensor,
    ) -> torch.Tensor:
        """ids: (n, length); tokens, pooled: positions of the text's tokens and of those that are
        averaged; states: (n, n_tokens, dim) and vectors: (n, dim) of the teacher. Returns ()."""
        found = self.student(input_ids=ids).last_hidden_state.float()
        # Both in units of their usual length: the student's last norm gives sqrt(dim).
        taught = states / states.norm(dim=-1).mean()
        error = (found[:, tokens] / found.shape[-1] ** 0.5 - taught).square().sum(-1)
        cosine = functional.cosine_similarity(found[:, pooled].mean(dim=1), vectors)
        loss: torch.Tensor = error.mean() + (1 - cosine).mean()
        return loss


class Batches:
    """Texts of equal length, by number, so that nothing is padded; with the teacher's answers."""

    def __init__(self, corpus: Corpus, teacher: OpenModel, device: torch.device) -> None:
        self._corpus = corpus
        model, _ = load_transformer(teacher.transformer, torch.float32)
        self._model = model.to(device).eval()
        self._device = device
        tokenizer = teacher.tokenizer
        self._prefix, self._suffix = tokenizer.prefix, tokenizer.suffix
        assert tokenizer.landmark_id is not None
        self._landmark_id = tokenizer.landmark_id
        # What the teacher was trained on, not what its position table holds.
        window = min(256, teacher.max_tokens)
        self._longest = window - len(self._prefix) - len(self._suffix)
        if len(corpus.ids) <= self._longest:
            raise DocumentError(
                f"the text has {len(corpus.ids)} tokens, of which batches of {self._longest} are "
                "to be cut; pass more",
                "training_data",
            )

    def batch(self, number: int) -> dict[str, torch.Tensor]:
        """What `Distillation` takes."""
        rng = np.random.default_rng((_SEED, number))
        n_tokens = round(float(np.exp(rng.uniform(np.log(_SHORTEST), np.log(self._longest)))))
        texts = self._texts(rng, n_tokens, TOKENS_PER_BATCH // n_tokens)
        granularity = int(rng.choice(GRANULARITIES))
        pooling = STUDY_POOLINGS[number % len(STUDY_POOLINGS)]
        whole = [np.concatenate([self._prefix, ids, self._suffix]) for ids in texts]
        begin = len(self._prefix)
        tokens, pooled = begin + np.arange(n_tokens), np.arange(len(whole[0]))
        rows = whole
        if pooling == "cls":
            pooled = pooled[:1]
        elif pooling == "lmk":
            bounds = chunk_bounds(n_tokens, granularity)
            both = [insert_landmarks(ids, bounds, self._landmark_id, self._prefix) for ids in texts]
            rows, pooled = [ids for ids, _ in both], both[0][1]
            tokens = np.setdiff1d(np.arange(begin, len(rows[0])), pooled)
        states = self._states(np.stack(whole))
        return {
            "ids": torch.from_numpy(np.stack(rows)),
            "tokens": torch.from_numpy(tokens),
            "pooled": torch.from_numpy(pooled),
            "states": states[:, begin : begin + n_tokens],
            "vectors": states.mean(dim=1),
        }

    @torch.no_grad()
    def _states(self, ids: Ints) -> torch.Tensor:
        enabled = autocasts("auto", self._device)
        with torch.autocast(self._device.type, torch.bfloat16, enabled=enabled):
            found: torch.Tensor = self._model(
                input_ids=torch.from_numpy(ids).to(self._device)
            ).last_hidden_state
        return found.float()

    def _texts(self, rng: np.random.Generator, n_tokens: int, count: int) -> list[Ints]:
        """Slices that begin with a sentence; over the end of a document where one is short."""
        corpus = self._corpus
        last = len(corpus.ids) - n_tokens
        places = (
            np.searchsorted(corpus.starts, rng.integers(last + 1, size=count), side="right") - 1
        )
        starts = np.minimum(corpus.starts[places], last)
        return [corpus.ids[at : at + n_tokens].astype(np.int64) for at in starts.tolist()]


def distil(
    teacher: OpenModel,
    corpus: Corpus,
    out: Path,
    settings: StudySettings,
    watcher_of: Callable[[], Watcher],
) -> bool:
    """Make the small encoder in ``out``, going on where an earlier call stopped.

    Returns whether it is finished: False once the watcher was told to stop.
    """
    identity = {
        "layers": settings.layers,
        "steps": settings.distil_steps,
        "lr": settings.distil_lr,
        "text": corpus.digest,
        "teacher": teacher.space_parts.digest,
    }
    checkpoints = Checkpoints(out, identity)
    if checkpoints.finished(resume=True) is not None:
        return True
    device = pick_device(settings.device)
    with checkpoints.begin(resume=True) as checkpoint:
        student = small_encoder(teacher, settings.layers, _SEED)
        student.get_input_embeddings().weight.requires_grad_(False)  # the teacher's, to begin with
        objective = Distillation(student)
        watcher = watcher_of()
        trainer = in_order_trainer(
            objective,
            Batches(corpus, teacher, device).batch,
            settings.distil_steps,
            checkpoints.folder,
            watcher,
            device,
            lr=settings.distil_lr,
            warmup=0.05,
            weight_decay=0.01,
            seed=_SEED,
            save_every=settings.save_every,
        )
        with quiet():
            trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))
        if watcher.stopped:
            return False
        save_small(objective.student, teacher, out, _MAX_TOKENS)
        checkpoints.finish({"losses": losses_of(trainer)})
    return True
