"""The arguments of `lmk eval`. Parsing only: see eval_run.py."""

from __future__ import annotations

import argparse

from lmk_integrations.cli.model_args import add_model


def add_eval(commands: argparse._SubParsersAction[argparse.ArgumentParser], epilog: str) -> None:
    """Register the command. epilog: the exit codes."""
    parser = commands.add_parser(
        "eval",
        help="how well methods find documents, on folders in BEIR's layout",
        description="Rank the documents of retrieval sets by several methods and print nDCG@10 "
        "with its 95 % interval, recall and MRR, in points of 100, as a Markdown table.",
        epilog=f"'--methods help' explains the methods. {epilog}",
    )
    parser.add_argument(
        "datasets",
        nargs="*",
        metavar="DATASET",
        help="folders with corpus.jsonl, queries.jsonl and qrels.tsv",
    )
    parser.add_argument(
        "--methods", metavar="A,B,...", help="what to compare, or 'help' (default: all usual ones)"
    )
    add_model(parser, "of the lmk- methods (default: the shipped model)")
    parser.add_argument(
        "--base", metavar="M", help="of the other methods (default: all-MiniLM-L6-v2)"
    )
    parser.add_argument(
        "--half",
        default="all",
        choices=["all", "even", "odd"],
        help="only queries whose id has an even or an odd crc32 (default: all)",
    )
    parser.add_argument(
        "--queries", type=int, metavar="N", help="at most N queries of each set, spread over it"
    )
    parser.add_argument(
        "--granularity",
        metavar="G",
        help="tokens per landmark, or 'sentence', where a method names none with @G "
        "(default: the model's own)",
    )
    parser.add_argument(
        "--titles", action="store_true", help="put each document's title before its text"
    )
    parser.add_argument(
        "--against",
        metavar="METHOD",
        help="add how much each method's nDCG@10 exceeds this one's, query by query",
    )
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="of the intervals (default: 0)"
    )
    parser.add_argument("--json", action="store_true", help="print results as JSON")
