"""The arguments of `lmk adapt`. Parsing only: see adapt_run.py."""

from __future__ import annotations

import argparse

from lmk_integrations.cli.train_args import add_running, numbers


def add_adapt(commands: argparse._SubParsersAction[argparse.ArgumentParser], epilog: str) -> None:
    """Register the command. epilog: the exit codes."""
    parser = commands.add_parser(
        "adapt",
        help="make the landmark version of a sentence encoder, from plain text",
        description="Self-distillation without labels: the base, with its own pooling, teaches a "
        "copy of itself that reads landmarks. Interrupted, it goes on with --resume.",
        epilog=epilog,
    )
    parser.add_argument("--base", required=True, metavar="MODEL", help="a directory or hub id")
    parser.add_argument(
        "--text",
        required=True,
        metavar="DIR",
        help="files of any kind that `lmk ingest` reads, and .xz packed text; a line holding a "
        "form feed separates documents",
    )
    parser.add_argument("--out", required=True, metavar="DIR", help="where the model is written")
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--steps", type=int, metavar="N", help="optimiser steps")
    length.add_argument(
        "--minutes", type=float, metavar="N", help="as many steps as fit (default: 60)"
    )
    parser.add_argument(
        "--eval",
        action="append",
        default=[],
        metavar="DATASET",
        help="a folder in BEIR's layout whose figures go into the model card; may be repeated",
    )
    parser.add_argument(
        "--batch", type=int, default=24, metavar="N", help="texts per step (default: 24)"
    )
    parser.add_argument(
        "--accumulate", type=int, default=1, metavar="N", help="batches per step (default: 1)"
    )
    parser.add_argument(
        "--longest", type=int, default=3000, metavar="N", help="tokens of a text (default: 3000)"
    )
    parser.add_argument(
        "--lr", type=float, default=2e-4, metavar="X", help="peak learning rate (default: 2e-4)"
    )
    parser.add_argument(
        "--granularities",
        type=numbers,
        metavar="N,N,...",
        help="tokens per landmark, one drawn for each text (default: 32,64,128,256, if they fit)",
    )
    parser.add_argument(
        "--max-tokens", type=int, metavar="N", help="positions of a window (default: the base's)"
    )
    parser.add_argument(
        "--context-tokens",
        type=int,
        default=254,
        metavar="N",
        help="the most that the base reads at once for a target (default: 254)",
    )
    parser.add_argument(
        "--dtype",
        default="float32",
        choices=["float32", "float16", "bfloat16"],
        help="of the weights as saved (default: float32)",
    )
    add_running(parser, save_every=200)
