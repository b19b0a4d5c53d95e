"""Tokens per second of encoders, by length of the text."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

import numpy as np
from tokenizers import Tokenizer

from lmk_integrations.bench.lengths import (
    count_tokens,
    made_text,
    open_tokenizer,
    read_texts,
    texts_of,
    windows_of,
)
from lmk_integrations.bench.peers import (
    ENCODERS,
    FASTEMBED,
    ONNX,
    default_homes,
    own_worker,
    start,
)
from lmk_integrations.bench.timing import Contender, Spread, alternate, ratios, spread
from lmk_integrations.bench.workers import Worker, WorkerError
from lmk_integrations.encoder.identity import weights_digest
from lmk_integrations.encoder.locate import BASE_MODEL
from lmk_integrations.encoder.model import OpenModel
from lmk_integrations.encoder.settings import BackendName, Dtype, EncoderSettings, check_range
from lmk_integrations.errors import ConfigError

LIMIT = "limit: matrix products alone"
OWN_REFERENCE = "torch:float32"
PEER_REFERENCE = "st-float32"
OWN = (
    *("torch:float32", "torch:bfloat16", "openvino:bfloat16", "openvino:int8"),
    *("onnx:float32", "onnx:int8"),
)
"""This package's encoders that are measured unasked, where their library is installed."""

_NEEDS = {"torch": "torch", "openvino": "openvino", "onnx": "onnxruntime"}
_COMPARED = 16  # texts whose vectors are compared
# Threads of the one before spin for a moment, waiting for more work.
_PAUSE_S = 0.3
_PACKAGES = (
    *("torch", "transformers", "sentence-transformers", "openvino", "onnxruntime", "fastembed"),
    *("langchain-huggingface", "llama-index-embeddings-huggingface", "optimum-intel"),
    *("optimum-onnx", "tokenizers", "numpy"),
)

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodeSettings:
    """lengths: tokens of a text; tokens: about so many are read in a round, one text at least.

    own: backends and dtypes of this package such as "torch:bfloat16"; None: those of `OWN` that
        are installed. peers: names of `peers.ENCODERS`.
    against: whose time the others are divided by; None: LangChain's, else the first.
    texts: files and folders to cut texts from; none: made-up ones.
    model: this package's; base: the peers'. None: the shipped one and the one it was made of.
    """

    lengths: tuple[int, ...] = (512,)
    tokens: int = 16_384
    rounds: int = 5
    own: tuple[str, ...] | None = None
    peers: tuple[str, ...] = tuple(ENCODERS)
    against: str | None = None
    texts: tuple[Path, ...] = ()
    model: str | None = None
    base: str | None = None
    device: str = "auto"
    seed: int = 0
    homes: Path = field(default_factory=default_homes)

    def __post_init__(self) -> None:
        if not self.lengths:
            raise ConfigError("lengths must name at least one, such as 512")
        for length in self.lengths:
            check_range("length", length, 4, 1 << 24)
        check_range("tokens", self.tokens, 1, 1 << 30)
        check_range("rounds", self.rounds, 1, 10_000)
        for name in self.peers:
            if name not in ENCODERS:
                raise ConfigError(f"unknown peer {name!r}; known are {', '.join(ENCODERS)}")
        for name in self.own or ():
            backend, _, dtype = name.partition(":")
            if backend not in get_args(BackendName) or dtype not in get_args(Dtype):
                raise ConfigError(
                    f"own encoder {name!r} is not BACKEND:DTYPE, with BACKEND one of "
                    f"{', '.join(get_args(BackendName))} and DTYPE one of "
                    f"{', '.join(get_args(Dtype))}"
                )
        names = [*(installed_own() if self.own is None else self.own), *self.peers]
        if not names:
            raise ConfigError("nothing to measure: name own encoders or peers")
        if self.against is not None and self.against not in names:
            raise ConfigError(f"against={self.against!r} is not among {', '.join(names)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodeTime:
    """One encoder on texts of one length.

    seconds: of a round. speedup: how many times faster than the one it is compared with.
    cosine: the least between its vectors and those of plain float32. limit_share: of the speed
    that matrix products alone would allow. peak_bytes: the most memory its process has held.
    """

    length: int
    name: str
    tokens: int
    seconds: Spread
    speedup: Spread | None
    cosine: float | None
    limit_share: float | None
    peak_bytes: int

    @property
    def tokens_per_s(self) -> float:
        """At the median."""
        return self.tokens / self.seconds.median

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "length": self.length,
            "name": self.name,
            "tokens": self.tokens,
            "tokens_per_s": round(self.tokens_per_s, 1),
            "seconds": self.seconds.to_dict(),
            "speedup": None if self.speedup is None else self.speedup.to_dict(),
            "cosine": self.cosine,
            "limit_share": self.limit_share,
            "peak_bytes": self.peak_bytes,
        }


@dataclass(frozen=True, slots=True)
class EncodeBench:
    """All times; whom speedups are against; how each encoder ran; what is to be said besides."""

    times: tuple[EncodeTime, ...]
    against: str
    encoders: dict[str, dict[str, Any]]
    notes: tuple[str, ...]

    def title(self, name: str) -> str:
        """An encoder's name in full."""
        return str(self.encoders[name]["name"]) if name in self.encoders else name

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "times": [time.to_dict() for time in self.times],
            "against": self.against,
            "encoders": self.encoders,
            "notes": list(self.notes),
        }


def installed_own() -> tuple[str, ...]:
    """Those of `OWN` whose library is installed."""
    return tuple(
        name for name in OWN if importlib.util.find_spec(_NEEDS[name.partition(":")[0]]) is not None
    )


def bench_encode(settings: EncodeSettings, progress: Progress | None = None) -> EncodeBench:
    """Let encoders take turns on the same texts.

    One that cannot be installed or opened becomes a note. Raises ConfigError where none is left.
    """
    with ExitStack() as stack:
        run = _Run(settings, progress or (lambda step, done, total: None), stack)
        times = [time for length in settings.lengths for time in run.times(length)]
        return EncodeBench(tuple(times), run.against, run.facts(), tuple(run.notes))


class _Run:
    """The encoders, opened, and the source of their texts."""

    def __init__(self, settings: EncodeSettings, say: Progress, stack: ExitStack) -> None:
        self.notes: list[str] = []
        self._settings = settings
        self._say = say
        self._stack = stack
        base = OpenModel(settings.base or BASE_MODEL, EncoderSettings())
        own = OpenModel(settings.model, EncoderSettings())
        self._base = base
        self._own = own
        self._tokenizer: Tokenizer = open_tokenizer(base.directory)
        self._special = self._tokenizer.num_special_tokens_to_add(is_pair=False)
        self._source = (
            read_texts(settings.texts)
            if settings.texts
            else made_text(self._tokenizer, settings.seed)
        )
        self._facts: dict[str, dict[str, Any]] = {}
        self._workers: dict[str, Worker] = {}
        self._open_all()
        if not self._workers:
            raise ConfigError(f"no encoder could be opened: {'; '.join(self.notes)}")
        self._limit = self._open_limit()
        usual = "langchain" if "langchain" in self._workers else next(iter(self._workers))
        self.against = settings.against or usual
        if self.against not in self._workers:
            raise ConfigError(
                f"against={self.against!r} could not be opened: {'; '.join(self.notes)}"
            )

    def facts(self) -> dict[str, dict[str, Any]]:
        """How each encoder ran: dtype, versions, threads."""
        for name, worker in self._workers.items():
            self._facts[name] |= worker.about(_PACKAGES)
        return self._facts

    def times(self, length: int) -> list[EncodeTime]:
        """All encoders on texts of one length."""
        texts, n_tokens = self._give(length)
        contenders: dict[str, Contender] = {
            name: _runner(worker) for name, worker in self._workers.items()
        }
        if self._limit is not None:
            window = min(length, self._own.max_tokens)
            granularity = self._own.granularity
            rows = granularity if isinstance(granularity, int) else 32
            self._limit.call("shape", window=window, granularity=rows, tokens=n_tokens)
            contenders[LIMIT] = _runner(self._limit)
        step = f"{len(texts)} texts of {length:,} tokens"
        seconds = alternate(
            contenders,
            self._settings.rounds,
            on_round=lambda done, total: self._say(step, done, total),
        )
        cosines = self._cosines()
        found = []
        for name, taken in seconds.items():
            worker = self._limit if name == LIMIT else self._workers[name]
            assert worker is not None
            found.append(
                EncodeTime(
                    length=length,
                    name=name,
                    tokens=n_tokens,
                    seconds=spread(taken),
                    speedup=None if name == LIMIT else ratios(taken, seconds[self.against]),
                    cosine=cosines.get(name),
                    limit_share=(
                        ratios(taken, seconds[LIMIT]).median
                        if LIMIT in seconds and name in self._own_names()
                        else None
                    ),
                    peak_bytes=worker.about()["peak_bytes"],
                )
            )
        return found

    def _give(self, length: int) -> tuple[list[str], int]:
        """Texts for all; those who cut off what is behind their window get them in pieces."""
        count = max(1, round(self._settings.tokens / length))
        wanted = max(1, length - self._special)
        texts = texts_of(self._tokenizer, self._source, wanted, count)
        pieces = windows_of(self._tokenizer, texts, self._base.max_tokens - self._special)
        if len(pieces) > len(texts) and self._settings.peers:
            self._note(
                f"texts of over {self._base.max_tokens} tokens are given to peers in pieces, "
                "since they cut off the rest"
            )
        for name, worker in self._workers.items():
            worker.call("give", texts=texts if name in self._own_names() else pieces)
        return texts, count_tokens(self._tokenizer, texts)

    def _cosines(self) -> dict[str, float]:
        """The least cosine of each with its float32 reference, if that was run."""
        found: dict[str, float] = {}
        for reference in (OWN_REFERENCE, PEER_REFERENCE):
            if reference not in self._workers:
                continue
            expected = _unit_vectors(self._workers[reference])
            is_own = reference == OWN_REFERENCE
            for name, worker in self._workers.items():
                if (name in self._own_names()) == is_own:
                    rows = _unit_vectors(worker)
                    found[name] = float((rows * expected).sum(axis=1).min())
        return found

    # -- opening ---------------------------------------------------------------------------

    def _own_names(self) -> tuple[str, ...]:
        return installed_own() if self._settings.own is None else self._settings.own

    def _open_all(self) -> None:
        own, peers = self._own_names(), self._settings.peers
        for number, name in enumerate([*own, *peers]):
            self._say(f"opening {name}", number, len(own) + len(peers))
            try:
                if name in own:
                    self._open_own(name)
                else:
                    self._open_peer(name)
            except WorkerError as error:
                self._note(str(error))

    def _open_own(self, name: str) -> None:
        worker = self._stack.enter_context(own_worker(name, "own_encoders.py", name))
        facts = worker.call("load", model=self._settings.model, device=self._settings.device)
        self._workers[name], self._facts[name] = worker, {"name": f"lmk {name}", **facts}

    def _open_peer(self, name: str) -> None:
        peer = ENCODERS[name]
        directory = self._base.directory
        if peer is FASTEMBED:
            directory = self._exported()
        worker = self._stack.enter_context(start(peer, self._settings.homes))
        self._load_peer(worker, directory)
        self._workers[name], self._facts[name] = worker, {"name": peer.name}

    def _load_peer(self, worker: Worker, directory: Path) -> None:
        device = None if self._settings.device == "auto" else self._settings.device
        worker.call("load", model=str(directory), max_tokens=self._base.max_tokens, device=device)

    def _exported(self) -> Path:
        """The base model with an ONNX graph, exported once and kept."""
        digest = weights_digest([self._base.directory])
        folder = self._settings.homes.expanduser() / "models" / digest[:16]
        if not (folder / "modules.json").is_file() or not (folder / "onnx").is_dir():
            with start(ONNX, self._settings.homes) as worker:
                self._load_peer(worker, self._base.directory)
                worker.call("export", folder=str(folder))
        return folder

    def _open_limit(self) -> Worker | None:
        """The bound, for BERT's shapes on a processor."""
        own = [facts for name, facts in self._facts.items() if name in self._own_names()]
        if not own or own[0]["device"] != "cpu":
            return None
        fast = any(facts["dtype"] in ("bfloat16", "int8") for facts in own)
        worker = self._stack.enter_context(own_worker(LIMIT, "own_encoders.py", "limit"))
        dtype = "bfloat16" if fast else "float32"
        try:
            worker.call("load", model=self._settings.model, dtype=dtype)
        except WorkerError as error:
            self._note(str(error))
            return None
        self._note(f"the limit is that of {dtype} matrix products")
        return worker

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)


def _runner(worker: Worker) -> Contender:
    def run(_: int) -> float:
        time.sleep(_PAUSE_S)
        return float(worker.call("run"))

    return run


def _unit_vectors(worker: Worker) -> Any:
    rows = np.asarray(worker.call("vectors", count=_COMPARED), np.float64)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)
