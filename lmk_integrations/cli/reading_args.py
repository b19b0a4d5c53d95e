"""How files are read: the arguments that commands with a PATH share. Parsing only."""

from __future__ import annotations

import argparse


def add_reading(parser: argparse.ArgumentParser) -> None:
    """Register what `paths_and_options` reads."""
    parser.add_argument(
        "--include",
        action="append",
        metavar="GLOB",
        help="only files that match, such as '*.md'; may be repeated",
    )
    parser.add_argument(
        "--exclude", action="append", metavar="GLOB", help="no files that match; may be repeated"
    )
    parser.add_argument(
        "--encoding", metavar="NAME", help="of text files (default: found out per file)"
    )
    parser.add_argument(
        "--follow-symlinks",
        action="store_true",
        help="follow links too, if they stay inside their folder",
    )
    parser.add_argument(
        "--max-bytes",
        metavar="SIZE",
        help="skip larger files; a number, or one with K, M or G (of 1,024) behind it",
    )
    parser.add_argument("--pdf-password", metavar="PASSWORD", help="for encrypted PDF files")
