"""The command line. Only parsing lives here, so that `lmk --help` answers at once."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from lmk_integrations import __version__
from lmk_integrations.cli.adapt_args import add_adapt
from lmk_integrations.cli.bench_args import add_bench
from lmk_integrations.cli.copy_args import add_copy, add_rebuild
from lmk_integrations.cli.eval_args import add_eval
from lmk_integrations.cli.model_args import add_model
from lmk_integrations.cli.reading_args import add_reading
from lmk_integrations.cli.train_args import add_mine, add_train
from lmk_integrations.cli.verify_args import add_verify
from lmk_integrations.file_types import types_in_words

DEFAULT_LOCATION = "./.lmk"
_EXIT_CODES = (
    "exit codes: 0 done, 1 failure, 2 usage, 3 done but some items failed, "
    "4 store unreachable or in use by another process (run again to resume), "
    "130 interrupted (run again to resume)"
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Returns the exit code; see `lmk --help`."""
    arguments = _parser().parse_args(argv)
    try:
        from lmk_integrations.cli.run import run

        return run(arguments)
    except KeyboardInterrupt:  # while the libraries load, too
        print("lmk: interrupted", file=sys.stderr)
        return 130


class _Parser(argparse.ArgumentParser):
    """Takes options by their whole names: what begins like one may be a mistake for another."""

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_abbrev=False, **options)


def _parser() -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = _Parser(
        prog="lmk",
        description="Long documents into Qdrant, and the right passages out again. "
        "Nothing leaves this machine but what goes to the Qdrant you name.",
        epilog=_EXIT_CODES,
    )
    parser.add_argument("--version", action="version", version=f"lmk {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _ingest(commands)
    _search(commands)
    _delete(commands)
    _info(commands)
    add_verify(commands, _EXIT_CODES, _store, add_model, _json)
    add_copy(commands, _EXIT_CODES)
    add_eval(commands, _EXIT_CODES)
    add_adapt(commands, _EXIT_CODES)
    add_train(commands, _EXIT_CODES)
    add_mine(commands, _EXIT_CODES)
    add_bench(commands, _EXIT_CODES)
    return parser


def _ingest(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "ingest",
        help="store files and folders; run again to resume or update",
        description="Store files and folders in a collection. What is stored already as it is "
        "is skipped before encoding; an interrupted run goes on where it stopped. "
        f"Files that are read: {types_in_words()}.",
        epilog=_EXIT_CODES,
    )
    parser.add_argument("paths", nargs="*", metavar="PATH", help="files and folders")
    _store(parser)
    add_model(parser)
    parser.add_argument(
        "--retry-failed",
        metavar="REPORT",
        help="only what failed in an earlier run: the file in which its --json output was kept. "
        "Without PATH those of that run",
    )
    parser.add_argument(
        "--section-tokens",
        type=int,
        metavar="N",
        help="most tokens of a stored section (default: whole encoder windows up to 1,024)",
    )
    parser.add_argument(
        "--language",
        metavar="L",
        help='for BM25 word forms and stop words, or "none"; fixed at creation (default: english)',
    )
    parser.add_argument(
        "--landmark-datatype",
        choices=["float16", "turbo8"],
        help="what landmarks are stored as; turbo8 takes half the space; fixed at creation but "
        "for --rebuild (default: float16)",
    )
    add_reading(parser)
    parser.add_argument(
        "--prune",
        action="store_true",
        help="delete documents of the given folders whose file is gone",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="say what would be done; encode and store nothing"
    )
    parser.add_argument(
        "--fail-fast", action="store_true", help="stop at the first item that fails"
    )
    add_rebuild(parser)
    _json(parser)


def _search(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "search", help="find passages", description="Find the best passages.", epilog=_EXIT_CODES
    )
    parser.add_argument("query", help="a question or a few words")
    _store(parser)
    add_model(parser)
    parser.add_argument(
        "--mode",
        default="hybrid",
        choices=["hybrid", "dense", "landmark", "bm25", "document"],
        help="how sections are ranked (default: hybrid)",
    )
    parser.add_argument("--limit", type=int, default=5, metavar="N", help="hits (default: 5)")
    parser.add_argument(
        "--by-document", action="store_true", help="at most one hit from each document"
    )
    parser.add_argument(
        "--passage-tokens",
        type=int,
        metavar="N",
        help="most tokens of the passage shown (default: 128)",
    )
    _json(parser)


def _delete(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("delete", help="delete documents by their id", epilog=_EXIT_CODES)
    parser.add_argument("documents", nargs="+", metavar="DOC", help="document ids, as shown")
    _store(parser)
    _json(parser)


def _info(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "info", help="what a store or a collection holds", epilog=_EXIT_CODES
    )
    _store(parser, required=False)
    parser.add_argument(
        "--documents",
        action="store_true",
        help="list the ids of a collection's documents, each with its sections and tokens; with "
        "--json one line each",
    )
    _json(parser)


def _store(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    parser.add_argument(
        "--collection", "-c", required=required, metavar="C", help="name of the collection"
    )
    parser.add_argument(
        "--to",
        "--location",
        dest="location",
        default=DEFAULT_LOCATION,
        metavar="LOCATION",
        help="a directory, or http(s)://host:port of a Qdrant server, whose key is taken from "
        f"QDRANT_API_KEY (default: {DEFAULT_LOCATION})",
    )


def _json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print results as JSON")
