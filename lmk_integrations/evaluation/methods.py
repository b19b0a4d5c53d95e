"""Methods by name: what stands for a document, and how a query's scores with it become one.

A method turns each document into a few vectors (one, or one for each chunk or landmark) and takes
the best score among them, or the mean of the best few. Methods that need the same vectors share
the `Source` that makes them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from lmk_integrations.core.pooling import l2_normalize
from lmk_integrations.errors import ConfigError

Floats = NDArray[np.float32]

Kind = Literal["own", "chunks", "late", "landmarks", "raw-landmarks", "bm25"]
View = Literal["text", "mean", "rows", "runs"]

DEFAULT_METHODS = (
    "own",
    "chunks-254-mean",
    "chunks-254-best",
    "chunks-128-best",
    "chunks-64-best",
    "chunks-32-best",
    "late-32",
    "raw-lmk-text",
    "raw-lmk-best",
    "lmk-text",
    "lmk-best",
    "lmk-run",
    "lmk-top3",
    "bm25",
)
EXPLANATION = """\
methods:
  own               the base's own pooling, of the first 256 tokens (LangChain's default)
  chunks-N-mean     the base on chunks of N tokens: the mean of their vectors
  chunks-N-best     ...: the best chunk
  late-N            late chunking: the best mean over N states of the base's reading of the whole
  lmk-text          the landmark model's vector of the whole text
  lmk-best          ...: the best landmark
  lmk-run, lmk-runK ...: the best mean over 1 to K (3) landmarks in a row
  lmk-topK          ...: the mean of the K best landmarks' scores
  lmk-...@G         ... with a landmark after every G tokens
  raw-lmk-...       ... of the base, which never saw a landmark
  bm25              the best section by BM25
"""

_CHUNKS = re.compile(r"chunks-(?P<size>[1-9]\d{0,3})-(?P<how>mean|best)")
_LATE = re.compile(r"late-(?P<size>[1-9]\d{0,3})")
_LANDMARKS = re.compile(
    r"(?P<raw>raw-)?lmk-(?P<how>text|best|run|top)(?P<number>[1-9]\d?)?"
    r"(@(?P<granularity>[1-9]\d{0,3}|sentence))?"
)
_DEFAULT_RUN = 3


@dataclass(frozen=True, slots=True)
class Source:
    """What makes the vectors.

    size: tokens of a chunk ("chunks", "late") or between landmarks; None: the model's own.
    """

    kind: Kind
    size: int | str | None = None


@dataclass(frozen=True, slots=True)
class Method:
    """One way to rank documents.

    view: what is taken of each document: its text vector, the mean of its rows, its rows, or the
        means over 1 to ``longest`` rows in a row.
    best: how many of the best scores are averaged; 1 takes the best.
    """

    name: str
    source: Source
    view: View = "rows"
    longest: int = 1
    best: int = 1

    def candidates(self, vector: Floats, rows: Floats) -> Floats:
        """The vectors that stand for a document: (n_candidates, dim), all of unit length.

        vector: (dim,) the text's; rows: (n_rows, dim) of its chunks or landmarks, unit length.
        """
        if self.view == "text":
            return vector[None]
        if self.view == "mean":
            return l2_normalize(rows.mean(axis=0, dtype=np.float64).astype(np.float32)[None])
        if self.view == "rows":
            return rows
        return run_vectors(rows, self.longest)

    def reduce(self, scores: Floats, starts: NDArray[np.int64]) -> Floats:
        """Scores of candidates -> scores of documents.

        scores: (n_queries, n_candidates); starts: (n_documents,) where each document's begin.
        Returns (n_queries, n_documents) float32.
        """
        if self.best == 1:
            return np.asarray(np.maximum.reduceat(scores, starts, axis=1), np.float32)
        parts = np.split(scores, starts[1:], axis=1)
        return np.stack([_mean_of_best(part, self.best) for part in parts], axis=1)


def run_vectors(rows: Floats, longest: int) -> Floats:
    """The unit-length means over every run of 1 to ``longest`` neighbouring rows.

    rows: (n, dim) of unit length. Returns (n + (n - 1) + ..., dim). Without the scaling to unit
    length no run could win: a mean of scores is never above the best of them.

    >>> run_vectors(np.array([[1, 0], [0, 1]], np.float32), 2).round(2).tolist()
    [[1.0, 0.0], [0.0, 1.0], [0.7099999785423279, 0.7099999785423279]]
    """
    found, sums = [rows], rows
    for length in range(2, min(longest, len(rows)) + 1):
        sums = sums[:-1] + rows[length - 1 :]
        found.append(l2_normalize(sums))
    return np.concatenate(found)


def parse_method(name: str, granularity: int | str | None = None) -> Method:
    """The method of a name; `EXPLANATION` lists them.

    granularity: of landmark methods that name none; None: the model's own.
    Raises ConfigError for a name that is none of them.
    """
    if name == "own":
        return Method(name, Source("own"), view="text")
    if name == "bm25":
        return Method(name, Source("bm25"))
    if found := _CHUNKS.fullmatch(name):
        source = Source("chunks", int(found["size"]))
        return Method(name, source, view="mean" if found["how"] == "mean" else "rows")
    if found := _LATE.fullmatch(name):
        return Method(name, Source("late", int(found["size"])))
    if (found := _LANDMARKS.fullmatch(name)) and _number_fits(found["how"], found["number"]):
        size = _granularity(found["granularity"]) or granularity
        source = Source("raw-landmarks" if found["raw"] else "landmarks", size)
        number = int(found["number"] or _DEFAULT_RUN)
        how = found["how"]
        if how == "text":
            return Method(name, source, view="text")
        if how == "run":
            return Method(name, source, view="runs", longest=number)
        return Method(name, source, best=number if how == "top" else 1)
    raise ConfigError(f"unknown method {name!r}; {EXPLANATION.rstrip()}")


def _number_fits(how: str, number: str | None) -> bool:
    return how == "run" or (how == "top") == (number is not None)


def _granularity(text: str | None) -> int | str | None:
    return int(text) if text and text.isdigit() else text


def _mean_of_best(scores: Floats, best: int) -> Floats:
    count = min(best, scores.shape[1])
    top = np.partition(scores, scores.shape[1] - count, axis=1)[:, -count:]
    return np.asarray(top.mean(axis=1), np.float32)
