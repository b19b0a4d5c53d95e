"""The arguments of `lmk train` and `lmk mine`. Parsing only: see train_run.py."""

from __future__ import annotations

import argparse

from lmk_integrations.cli.model_args import add_model

_DATA = (
    "a JSONL file of {query, positive, negatives, scores}, or a folder in BEIR's layout whose "
    "judgements are in qrels/train.tsv or qrels.tsv"
)


def add_train(commands: argparse._SubParsersAction[argparse.ArgumentParser], epilog: str) -> None:
    """Register `lmk train`. epilog: the exit codes."""
    parser = commands.add_parser(
        "train",
        help="train a model on queries and their answers",
        description="Contrastive training with in-batch and hard negatives, landmarks at several "
        "granularities, through sentence-transformers. Interrupted, it goes on with --resume.",
        epilog=epilog,
    )
    _data(parser)
    parser.add_argument("--base", required=True, metavar="MODEL", help="a directory or hub id")
    parser.add_argument("--out", required=True, metavar="DIR", help="where the model is written")
    parser.add_argument(
        "--pooling",
        default="lmk",
        choices=["lmk", "mean", "cls", "last"],
        help="the others are for comparisons (default: lmk)",
    )
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--steps", type=int, metavar="N", help="optimiser steps")
    length.add_argument(
        "--epochs", type=float, default=1.0, metavar="N", help="passes over the data (default: 1)"
    )
    parser.add_argument(
        "--batch", type=int, default=32, metavar="N", help="examples per step (default: 32)"
    )
    parser.add_argument(
        "--mini-batch",
        type=int,
        metavar="N",
        help="texts in memory at once, for a --batch that does not fit (slower)",
    )
    parser.add_argument(
        "--accumulate", type=int, default=1, metavar="N", help="batches per step (default: 1)"
    )
    parser.add_argument(
        "--lr", type=float, default=2e-5, metavar="X", help="peak learning rate (default: 2e-5)"
    )
    parser.add_argument(
        "--temperature", type=float, default=0.02, metavar="X", help="(default: 0.02)"
    )
    parser.add_argument(
        "--max-tokens", type=int, metavar="N", help="positions of a window (default: the base's)"
    )
    parser.add_argument(
        "--text-tokens",
        type=int,
        metavar="N",
        help="read only the first N tokens of a text in training (default: all, in windows)",
    )
    parser.add_argument(
        "--granularities",
        type=numbers,
        metavar="N,N,...",
        help="tokens per landmark, one drawn for each text (default: 32,64,128,256, if they fit)",
    )
    parser.add_argument(
        "--hard-negatives",
        type=int,
        metavar="N",
        help="per query (default: as many as all examples have, at most 7)",
    )
    parser.add_argument(
        "--teacher-scores",
        nargs="?",
        const="kl",
        choices=["kl", "margin_mse"],
        help="learn from the data's scores, too (default: no; without a value: kl)",
    )
    parser.add_argument(
        "--teacher-temperature",
        type=float,
        default=1.0,
        metavar="X",
        help="what the scores are divided by: 1 for those of a cross-encoder, --temperature for "
        "cosines (default: 1)",
    )
    parser.add_argument(
        "--matryoshka",
        type=numbers,
        default=(),
        metavar="N,N,...",
        help="dimensions that shall serve alone, too",
    )
    add_running(parser, save_every=500)


def add_mine(commands: argparse._SubParsersAction[argparse.ArgumentParser], epilog: str) -> None:
    """Register `lmk mine`. epilog: the exit codes."""
    parser = commands.add_parser(
        "mine",
        help="find hard negatives for lmk train",
        description="For each query, find texts that a model takes for answers but which are "
        "none, and write JSONL that `lmk train` reads.",
        epilog=epilog,
    )
    _data(parser)
    add_model(parser)
    parser.add_argument("--out", required=True, metavar="FILE", help="the JSONL file to write")
    parser.add_argument(
        "--negatives", type=int, default=7, metavar="N", help="per query, at most (default: 7)"
    )
    parser.add_argument(
        "--margin",
        type=float,
        default=0.05,
        metavar="X",
        help="leave out texts within this share of the positive's similarity: they may be "
        "answers that nobody marked (default: 0.05)",
    )
    parser.add_argument(
        "--skip", type=int, default=0, metavar="N", help="ranks passed over (default: 0)"
    )
    parser.add_argument("--depth", type=int, metavar="N", help="ranks looked at")
    parser.add_argument("--json", action="store_true", help="print results as JSON")


def _data(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", required=True, metavar="DATA", help=_DATA)
    parser.add_argument(
        "--half",
        default="all",
        choices=["all", "even", "odd"],
        help="of a folder, only queries whose id has an even or an odd crc32 (default: all)",
    )
    parser.add_argument(
        "--titles", action="store_true", help="of a folder, put each title before its text"
    )


def _device(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--device", default="auto", metavar="D", help="cpu, cuda, mps, ... (default: auto)"
    )


def add_running(parser: argparse.ArgumentParser, *, save_every: int) -> None:
    """What every training takes: seed, checkpoints, resume, device, output."""
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="(default: 0)")
    parser.add_argument(
        "--save-every",
        type=int,
        default=save_every,
        metavar="N",
        help=f"steps between checkpoints (default: {save_every})",
    )
    parser.add_argument("--resume", action="store_true", help="go on from the last checkpoint")
    _device(parser)
    parser.add_argument("--json", action="store_true", help="print results as JSON")


def numbers(text: str) -> tuple[int, ...]:
    """A list of whole numbers as an argument: "32,64,128"."""
    try:
        return tuple(int(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list such as 32,64,128") from None
