"""The arguments of `lmk bench`. Parsing only: see bench_run.py."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

DEFAULT_HOMES = "~/.cache/lmk-integrations/peers"


def add_bench(commands: Subparsers, epilog: str) -> None:
    """Register the command. epilog: the exit codes."""
    parser = commands.add_parser(
        "bench",
        help="how fast this package is here, beside its peers",
        description="Measure on this machine. Contenders take turns, each in a process of its "
        "own; a peer that is not installed gets an environment of its own first.",
        epilog=epilog,
    )
    kinds = parser.add_subparsers(dest="bench", required=True, metavar="WHAT")
    _search(kinds, epilog)


def _search(kinds: Subparsers, epilog: str) -> None:
    parser = kinds.add_parser(
        "search",
        help="milliseconds of a search, by mode and size",
        description="Fill collections with made-up sections through the usual ingest, then time "
        "each search mode beyond the encoding of the query, beside LangChain's Qdrant store on "
        "QdrantClient(path=...) with the same texts and vectors.",
        epilog=epilog,
    )
    parser.add_argument(
        "--sections",
        type=_sizes,
        default=(20_000,),
        metavar="N[,N...]",
        help="sizes of the collections (default: 20000)",
    )
    parser.add_argument(
        "--queries", type=int, default=200, metavar="N", help="timed in each mode (default: 200)"
    )
    parser.add_argument(
        "--peer-sections",
        type=int,
        default=20_000,
        metavar="N",
        help="leave the peer out of larger collections, which it takes long to fill; 0: of all "
        "(default: 20000)",
    )
    parser.add_argument(
        "--optimize", action="store_true", help="let the engine build its indexes first"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the made-up texts")
    _model(parser)
    _output(parser)


def _sizes(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part.replace("_", "")) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a number, nor several with commas between, such as 1000,20000"
        ) from None


def _model(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--model", metavar="M", help="a model directory or hub id (default: the shipped model)"
    )
    parser.add_argument(
        "--device", default="auto", metavar="D", help="cpu, cuda, mps, ... (default: auto)"
    )


def _output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--peers-home",
        default=DEFAULT_HOMES,
        metavar="DIR",
        help=f"where environments of peers are made and kept (default: {DEFAULT_HOMES})",
    )
    parser.add_argument("--plot", metavar="FILE", help="draw a figure too: .png, .svg or .pdf")
    parser.add_argument("--json", action="store_true", help="print results as JSON")
