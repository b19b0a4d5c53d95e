"""The arguments of `lmk copy`, and those of `lmk ingest --rebuild`. Parsing only."""

from __future__ import annotations

import argparse


def add_copy(commands: argparse._SubParsersAction[argparse.ArgumentParser], epilog: str) -> None:
    """Register the command. epilog: the exit codes."""
    parser = commands.add_parser(
        "copy",
        help="move a collection between a directory and a server, without encoding",
        description="Copy a collection as it is: vectors, payloads, ids, indexes. Run again to "
        "resume, or to bring a copy up to date: only what is missing or differs is sent. Counts "
        "and ids are compared at the end.",
        epilog=epilog,
    )
    place = "a directory, or http(s)://host:port of a Qdrant server"
    parser.add_argument("source", metavar="FROM", help=place)
    parser.add_argument(
        "target",
        metavar="TO",
        help=f"{place}. Keys of two servers: LMK_FROM_API_KEY and LMK_TO_API_KEY, else "
        "QDRANT_API_KEY for both",
    )
    parser.add_argument(
        "--collection", "-c", required=True, metavar="C", help="name of the collection"
    )
    parser.add_argument(
        "--as", dest="target_name", metavar="NAME", help="its name in TO (default: the same)"
    )
    parser.add_argument(
        "--prune", action="store_true", help="delete points of the copy that FROM does not have"
    )
    parser.add_argument("--json", action="store_true", help="print results as JSON")


def add_rebuild(parser: argparse.ArgumentParser) -> None:
    """Register what `lmk ingest` takes for a rebuild."""
    parser.add_argument(
        "--granularity",
        type=_granularity,
        metavar="N",
        help='tokens per landmark, or "sentence" (default: the model\'s)',
    )
    group = parser.add_argument_group(
        "another model, granularity, section size or datatype of landmarks"
    )
    group.add_argument(
        "--rebuild",
        action="store_true",
        help="fill a new collection, and let the name stand for it (as an alias) once every "
        "document is verified; until then searches go to the old one. Run again to resume",
    )
    group.add_argument(
        "--drop-old", action="store_true", help="delete the old collection after the swap"
    )
    group.add_argument(
        "--allow-failures", action="store_true", help="swap though some items failed"
    )
    group.add_argument(
        "--allow-missing",
        action="store_true",
        help="swap though the old collection has documents that are not among PATH",
    )


def _granularity(text: str) -> int | str:
    if text == "sentence":
        return text
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number, nor 'sentence'") from None
