"""How long a search takes, by mode and by size of the collection."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from lmk_integrations.bench.peers import LANGCHAIN_STORE, default_homes, own_worker, start
from lmk_integrations.bench.synthetic import (
    CorpusSpec,
    MadeQuery,
    SyntheticCorpus,
    SyntheticEncoder,
    pooled,
)
from lmk_integrations.bench.timing import Contender, alternate, percentile
from lmk_integrations.bench.workers import Worker, WorkerError
from lmk_integrations.encoder.settings import check_range
from lmk_integrations.errors import ConfigError
from lmk_integrations.qdrant.queries import MODES

LIMIT = 10
WARMUP = 10
ENCODING = "encoding the query"

_PACKAGES = ("qdrant-edge-py", "qdrant-client", "langchain-qdrant", "numpy", "torch")

Progress = Callable[[str, int, int], None]
"""(step, done, total)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSettings:
    """sections: sizes of the collections. queries: of each size, timed in every mode.

    peer_sections: a collection of more sections than this is not given to the peer, which takes
        minutes to fill; 0 leaves it out. optimize: let the engine build its indexes before.
    model: that encodes the queries; None: the shipped one. homes: where peers are installed.
    """

    sections: tuple[int, ...] = (20_000,)
    queries: int = 200
    peer_sections: int = 20_000
    optimize: bool = False
    seed: int = 0
    model: str | None = None
    device: str = "auto"
    homes: Path = field(default_factory=default_homes)

    def __post_init__(self) -> None:
        if not self.sections:
            raise ConfigError("sections must name at least one size, such as 20000")
        for size in self.sections:
            check_range("sections", size, 1, 10_000_000)
        check_range("queries", self.queries, 1, 1_000_000)
        check_range("peer_sections", self.peer_sections, 0, 10_000_000)


@dataclass(frozen=True, slots=True)
class SearchTime:
    """Milliseconds of one way to search, beyond the encoding of the query.

    found: the share of queries whose own section is among the hits (its document in mode
    "document"); None where nothing is searched.
    """

    sections: int
    name: str
    p50_ms: float
    p95_ms: float
    queries: int
    found: float | None

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "sections": self.sections,
            "name": self.name,
            "p50_ms": round(self.p50_ms, 4),
            "p95_ms": round(self.p95_ms, 4),
            "queries": self.queries,
            "found": self.found,
        }


@dataclass(frozen=True, slots=True)
class SearchBench:
    """All times, what was stored, the versions, and what is to be said besides."""

    times: tuple[SearchTime, ...]
    stores: tuple[dict[str, Any], ...]
    versions: dict[str, str]
    encoder: dict[str, Any]
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "times": [time.to_dict() for time in self.times],
            "stores": list(self.stores),
            "versions": self.versions,
            "encoder": self.encoder,
            "notes": list(self.notes),
        }


def bench_search(settings: SearchSettings, progress: Progress | None = None) -> SearchBench:
    """Fill collections of made-up sections and time searches in them, query by query in turns.

    Raises WorkerError where this package's own worker fails; a peer that fails becomes a note.
    """
    say = progress or (lambda step, done, total: None)
    times: list[SearchTime] = []
    stores: list[dict[str, Any]] = []
    notes: list[str] = []
    versions: dict[str, str] = {}
    with own_worker("query encoder", "own_stores.py", "query-encoder") as encoder:
        facts: dict[str, Any] = encoder.call("load", model=settings.model, device=settings.device)
        for sections in settings.sections:
            with ExitStack() as stack:
                run = _Run(sections, settings, say, stack)
                times += run.times(encoder)
                stores += run.stores
                notes += run.notes
                versions |= run.versions()
        about = encoder.about(_PACKAGES)
        versions |= about["versions"]
        facts |= {"torch_threads": about["torch_threads"]}
    return SearchBench(tuple(times), tuple(stores), versions, facts, tuple(dict.fromkeys(notes)))


class _Run:
    """One size: the stores filled, then searched."""

    def __init__(
        self, sections: int, settings: SearchSettings, say: Progress, stack: ExitStack
    ) -> None:
        self.stores: list[dict[str, Any]] = []
        self.notes: list[str] = []
        self._settings = settings
        self._say = say
        self._stack = stack
        self._sections = sections
        self._corpus = SyntheticCorpus(CorpusSpec(sections, settings.seed))
        # Files outlive the processes that hold them open: the stack ends in reverse order.
        self._folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lmk-bench-")))
        self._own = self._filled_own()
        self._peer = self._filled_peer()

    def times(self, encoder: Worker) -> list[SearchTime]:
        """Milliseconds of each mode, of the peer, and of encoding."""
        settings = self._settings
        queries = self._corpus.queries(settings.queries + WARMUP)
        found: dict[str, list[bool]] = {}
        contenders: dict[str, Contender] = {
            mode: self._searched(self._own, mode, queries, found.setdefault(mode, []), mode=mode)
            for mode in MODES
        }
        if self._peer is not None:
            name = self._peer.name
            hits = found.setdefault(name, [])
            contenders[name] = self._searched(self._peer, name, queries, hits)
        contenders[ENCODING] = lambda number: float(
            encoder.call("encode", query=queries[number].text)
        )
        step = f"{self._sections:,} sections: searching"
        seconds = alternate(
            contenders,
            settings.queries,
            warmup=WARMUP,
            on_round=lambda done, total: self._say(step, done, total),
        )
        return [
            SearchTime(
                self._sections,
                name,
                1000 * percentile(taken, 50),
                1000 * percentile(taken, 95),
                len(taken),
                sum(found[name][WARMUP:]) / len(taken) if name in found else None,
            )
            for name, taken in seconds.items()
        ]

    def versions(self) -> dict[str, str]:
        """Of what searched."""
        workers = [self._own] if self._peer is None else [self._own, self._peer]
        found: dict[str, str] = {}
        for worker in workers:
            found |= worker.about(_PACKAGES)["versions"]
        return found

    def _filled_own(self) -> Worker:
        self._say(f"{self._sections:,} sections: storing them", 0, 1)
        worker = self._stack.enter_context(own_worker("lmk index", "own_stores.py", "edge"))
        loaded = worker.call(
            "load",
            folder=str(self._folder / "own"),
            spec=self._corpus.spec.to_dict(),
            optimize=self._settings.optimize,
        )
        self.stores.append({"name": worker.name, "sections": self._sections, **loaded})
        return worker

    def _filled_peer(self) -> Worker | None:
        most = self._settings.peer_sections
        if self._sections > most:
            if most:
                self.notes.append(
                    f"{LANGCHAIN_STORE.name} is not measured beyond {most:,} sections "
                    "(--peer-sections)"
                )
            return None
        self._say(f"{self._sections:,} sections: storing them in {LANGCHAIN_STORE.name}", 0, 1)
        texts, vectors = self._folder / "sections.jsonl", self._folder / "vectors.npy"
        _write(self._corpus, texts, vectors)
        try:
            worker = self._stack.enter_context(start(LANGCHAIN_STORE, self._settings.homes))
            loaded = worker.call(
                "load",
                folder=str(self._folder / "peer"),
                sections=str(texts),
                vectors=str(vectors),
            )
        except WorkerError as error:
            self.notes.append(str(error))
            return None
        self.stores.append({"name": worker.name, "sections": self._sections, **loaded})
        return worker

    @staticmethod
    def _searched(
        worker: Worker,
        name: str,
        queries: Sequence[MadeQuery],
        found: list[bool],
        mode: str | None = None,
    ) -> Contender:
        """A contender that searches one query a round and notes whether its section was found."""

        def search(number: int) -> float:
            query = queries[number]
            asked: dict[str, Any] = {"vector": query.vector.tolist(), "limit": LIMIT}
            if mode is not None:
                asked |= {"mode": mode, "query": query.text}
            answer = worker.call("search", **asked)
            hits = answer["hits"]
            if name == "document":
                found.append(query.doc_id in [doc_id for doc_id, _ in hits])
            else:
                found.append([query.doc_id, query.section] in hits)
            return float(answer["seconds"])

        return search


def _write(corpus: SyntheticCorpus, texts: Path, vectors: Path) -> None:
    """All sections of a corpus in files, one text a line and one row a vector."""
    rows = np.empty((corpus.spec.sections, corpus.spec.dim), np.float32)
    with texts.open("w", encoding="utf-8") as file:
        for row, (line, vector) in enumerate(_lines(corpus)):
            rows[row] = vector
            file.write(json.dumps(line) + "\n")
    np.save(vectors, rows)


def _lines(corpus: SyntheticCorpus) -> Iterator[tuple[dict[str, Any], Any]]:
    encoder = SyntheticEncoder(corpus.spec)
    for number in range(corpus.n_documents):
        text = corpus.text(number)
        for ordinal, section in enumerate(encoder.sections(text)):
            metadata = {"doc_id": corpus.doc_id(number), "section": ordinal}
            line = {"text": text[section.start : section.end], "metadata": metadata}
            yield line, pooled(section)
