"""Whole pipelines on the same files: from folder to searchable collection."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from lmk_integrations.bench.disk import DiskUse, bytes_on_disk
from lmk_integrations.bench.lengths import count_tokens, open_tokenizer
from lmk_integrations.bench.peers import PIPELINES, default_homes, own_worker, start
from lmk_integrations.bench.timing import Contender, Spread, alternate, ratios, spread
from lmk_integrations.bench.workers import Worker, WorkerError
from lmk_integrations.encoder.locate import BASE_MODEL
from lmk_integrations.encoder.model import OpenModel
from lmk_integrations.encoder.settings import EncoderSettings, check_range
from lmk_integrations.errors import ConfigError
from lmk_integrations.qdrant.schema import LANDMARK_DATATYPES

SUFFIXES = (".txt", ".md", ".rst")
"""What every contender reads as the same text. Other formats would compare readers."""

OWN = "own"
_PACKAGES = (
    *("torch", "transformers", "sentence-transformers", "qdrant-client", "qdrant-edge-py"),
    *("langchain-huggingface", "langchain-qdrant", "langchain-text-splitters"),
    *("llama-index-core", "llama-index-embeddings-huggingface", "llama-index-vector-stores-qdrant"),
)

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestSettings:
    """paths: files and folders, of which those with `SUFFIXES` are taken.

    granularities: of this package's landmarks; "own" is the model's. datatypes: what they are
        stored as. Each with each is a contender. peers: names of `peers.PIPELINES`. model, base,
        homes: as in `EncodeSettings`.
    """

    paths: tuple[Path, ...]
    rounds: int = 3
    granularities: tuple[str, ...] = (OWN,)
    datatypes: tuple[str, ...] = LANDMARK_DATATYPES[:1]
    peers: tuple[str, ...] = tuple(PIPELINES)
    model: str | None = None
    base: str | None = None
    device: str = "auto"
    homes: Path = field(default_factory=default_homes)

    def __post_init__(self) -> None:
        check_range("rounds", self.rounds, 1, 10_000)
        for path in self.paths:
            if not path.exists():
                raise ConfigError(f"{path}: no such file or folder")
        for name in self.peers:
            if name not in PIPELINES:
                raise ConfigError(f"unknown peer {name!r}; known are {', '.join(PIPELINES)}")
        for name in self.granularities:
            if name not in (OWN, "sentence") and not (name.isdecimal() and int(name)):
                raise ConfigError(f"granularity {name!r} must be a number, 'sentence' or 'own'")
        if not self.granularities:
            raise ConfigError("granularities must name at least one, such as own")
        for name in self.datatypes:
            if name not in LANDMARK_DATATYPES:
                known = ", ".join(LANDMARK_DATATYPES)
                raise ConfigError(f"unknown datatype {name!r} of landmarks; known are {known}")
        if not self.datatypes:
            raise ConfigError("datatypes must name at least one, such as float16")


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestTime:
    """One pipeline.

    seconds: of all files; speedup: how many times as fast the first of this package's own is.
    cut: the share of the chunks' tokens that the model did not read. peak_bytes: the most memory
    its process has held.
    """

    name: str
    seconds: Spread
    documents_per_s: float
    tokens_per_s: float
    own_speedup: Spread
    points: int
    disk: DiskUse
    cut: float
    peak_bytes: int

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "name": self.name,
            "seconds": self.seconds.to_dict(),
            "documents_per_s": round(self.documents_per_s, 3),
            "tokens_per_s": round(self.tokens_per_s, 1),
            "own_speedup": self.own_speedup.to_dict(),
            "points": self.points,
            "disk": self.disk.to_dict(),
            "cut": self.cut,
            "peak_bytes": self.peak_bytes,
        }


@dataclass(frozen=True, slots=True)
class IngestBench:
    """All pipelines; how many files and tokens; versions; what is to be said besides."""

    times: tuple[IngestTime, ...]
    documents: int
    tokens: int
    versions: dict[str, dict[str, str]]
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "times": [time.to_dict() for time in self.times],
            "documents": self.documents,
            "tokens": self.tokens,
            "versions": self.versions,
            "notes": list(self.notes),
        }


def bench_ingest(settings: IngestSettings, progress: Progress | None = None) -> IngestBench:
    """Let pipelines take turns on the same files, each time into a new folder.

    A peer that cannot be installed or opened becomes a note. Raises ConfigError where there is no
    file to take, WorkerError where a pipeline fails in the middle.
    """
    files, left_out = text_files(settings.paths)
    with ExitStack() as stack:
        run = _Run(settings, files, progress or (lambda step, done, total: None), stack)
        if left_out:
            run.notes.append(f"{left_out} files are left out: none of {', '.join(SUFFIXES)}")
        times = run.times()
        return IngestBench(times, len(files), run.tokens, run.versions(), tuple(run.notes))


def text_files(paths: tuple[Path, ...]) -> tuple[list[Path], int]:
    """The text files of files and folders, in order, and how many others there are.

    Raises ConfigError if there is none.
    """
    found: list[Path] = []
    for path in paths:
        found += sorted(filter(Path.is_file, path.rglob("*"))) if path.is_dir() else [path]
    taken = [path for path in found if path.suffix.lower() in SUFFIXES]
    if not taken:
        raise ConfigError(f"there is no {', '.join(SUFFIXES)} file in {', '.join(map(str, paths))}")
    return taken, len(found) - len(taken)


class _Run:
    """The pipelines, opened."""

    def __init__(
        self, settings: IngestSettings, files: list[Path], say: Progress, stack: ExitStack
    ) -> None:
        self.notes: list[str] = []
        self._settings = settings
        self._files = files
        self._say = say
        self._stack = stack
        base = OpenModel(settings.base or BASE_MODEL, EncoderSettings())
        self._base = base.directory
        texts = (path.read_text(encoding="utf-8", errors="replace") for path in files)
        self.tokens = count_tokens(open_tokenizer(base.directory), texts)
        self._folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lmk-bench-")))
        self._workers: dict[str, Worker] = {}
        self._results: dict[str, dict[str, Any]] = {}
        self._disks: dict[str, DiskUse] = {}
        self._open_own()
        self._open_peers()

    def times(self) -> tuple[IngestTime, ...]:
        """All pipelines, this package's first."""
        contenders: dict[str, Contender] = {
            name: self._runner(name, worker) for name, worker in self._workers.items()
        }
        step = f"{len(self._files)} files"
        seconds = alternate(
            contenders,
            self._settings.rounds,
            on_round=lambda done, total: self._say(step, done, total),
        )
        own = next(iter(seconds.values()))
        return tuple(self._time(name, taken, own) for name, taken in seconds.items())

    def versions(self) -> dict[str, dict[str, str]]:
        """What each pipeline ran with."""
        return {name: worker.about(_PACKAGES)["versions"] for name, worker in self._workers.items()}

    def _time(self, name: str, taken: list[float], own: list[float]) -> IngestTime:
        middle = spread(taken)
        return IngestTime(
            name=name,
            seconds=middle,
            documents_per_s=len(self._files) / middle.median,
            tokens_per_s=self.tokens / middle.median,
            own_speedup=ratios(own, taken),
            points=int(self._results[name]["points"]),
            disk=self._disks[name],
            cut=float(self._results[name]["cut"]),
            peak_bytes=int(self._workers[name].about()["peak_bytes"]),
        )

    def _runner(self, name: str, worker: Worker) -> Contender:
        def run(_: int) -> float:
            place = self._folder / "store"
            paths = [str(path.resolve()) for path in self._files]
            result = worker.call("run", paths=paths, folder=str(place))
            self._results[name] = result
            self._disks[name] = bytes_on_disk(place)
            shutil.rmtree(place)
            return float(result["seconds"])

        return run

    def _open_own(self) -> None:
        settings = self._settings
        for granularity, datatype in product(settings.granularities, settings.datatypes):
            name = "lmk" if granularity == OWN else f"lmk, granularity {granularity}"
            name += "" if datatype == LANDMARK_DATATYPES[0] else f", {datatype}"
            self._say(f"opening {name}", 0, 1)
            worker = own_worker(name, "own_pipelines.py", f"{granularity} {datatype}")
            self._workers[name] = self._stack.enter_context(worker)
            worker.call("load", model=settings.model, device=settings.device)

    def _open_peers(self) -> None:
        device = None if self._settings.device == "auto" else self._settings.device
        for key in self._settings.peers:
            peer = PIPELINES[key]
            self._say(f"opening {peer.name}", 0, 1)
            try:
                worker = self._stack.enter_context(start(peer, self._settings.homes))
                worker.call("load", model=str(self._base), device=device)
            except WorkerError as error:
                self.notes.append(str(error))
                continue
            self._workers[peer.name] = worker
