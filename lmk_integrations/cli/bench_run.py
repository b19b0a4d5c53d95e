"""`lmk bench`: measure, print a table or JSON, draw."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lmk_integrations.bench.encode import EncodeBench, EncodeSettings, bench_encode
from lmk_integrations.bench.ingest import IngestBench, IngestSettings, bench_ingest
from lmk_integrations.bench.machine import describe_machine
from lmk_integrations.bench.plots import check_plot, draw
from lmk_integrations.bench.search import ENCODING, SearchBench, SearchSettings, bench_search
from lmk_integrations.bench.tables import markdown
from lmk_integrations.bench.timing import Spread
from lmk_integrations.cli.bar import StepsBar
from lmk_integrations.qdrant.queries import MODES


def run_bench(arguments: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    kinds: dict[str, Callable[[argparse.Namespace], int]] = {
        "encode": _encode,
        "ingest": _ingest,
        "search": _search,
    }
    return kinds[arguments.bench](arguments)


def _encode(arguments: argparse.Namespace) -> int:
    settings = EncodeSettings(
        lengths=arguments.lengths,
        tokens=arguments.tokens,
        rounds=arguments.rounds,
        own=None if arguments.own is None else _names(arguments.own),
        against=arguments.against,
        texts=tuple(map(Path, arguments.texts)),
        model=arguments.model,
        base=arguments.base,
        device=arguments.device,
        seed=arguments.seed,
        **_given(arguments),
    )
    _check_plot(arguments)
    with StepsBar("rounds") as progress:
        found = bench_encode(settings, progress.update)
    if arguments.json:
        _print_json("encode", found.to_dict())
    else:
        print(encode_table(found))
        print()
        _print_machine()
        _print_contenders({facts["name"]: facts for facts in found.encoders.values()})
        _print_notes(found.notes)
    if arguments.plot is not None:
        lines = {
            found.title(name): [
                (time.length, time.tokens_per_s) for time in found.times if time.name == name
            ]
            for name in dict.fromkeys(time.name for time in found.times)
        }
        title = "Encoding, median by length of the text"
        draw(Path(arguments.plot), lines, title=title, x="tokens of a text", y="tokens/s")
    return 0


def encode_table(found: EncodeBench) -> str:
    """A row for each length and encoder."""
    against = found.title(found.against)
    head = ["encoder", "text tokens", "tokens/s", f"x {against}", "cosine", "of limit", "peak MiB"]
    rows = [
        [
            found.title(time.name),
            f"{time.length:,}",
            f"{time.tokens_per_s:,.0f}",
            "" if time.speedup is None else _ratio(time.speedup),
            "" if time.cosine is None else f"{time.cosine:.5f}",
            "" if time.limit_share is None else f"{100 * time.limit_share:.0f} %",
            f"{time.peak_bytes / 2**20:,.0f}",
        ]
        for time in found.times
    ]
    return markdown(head, rows)


def _ingest(arguments: argparse.Namespace) -> int:
    settings = IngestSettings(
        paths=tuple(map(Path, arguments.paths)),
        rounds=arguments.rounds,
        granularities=_names(arguments.granularities),
        datatypes=_names(arguments.landmark_datatypes),
        model=arguments.model,
        base=arguments.base,
        device=arguments.device,
        **_given(arguments),
    )
    with StepsBar("rounds") as progress:
        found = bench_ingest(settings, progress.update)
    if arguments.json:
        _print_json("ingest", found.to_dict())
        return 0
    print(ingest_table(found))
    print()
    print(f"{found.documents:,} files of {found.tokens:,} tokens.")
    _print_machine()
    _print_contenders({name: {"versions": known} for name, known in found.versions.items()})
    _print_notes(found.notes)
    return 0


def ingest_table(found: IngestBench) -> str:
    """A row for each pipeline."""
    own = found.times[0].name
    head = ["pipeline", "documents/s", "tokens/s", f"times as long as {own}", "points"]
    head += ["MiB", "landmarks", "log", "not read", "peak MiB"]
    rows = [
        [
            time.name,
            f"{time.documents_per_s:.2f}",
            f"{time.tokens_per_s:,.0f}",
            _ratio(time.own_speedup),
            f"{time.points:,}",
            *(f"{size / 2**20:.1f}" for size in time.disk.to_dict().values()),
            f"{100 * time.cut:.0f} %",
            f"{time.peak_bytes / 2**20:,.0f}",
        ]
        for time in found.times
    ]
    return markdown(head, rows)


def _check_plot(arguments: argparse.Namespace) -> None:
    if arguments.plot is not None:
        check_plot(Path(arguments.plot))


def _ratio(found: Spread) -> str:
    """The median with its quartiles."""
    return f"{found.median:.2f} ({found.low:.2f} to {found.high:.2f})"


def _given(arguments: argparse.Namespace) -> dict[str, Any]:
    """Settings of peers, where the command names them."""
    found: dict[str, Any] = {}
    if getattr(arguments, "peers", None) is not None:
        found["peers"] = _names(arguments.peers)
    if arguments.peers_home is not None:
        found["homes"] = Path(arguments.peers_home)
    return found


def _names(text: str) -> tuple[str, ...]:
    if text == "none":
        return ()
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _print_contenders(contenders: Mapping[str, Mapping[str, Any]]) -> None:
    """The versions of the first, then what is different of the others."""
    here: dict[str, str] = next(iter(contenders.values()))["versions"]
    print(f"Versions: {_versions(here.items())}.")
    for name, facts in contenders.items():
        own = _versions(facts["versions"].items() - here.items())
        threads = facts.get("torch_threads")
        words = [facts.get("dtype"), threads and f"{threads} threads of torch", own]
        if shown := ", ".join(filter(None, words)):
            print(f"{name}: {shown}.")


def _versions(pairs: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{name} {version}" for name, version in sorted(pairs))


def _search(arguments: argparse.Namespace) -> int:
    settings = SearchSettings(
        sections=arguments.sections,
        queries=arguments.queries,
        peer_sections=arguments.peer_sections,
        optimize=arguments.optimize,
        seed=arguments.seed,
        model=arguments.model,
        device=arguments.device,
        **_given(arguments),
    )
    _check_plot(arguments)
    with StepsBar("rounds") as progress:
        found = bench_search(settings, progress.update)
    if arguments.json:
        _print_json("search", found.to_dict())
    else:
        print(search_table(found))
        print()
        _print_circumstances(found.versions, found.notes)
    if arguments.plot is not None:
        lines = {
            name: [(time.sections, time.p50_ms) for time in found.times if time.name == name]
            for name in dict.fromkeys(time.name for time in found.times)
        }
        title = "Search, median by size of the collection"
        draw(Path(arguments.plot), lines, title=title, x="sections", y="milliseconds")
    return 0


def search_table(found: SearchBench) -> str:
    """A row for each size and way to search."""
    head = ["search", "sections", "p50 ms", "p95 ms", "own section in 10"]
    rows = [
        [
            f"lmk {time.name}" if time.name in MODES else time.name,
            "" if time.name == ENCODING else f"{time.sections:,}",
            f"{time.p50_ms:.2f}",
            f"{time.p95_ms:.2f}",
            "" if time.found is None else f"{100 * time.found:.0f} %",
        ]
        for time in found.times
    ]
    return markdown(head, rows)


def _print_circumstances(versions: Mapping[str, str], notes: Sequence[str]) -> None:
    _print_machine()
    print(f"Versions: {_versions(versions.items())}.")
    _print_notes(notes)


def _print_machine() -> None:
    print(f"Machine: {describe_machine()}.")


def _print_notes(notes: Sequence[str]) -> None:
    for note in notes:
        print(f"Note: {note}.")


def _print_json(what: str, found: dict[str, Any]) -> None:
    facts = {"type": "result", "command": "bench", "bench": what}
    print(json.dumps({**facts, "machine": describe_machine().to_dict(), **found}))
