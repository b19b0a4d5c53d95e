"""`lmk eval`: load the sets, evaluate, print a table or JSON."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import Any

from lmk_integrations.cli.bar import Bar
from lmk_integrations.errors import ConfigError
from lmk_integrations.evaluation import (
    DEFAULT_METHODS,
    Estimate,
    Result,
    RetrievalSet,
    difference,
    evaluate,
    load_beir,
)
from lmk_integrations.evaluation.methods import EXPLANATION, parse_method

_COLUMNS = {"ndcg@10": "nDCG@10", "recall@10": "R@10", "recall@100": "R@100", "mrr@10": "MRR@10"}


def run_eval(arguments: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    if arguments.methods == "help":
        print(EXPLANATION, end="")
        return 0
    methods = _names(arguments.methods)
    granularity = _granularity(arguments.granularity)
    for name in methods:  # all is checked before anything is encoded
        parse_method(name, granularity)
    against: str | None = arguments.against
    if against is not None and against not in methods:
        raise ConfigError(f"--against {against} is not among the methods {', '.join(methods)}")
    if not arguments.datasets:
        raise ConfigError("name at least one DATASET, a folder in BEIR's layout; see lmk eval -h")
    sets = [load_beir(folder) for folder in arguments.datasets]
    chosen = [found.select(arguments.half, arguments.queries) for found in sets]
    results: list[list[Result]] = []  # a list for each set, in the order of the methods
    for dataset in sets:
        with EvalProgress(dataset.name) as progress:
            found = evaluate(
                dataset,
                methods,
                model=arguments.model,
                base=arguments.base,
                device=arguments.device,
                dtype=arguments.dtype,
                backend=arguments.backend,
                compile=arguments.compile,
                half=arguments.half,
                queries=arguments.queries,
                granularity=granularity,
                titles=arguments.titles,
                seed=arguments.seed,
                progress=progress.update,
            )
        results.append(found)
    leads = None if against is None else [_leads(of, against, arguments.seed) for of in results]
    if arguments.json:
        print(json.dumps(_as_json(chosen, results, leads)))
    else:
        print_table(results, leads)
        print()
        for dataset in chosen:
            print(_sentence(dataset))
    return 0


class EvalProgress(Bar):
    """Documents done, rate and time left of each step."""

    def __init__(self, dataset: str) -> None:
        self._dataset = dataset
        self._step = ""

    def update(self, step: str, done: int, total: int) -> None:
        """Show where a step stands."""
        if step != self._step:
            self._step = step
            self.open(total, desc=f"{self._dataset} {step}", unit=" documents")
        self._bar.update(done - self._bar.n)


def print_table(
    results: Sequence[Sequence[Result]], leads: Sequence[Sequence[Estimate]] | None
) -> None:
    """One row a method, some columns a set, as Markdown.

    results: for each set one of each method, in one order; leads: the same of the differences
    that ``--against`` asks for.
    """
    head = ["method"]
    rows = [[result.method] for result in results[0]]
    for number, of_set in enumerate(results):
        head += [f"{of_set[0].dataset} {title}" for title in _COLUMNS.values()]
        for row, result in zip(rows, of_set, strict=True):
            row += [_cell(name, result.metrics[name]) for name in _COLUMNS]
        if leads is not None:
            head.append(f"{of_set[0].dataset} lead")
            for row, lead in zip(rows, leads[number], strict=True):
                row.append(f"{100 * lead.mean:+.1f} ± {50 * (lead.high - lead.low):.1f}")
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    for line in [head, rule, *rows]:
        cells = [line[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)]
        print(f"| {' | '.join(cells)} |")


def _cell(name: str, figure: Estimate) -> str:
    """In points of 100; the main metric with half the width of its interval."""
    spread = f" ± {50 * (figure.high - figure.low):.1f}" if name == "ndcg@10" else ""
    return f"{100 * figure.mean:.1f}{spread}"


def _leads(results: Sequence[Result], against: str, seed: int) -> list[Estimate]:
    reference = next(result for result in results if result.method == against)
    return [difference(result, reference, seed=seed) for result in results]


def _as_json(
    chosen: Sequence[RetrievalSet],
    results: Sequence[Sequence[Result]],
    leads: Sequence[Sequence[Estimate]] | None,
) -> dict[str, Any]:
    found = [result.to_dict() for of_set in results for result in of_set]
    if leads is not None:
        flat = [lead for of_set in leads for lead in of_set]
        for result, lead in zip(found, flat, strict=True):
            result["lead"] = lead.to_dict()
    facts = [_facts(dataset) for dataset in chosen]
    return {"type": "result", "command": "eval", "datasets": facts, "results": found}


def _names(text: str | None) -> list[str]:
    if text is None:
        return list(DEFAULT_METHODS)
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise ConfigError("--methods names none; '--methods help' lists them")
    return names


def _granularity(text: str | None) -> int | str | None:
    return int(text) if text is not None and text.isdecimal() else text


def _facts(dataset: RetrievalSet) -> dict[str, Any]:
    return {
        "dataset": dataset.name,
        "n_documents": len(dataset.doc_ids),
        "n_queries": len(dataset.query_ids),
        "unjudged_queries": dataset.unjudged,
        "unknown_documents": dataset.unknown_documents,
        "unknown_queries": dataset.unknown_queries,
    }


def _sentence(dataset: RetrievalSet) -> str:
    left_out = [
        f"{count:,} {what}"
        for count, what in (
            (dataset.unjudged, "queries without a judgement"),
            (dataset.unknown_documents, "judgements of unknown documents"),
            (dataset.unknown_queries, "judgements of unknown queries"),
        )
        if count
    ]
    return (
        f"{dataset.name}: {len(dataset.query_ids):,} queries, {len(dataset.doc_ids):,} documents"
        + (f"; left out: {', '.join(left_out)}" if left_out else "")
    )
