"""How a trained encoder ranks whole documents of every length, each read in one window."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lmk_integrations.core.pooling import Pooling
from lmk_integrations.encoder import LMKEncoder
from lmk_integrations.encoder.encoder import Cancelled
from lmk_integrations.encoder.tokens import Tokenizer
from lmk_integrations.errors import DocumentError
from lmk_integrations.evaluation.metrics import DEPTH, per_query
from lmk_integrations.evaluation.scoring import best_documents
from lmk_integrations.study.cuts import CuttableSet
from lmk_integrations.study.planted import PlantedSet, needles, passkeys
from lmk_integrations.study.settings import StudySettings
from lmk_integrations.study.tasks import Task
from lmk_integrations.training.checkpoints import write_whole

log = logging.getLogger(__name__)

METRIC = "ndcg@10"
GRANULARITY = 32
FEWEST_QUERIES = 5
_TOKEN_BUDGET = 16_384
_SEED = 0

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Scores:
    """nDCG@10 of each query of a task by one encoder, in the order of ``query_ids``."""

    task: str
    length: int
    query_ids: tuple[str, ...]
    values: tuple[float, ...]
    depths: tuple[float | None, ...]


def make_tasks(
    sets: Sequence[CuttableSet], tokenizer: Tokenizer, settings: StudySettings
) -> list[Task]:
    """All tasks, the short ones first.

    A set is not cut any longer than its longest document, and makes no task while its cuts answer
    hardly a query. Raises DocumentError for a set that makes none at all.
    """
    for one in sets:
        if not one.longest:
            raise DocumentError(f"{one.name}: its documents hold no text", "retrieval_set")
    prose = "\n\n".join(one.prose for one in sets)
    tasks = []
    for length in sorted(settings.lengths):
        planted = [passkeys(tokenizer, length, settings.documents, _SEED)]
        planted.append(needles(tokenizer, prose, length, settings.documents, _SEED))
        tasks += [_planted_task(one, length) for one in planted]
        for one in sets:
            # Past its longest document nothing changes any more.
            if all(task.length < one.longest for task in tasks if task.name == one.name):
                cut = one.cut(length)
                if len(cut.query_ids) >= FEWEST_QUERIES:
                    tasks.append(cut)
    for one in sets:
        if not any(task.name == one.name for task in tasks):
            raise DocumentError(
                f"{one.name}: fewer than {FEWEST_QUERIES} queries of the odd half are answered by "
                f"the first {max(settings.lengths)} tokens of a document; pass longer lengths, or "
                "leave the set out",
                "retrieval_set",
            )
    return tasks


def score_model(
    directory: Path,
    pooling: Pooling,
    tasks: Sequence[Task],
    kept: Path,
    *,
    longest: int,
    device: str,
    progress: Progress | None = None,
    cancelled: Cancelled | None = None,
) -> list[Scores]:
    """Score every task, writing each to ``kept`` when it is done; those there are not done again.

    longest: tokens of the longest document. Raises EncodingCancelled once ``cancelled`` says so.
    """
    encoder = LMKEncoder(
        directory,
        pooling=pooling,
        granularity=GRANULARITY,
        max_tokens=longest + longest // GRANULARITY + 16,  # with landmarks and special tokens
        token_budget=max(_TOKEN_BUDGET, 2 * longest),
        device=device,
        backend="torch",
    )
    found = read_scores(kept, encoder.fingerprint)
    for number, task in enumerate(tasks):
        if progress is not None:
            progress(task.name, number, len(tasks))
        if task.key in found:
            continue
        found[task.key] = _score(encoder, task, cancelled)
        rows = {key: asdict(scores) for key, scores in found.items()}
        write_whole(kept, json.dumps({"model": encoder.fingerprint, "scores": rows}) + "\n")
    return [found[task.key] for task in tasks]


def read_scores(path: Path, model: str) -> dict[str, Scores]:
    """The scores that are kept there, by their task's key.

    model: the fingerprint of the encoder. Those of another one are none, nor is a damaged file's.
    """
    try:
        saved = json.loads(path.read_text(encoding="utf-8"))
        return _rows(saved["scores"]) if saved["model"] == model else {}
    except FileNotFoundError:
        return {}
    except (ValueError, LookupError, TypeError, AttributeError):
        log.warning("%s is damaged; its scores are made again", path)
        return {}


def _rows(saved: dict[str, dict[str, Any]]) -> dict[str, Scores]:
    return {
        key: Scores(
            task=row["task"],
            length=row["length"],
            query_ids=tuple(row["query_ids"]),
            values=tuple(row["values"]),
            depths=tuple(row["depths"]),
        )
        for key, row in saved.items()
    }


def _score(encoder: LMKEncoder, task: Task, cancelled: Cancelled | None) -> Scores:
    queries = encoder.encode_queries(list(task.queries))
    documents = np.stack(
        [found.vector for found in encoder.iter_landmarks(task.texts, cancelled=cancelled)]
    )
    ranked = best_documents(queries @ documents.T, DEPTH)
    rankings = {
        query_id: [task.doc_ids[at] for at in order]
        for query_id, order in zip(task.query_ids, ranked, strict=True)
    }
    values = per_query(task.qrels, rankings)[METRIC]
    depths = tuple(task.depths[query_id] for query_id in task.query_ids)
    return Scores(task.name, task.length, task.query_ids, tuple(values.tolist()), depths)


def _planted_task(planted: PlantedSet, length: int) -> Task:
    ids = tuple(f"{planted.name}-{number}" for number in range(len(planted.texts)))
    return Task(
        name=planted.name,
        length=length,
        doc_ids=ids,
        texts=planted.texts,
        query_ids=ids,
        queries=planted.queries,
        qrels={one: {one: 1} for one in ids},
        depths=dict(zip(ids, planted.depths, strict=True)),
    )
