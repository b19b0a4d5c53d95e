"""The arguments of `lmk bench`. Parsing only: see bench_run.py."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]


def add_bench(commands: Subparsers, epilog: str) -> None:
    """Register the command. epilog: the exit codes."""
    parser = commands.add_parser(
        "bench",
        help="how fast this package is here, beside its peers; how poolings compare",
        description="Measure on this machine. Contenders take turns, each in a process of its "
        "own; a peer that is not installed gets an environment of its own first. `pooling` trains "
        "encoders, and takes hours.",
        epilog=epilog,
    )
    kinds = parser.add_subparsers(dest="bench", required=True, metavar="WHAT")
    _encode(kinds, epilog)
    _ingest(kinds, epilog)
    _search(kinds, epilog)
    _pooling(kinds, epilog)


def _encode(kinds: Subparsers, epilog: str) -> None:
    parser = kinds.add_parser(
        "encode",
        help="tokens per second of encoders, by length of the text",
        description="Let this package's backends and its peers encode the same texts, and print "
        "tokens per second, how many times faster each is, and how near its vectors are to those "
        "of float32.",
        epilog=epilog,
    )
    parser.add_argument(
        "texts",
        nargs="*",
        metavar="PATH",
        help="files and folders to cut the texts from (default: made-up texts)",
    )
    parser.add_argument(
        "--lengths",
        type=_sizes,
        default=(512,),
        metavar="N[,N...]",
        help="tokens of a text, such as 128,512,8192,131072 (default: 512)",
    )
    parser.add_argument(
        "--tokens",
        type=int,
        default=16_384,
        metavar="N",
        help="read in one round, one text at least (default: 16384)",
    )
    parser.add_argument(
        "--rounds", type=int, default=5, metavar="N", help="of every encoder (default: 5)"
    )
    parser.add_argument(
        "--own",
        metavar="BACKEND:DTYPE,...",
        help="this package's encoders, such as torch:bfloat16 (default: all that are installed)",
    )
    parser.add_argument(
        "--peers",
        metavar="A,B,...",
        help="others: langchain, llama-index, st-float32, st-bfloat16, st-onnx, st-openvino, "
        "fastembed, or 'none' (default: all)",
    )
    parser.add_argument(
        "--against",
        metavar="NAME",
        help="whose time the others are compared with (default: langchain, else the first)",
    )
    parser.add_argument("--base", metavar="M", help="the peers' model (default: all-MiniLM-L6-v2)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the made-up texts")
    _model(parser)
    _output(parser)


def _ingest(kinds: Subparsers, epilog: str) -> None:
    parser = kinds.add_parser(
        "ingest",
        help="whole pipelines, from files to searchable collection",
        description="Store the same text files with this package and with the usual pipelines of "
        "LangChain and LlamaIndex, each time in a new folder, and print documents and tokens per "
        "second, points, bytes on disk and peak memory.",
        epilog=epilog,
    )
    parser.add_argument(
        "paths", nargs="+", metavar="PATH", help="files and folders; .txt, .md and .rst are taken"
    )
    parser.add_argument(
        "--rounds", type=int, default=3, metavar="N", help="of every pipeline (default: 3)"
    )
    parser.add_argument(
        "--granularities",
        default="own",
        metavar="G[,G...]",
        help="tokens per landmark of this package's, 'sentence', or 'own' for the model's; each "
        "is measured (default: own)",
    )
    parser.add_argument(
        "--landmark-datatypes",
        default="float16",
        metavar="T[,T...]",
        help="what this package's landmarks are stored as: float16, turbo8; each is measured "
        "(default: float16)",
    )
    parser.add_argument(
        "--peers",
        metavar="A,B,...",
        help="langchain, llama-index, llama-index-whole (its chunks are no longer than its model "
        "reads), or 'none' (default: all)",
    )
    parser.add_argument("--base", metavar="M", help="the peers' model (default: all-MiniLM-L6-v2)")
    _model(parser)
    _output(parser, plot=False)


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


def _pooling(kinds: Subparsers, epilog: str) -> None:
    parser = kinds.add_parser(
        "pooling",
        help="cls, mean and lmk pooling, trained and compared by length",
        description="Train one small encoder three times, with cls, mean and lmk pooling under one "
        "recipe on texts of at most 512 tokens, then rank documents of up to 8,192 tokens with "
        "each. Takes hours; everything is kept in --out, and the same command goes on where it "
        "stopped.",
        epilog=epilog,
    )
    parser.add_argument("text", metavar="TEXT", help="files to train on: plain text, or packed .xz")
    parser.add_argument(
        "--sets",
        nargs="+",
        required=True,
        metavar="DIR",
        help="retrieval sets in BEIR's layout, which are cut to each length and never trained on",
    )
    parser.add_argument("--out", required=True, metavar="DIR", help="where everything is kept")
    parser.add_argument(
        "--base", metavar="M", help="the teacher and its words (default: all-MiniLM-L6-v2)"
    )
    parser.add_argument(
        "--seeds", type=_sizes, default=(0,), metavar="N[,N...]", help="trainings (default: 0)"
    )
    parser.add_argument(
        "--lengths",
        type=_sizes,
        default=(256, 512, 1024, 2048, 4096, 8192),
        metavar="N[,N...]",
        help="tokens of the documents (default: 256,512,1024,2048,4096,8192)",
    )
    for option, default, what in (
        ("--layers", 4, "of the small encoder, 6 at most"),
        ("--distil-steps", 700, "of the distillation that all start from"),
        ("--steps", 200, "of each training"),
        ("--batch", 64, "pairs in a step"),
        ("--documents", 60, "with a planted fact, at each length"),
        ("--set-documents", 150, "of each retrieval set, at most"),
    ):
        parser.add_argument(
            option, type=int, default=default, metavar="N", help=f"{what} (default: {default})"
        )
    parser.add_argument(
        "--device", default="auto", metavar="D", help="cpu, cuda, mps, ... (default: auto)"
    )
    _figure(parser)


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


def _output(parser: argparse.ArgumentParser, *, plot: bool = True) -> None:
    parser.add_argument(
        "--peers-home",
        metavar="DIR",
        help="where environments of peers are made and kept (default: in the cache folder, which "
        "LMK_CACHE names)",
    )
    _figure(parser, plot=plot)


def _figure(parser: argparse.ArgumentParser, *, plot: bool = True) -> None:
    if plot:
        parser.add_argument("--plot", metavar="FILE", help="draw a figure too: .png, .svg or .pdf")
    parser.add_argument("--json", action="store_true", help="print results as JSON")
