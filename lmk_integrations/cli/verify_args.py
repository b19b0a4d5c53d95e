"""The arguments of `lmk verify`. Parsing only."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from lmk_integrations.cli.reading_args import add_reading

Register = Callable[[argparse.ArgumentParser], None]


def add_verify(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    epilog: str,
    *shared: Register,
) -> None:
    """Register the command. epilog: the exit codes; shared: what other commands have as well."""
    parser = commands.add_parser(
        "verify",
        help="compare a collection with itself and with its files, and mend it",
        description="Look at every point: is it as it was written, are documents whole, are there "
        "second copies? With PATH, also: is every document of these files stored, as it is now? "
        "Exits with 1 if anything is missing, stale, altered, duplicated or foreign.",
        epilog=epilog,
    )
    parser.add_argument(
        "paths", nargs="*", metavar="PATH", help="the files and folders it was filled from"
    )
    for register in shared:
        register(parser)
    parser.add_argument(
        "--repair",
        action="store_true",
        help="delete second copies and leftovers; with PATH, store anew what is missing, stale or "
        "altered",
    )
    parser.add_argument(
        "--delete-foreign",
        action="store_true",
        help="with --repair: also delete what other programs stored, and documents whose file is "
        "gone",
    )
    parser.add_argument(
        "--allow-foreign", action="store_true", help="that such points are there is no problem"
    )
    add_reading(parser)
    parser.set_defaults(retry_failed=None, prune=False, rebuild=False)
