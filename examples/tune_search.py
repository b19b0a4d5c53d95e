"""Compare ways to rank sections on retrieval sets in BEIR layout: nDCG@10 by document.

    python examples/tune_search.py FOLDER... --half even     (to choose)
    python examples/tune_search.py FOLDER... --half odd --best  (to report)

Fills one collection for each folder under --store (the second run encodes nothing), encodes each
query once, and runs every variant as a real search. Needs the extra `bench`.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from lmk_integrations import Document, LandmarkIndex, LMKEncoder
from lmk_integrations.evaluation import load_beir
from lmk_integrations.evaluation.metrics import per_query
from lmk_integrations.qdrant import HybridWeights


@dataclass(frozen=True)
class Variant:
    """One way to rank. options: of `LandmarkIndex.search`."""

    name: str
    options: dict[str, Any]
    weights: HybridWeights = field(default_factory=HybridWeights)


ARMS = [Variant(mode, {"mode": mode}) for mode in ("bm25", "landmark", "dense", "document")]
DEFAULT = Variant("hybrid (the default)", {})
OTHERS = [
    *(
        Variant(f"formula, bm25 x {weight}", {}, HybridWeights(1.0, weight))
        for weight in (0.01, 0.02, 0.03, 0.05, 0.06, 0.1)
    ),
    *(Variant(f"prefetch {depth}", {"prefetch": depth}) for depth in (16, 32, 128, 256, 512)),
    *(Variant(f"rrf k {k}", {"fusion": "rrf"}, HybridWeights(rrf_k=k)) for k in (2, 20, 60)),
    Variant("dbsf", {"fusion": "dbsf"}),
]


def main() -> None:
    """Print a table: a row for each variant, a column for each folder."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--half", choices=["all", "even", "odd"], default="even")
    parser.add_argument("--queries", type=int, help="at most so many of each set")
    parser.add_argument("--store", default=".lmk/tune")
    parser.add_argument("--section-tokens", type=int)
    parser.add_argument("--granularity", type=int, help="tokens per landmark")
    parser.add_argument("--landmark-datatype", choices=["float16", "turbo8"])
    parser.add_argument("--best", action="store_true", help="the arms and the default only")
    parser.add_argument("--by-length", action="store_true", help="short and long queries apart")
    options = parser.parse_args()
    variants = [*ARMS, DEFAULT, *([] if options.best else OTHERS)]
    encoder = LMKEncoder(granularity=options.granularity)
    columns: dict[str, list[float]] = {}
    for folder in options.folders:
        columns |= scores(folder, variants, encoder, options)
    print(f"{'':28}" + "".join(f"{name[:16]:>18}" for name in columns))
    for row, variant in enumerate(variants):
        print(f"{variant.name:28}" + "".join(f"{values[row]:18.1f}" for values in columns.values()))


def scores(
    folder: Path, variants: list[Variant], encoder: LMKEncoder, options: argparse.Namespace
) -> dict[str, list[float]]:
    """By column name, nDCG@10 in points of 100 of each variant."""
    dataset = load_beir(folder)
    documents = zip(dataset.doc_ids, dataset.titles, dataset.texts, strict=True)
    choices = (options.granularity, options.landmark_datatype)
    names = [dataset.name, options.section_tokens or "default", *filter(None, choices)]
    with LandmarkIndex(
        options.store,
        "-".join(map(str, names)),
        encoder,
        section_tokens=options.section_tokens,
        landmark_datatype=options.landmark_datatype,
    ) as index:
        index.ingest(Document(text, id=own, title=title or None) for own, title, text in documents)
        asked = dataset.select(options.half, options.queries)
        vectors = encoder.encode_queries(asked.queries).tolist()
        found = []
        for variant in variants:
            index.weights = variant.weights
            rankings = {}
            for query_id, text, vector in zip(asked.query_ids, asked.queries, vectors, strict=True):
                hits = index.search(text, 10, vector=vector, per_document=1, **variant.options)
                rankings[query_id] = [hit.doc_id for hit in hits]
            found.append(per_query(asked.qrels, rankings)["ndcg@10"])
    chosen = {dataset.name: np.ones(len(asked.queries), bool)}
    if options.by_length:
        lengths = np.array([len(text.split()) for text in asked.queries])
        middle = float(np.median(lengths))
        chosen |= {
            f"{dataset.name} <={middle:.0f}w": lengths <= middle,
            f"{dataset.name} >{middle:.0f}w": lengths > middle,
        }
    return {
        name: [100 * float(values[mask].mean()) for values in found]
        for name, mask in chosen.items()
        if mask.any()
    }


if __name__ == "__main__":
    main()
