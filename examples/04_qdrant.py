"""Files into Qdrant and passages out. Run it twice: the second run encodes nothing.

python examples/04_qdrant.py [LOCATION]   (a directory, or http://host:6333)
"""

import sys
from pathlib import Path

from lmk_integrations import LandmarkIndex, LMKEncoder

corpus = Path(__file__).parent / "corpus"
location = sys.argv[1] if len(sys.argv) > 1 else ".lmk"

with LandmarkIndex(location, "examples", LMKEncoder()) as index:
    report = index.ingest(corpus)
    print(
        f"{report.new} new, {report.unchanged} unchanged, {len(report.failed)} failed; "
        f"{report.tokens_seen:,} tokens seen, {report.tokens_dropped} dropped"
    )
    question = "How should a program handle an error while writing to disk?"
    for mode in ("hybrid", "dense", "landmark", "bm25", "document"):
        [hit] = index.search(question, 1, mode=mode)
        passage = " ".join(hit.passage.text.split())
        print(f"{mode:>9} {hit.score:.3f} {hit.source} {hit.passage.start}: {passage[:60]}...")
