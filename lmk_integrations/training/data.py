"""What a contrastive training reads: queries, the text that answers each, texts that do not."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmk_integrations.errors import ConfigError, DocumentError
from lmk_integrations.evaluation.dataset import Half, lines_of, load_beir
from lmk_integrations.text.repair import repair

_QRELS = ("qrels/train.tsv", "qrels.tsv")
_ROW = '{"query": "...", "positive": "...", "negatives": ["...", ...], "scores": [0.9, 0.1, ...]}'
_HIGHEST_SCORE = 1e30
_MEANT = {"negative": "negatives", "positives": "positive", "score": "scores"}


@dataclass(frozen=True, slots=True)
class Example:
    """A query, a text that answers it, texts that do not.

    scores: a teacher's, of the positive and then of each negative; None if there are none.
    """

    query: str
    positive: str
    negatives: tuple[str, ...] = ()
    scores: tuple[float, ...] | None = None


@dataclass(frozen=True, slots=True)
class TrainingData:
    """Examples, and every text that negatives may be mined from. where: of each, for messages."""

    name: str
    examples: tuple[Example, ...]
    where: tuple[str, ...]
    corpus: tuple[str, ...]

    @property
    def digest(self) -> str:
        """Equal for equal examples in equal order (hex)."""
        digest = hashlib.sha256()
        for example in self.examples:
            fields = (example.query, example.positive, example.negatives, example.scores)
            digest.update(json.dumps(fields).encode())
        return digest.hexdigest()


def read_training_data(
    source: str | Path, *, half: Half = "all", titles: bool = False
) -> TrainingData:
    """Read a JSONL file of examples, or a folder in BEIR's layout.

    A line of the file is an object with "query" and "positive", and may have "negatives" (a list
    of texts) and "scores" (a teacher's, of the positive and then of each negative).
    A folder holds corpus.jsonl, queries.jsonl and qrels/train.tsv or qrels.tsv; every judgement
    above 0 is an example. half, titles: as `RetrievalSet` has them, for folders only.

    Raises ConfigError where a file is missing, and DocumentError, naming file and line, where a
    line cannot be used.
    """
    source = Path(source).expanduser()
    if source.is_dir():
        return _from_folder(source, half, titles)
    if not source.is_file():
        raise ConfigError(f"{source}: no such file or folder; pass a JSONL file with lines {_ROW}")
    if half != "all" or titles:
        raise ConfigError(f"half and titles are for folders in BEIR's layout; {source} is a file")
    found = [(f"{source}, line {number}", line) for number, line in lines_of(source)]
    if not found:
        raise DocumentError(f"{source} is empty; write lines {_ROW}", "training_data")
    examples = tuple(_example(where, line) for where, line in found)
    corpus = _unique(
        text for example in examples for text in (example.positive, *example.negatives)
    )
    return TrainingData(source.name, examples, tuple(where for where, _ in found), corpus)


def _from_folder(folder: Path, half: Half, titles: bool) -> TrainingData:
    found = next((folder / name for name in _QRELS if (folder / name).is_file()), None)
    if found is None:
        raise ConfigError(
            f"{folder} lacks {' and '.join(_QRELS)}: a training needs judgements of its own "
            "(query-id, corpus-id, score, separated by tabs); those of a test set are not read"
        )
    dataset = load_beir(folder, found).select(half)
    documents = dict(zip(dataset.doc_ids, dataset.documents(titles=titles), strict=True))
    pairs = [
        (query_id, doc_id, Example(query, documents[doc_id]))
        for query_id, query in zip(dataset.query_ids, dataset.queries, strict=True)
        for doc_id in dataset.qrels[query_id]
    ]
    where = tuple(f"{folder}, query {query_id!r}" for query_id, _, _ in pairs)
    examples = tuple(example for _, _, example in pairs)
    return TrainingData(dataset.name, examples, where, _unique(documents.values()))


def _example(where: str, line: str) -> Example:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _bad(where, f"is not JSON ({error})", f"write {_ROW}") from error
    if not isinstance(row, dict):
        raise _bad(where, "is not a JSON object", f"write {_ROW}")
    for wrong, right in _MEANT.items():
        if wrong in row:
            raise _bad(where, f"has {wrong!r}", f"it is called {right!r}: {_ROW}")
    negatives = row.get("negatives", [])
    if not isinstance(negatives, list):
        raise _bad(where, f"has negatives of type {type(negatives).__name__}", "write a list")
    query, positive = (_text(where, name, row.get(name)) for name in ("query", "positive"))
    texts = tuple(_text(where, "negatives", text) for text in negatives)
    if positive in texts:
        raise _bad(where, "has its positive among its negatives", "remove it there")
    return Example(query, positive, texts, _scores(where, row.get("scores"), 1 + len(texts)))


def _scores(where: str, scores: Any, wanted: int) -> tuple[float, ...] | None:
    if scores is None:
        return None
    if not isinstance(scores, list) or len(scores) != wanted:
        raise _bad(
            where,
            "has scores that do not match",
            f"write {wanted}: that of the positive, then that of each negative",
        )
    for score in scores:
        is_number = isinstance(score, int | float) and not isinstance(score, bool)
        if not is_number or not abs(score) <= _HIGHEST_SCORE:
            raise _bad(
                where, f"has the score {str(score)[:40]}", "write a number that a float32 holds"
            )
    return tuple(float(score) for score in scores)


def _text(where: str, name: str, value: Any) -> str:
    text = repair(value).text if isinstance(value, str) else ""  # may be empty only now
    if not text.strip():
        what = "lacks" if value is None else "has an empty or wrong"
        raise _bad(where, f"{what} {name}", "write a text that is not empty")
    return text


def _unique(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(texts))


def _bad(where: str, what: str, remedy: str) -> DocumentError:
    return DocumentError(f"{where} {what}; {remedy}", "training_data")
