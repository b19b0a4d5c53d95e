"""Score every search mode on a retrieval set in BEIR layout, by document (nDCG@10).

    python examples/score_beir.py FOLDER [--to DIRECTORY] [--queries N]

FOLDER holds corpus.jsonl, queries.jsonl and qrels.tsv. The second run encodes nothing.
"""

import argparse
import csv
import json
import math
import time
from pathlib import Path

from lmk_integrations import Document, LandmarkIndex, LMKEncoder

parser = argparse.ArgumentParser()
parser.add_argument("folder", type=Path)
parser.add_argument("--to", default=".lmk/beir")
parser.add_argument("--queries", type=int, default=None)
arguments = parser.parse_args()


def rows(name: str) -> list[dict]:
    with (arguments.folder / name).open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]


documents = (
    Document(row["text"], id=row["_id"], title=row["title"] or None) for row in rows("corpus.jsonl")
)
with (arguments.folder / "qrels.tsv").open(encoding="utf-8") as file:
    relevant: dict[str, dict[str, int]] = {}
    for row in csv.DictReader(file, delimiter="\t"):
        relevant.setdefault(row["query-id"], {})[row["corpus-id"]] = int(row["score"])
queries = [row for row in rows("queries.jsonl") if row["_id"] in relevant][: arguments.queries]


def ndcg(found: list[str], gains: dict[str, int]) -> float:
    ideal = sorted(gains.values(), reverse=True)[:10]
    return sum(gains.get(doc, 0) / math.log2(rank + 2) for rank, doc in enumerate(found)) / sum(
        gain / math.log2(rank + 2) for rank, gain in enumerate(ideal)
    )


with LandmarkIndex(arguments.to, arguments.folder.name, LMKEncoder()) as index:
    report = index.ingest(documents)
    print(
        f"{report.new} new, {report.unchanged} unchanged, {report.tokens_encoded:,} tokens encoded"
    )
    print(f"in {report.seconds:.1f} s; {len(queries)} queries, nDCG@10 by document:")
    for mode in ("hybrid", "bm25", "landmark", "dense", "document"):
        started, total = time.monotonic(), 0.0
        for query in queries:
            hits = index.search(query["text"], 10, mode=mode, per_document=1)
            total += ndcg([hit.doc_id for hit in hits], relevant[query["_id"]])
        seconds = (time.monotonic() - started) / len(queries)
        print(f"  {mode:<9} {100 * total / len(queries):5.1f}   {1000 * seconds:5.1f} ms a query")
