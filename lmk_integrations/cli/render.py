"""Results for people: a closing table, hits with heat strips, what a store holds."""

from __future__ import annotations

import re
import shutil
import textwrap
from typing import Any

import numpy as np

from lmk_integrations.ingest.report import IngestReport
from lmk_integrations.qdrant.hits import SearchHit

_BARS = "▁▂▃▄▅▆▇█"
_LISTED = 20  # failures named in full
_INDENT = "   "
# A document must not drive the terminal that shows it: escape sequences, cursor moves, overrides
# of the writing direction.
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]+")


def print_report(report: IngestReport, collection: str, location: str) -> None:
    """The closing table of an ingest."""
    title = "would store" if report.dry_run else "stored"
    print(f"{title} in {collection!r} at {location}")
    rows = [
        ("new", report.new),
        ("updated", report.updated),
        ("unchanged", report.unchanged),
        ("pruned", report.pruned),
        ("skipped", len(report.skipped)),
        ("failed", len(report.failed)),
    ]
    for name, count in rows:
        print(f"  {name:<10} {count:>8,}")
    rate = f", {report.tokens_per_s:,.0f} tokens/s" if report.tokens_encoded else ""
    print(
        f"  {report.sections:,} sections, {report.tokens_seen:,} tokens seen, "
        f"{report.tokens_embedded:,} embedded, {report.tokens_dropped:,} dropped, "
        f"{report.seconds:.1f} s{rate}"
    )
    pruned = "would prune" if report.dry_run else "pruned"
    for doc_id in report.pruned_ids[:_LISTED]:
        print(f"  {pruned}: {safe(doc_id)}")
    if len(report.pruned_ids) > _LISTED:
        print(f"  {pruned}: and {len(report.pruned_ids) - _LISTED} more; --json lists all")
    for kind, items in (("skipped", report.skipped), ("failed", report.failed)):
        for item in items[:_LISTED]:
            print(f"  {kind}: {safe(f'{item.name}: {item.reason}: {item.message}')}")
        if len(items) > _LISTED:
            print(f"  {kind}: and {len(items) - _LISTED} more; --json lists all")
    for warning in report.warnings[:_LISTED]:
        print(f"  warning: {safe(warning)}")
    if report.interrupted:
        print("  interrupted: what is stored is kept; run again to resume")


def print_hits(hits: list[SearchHit]) -> None:
    """Hits, best first, each with its passage and a strip of its landmarks' scores."""
    if not hits:
        print("nothing found")
        return
    width = min(100, shutil.get_terminal_size().columns)
    for rank, hit in enumerate(hits, 1):
        place = f"characters {hit.passage.start}-{hit.passage.end}"
        page = f"page {hit.passage.page}" if hit.passage.page else None
        where = [hit.passage.heading, page, place]
        name = f"{hit.title or hit.doc_id}  [{hit.doc_id}]"
        print(f"{rank}. {hit.score:.3f}  {safe(name)}")
        print(_INDENT + safe(" · ".join(part for part in where if part)))
        if len(hit.landmark_scores):
            print(_INDENT + heat_strip(hit.landmark_scores, width - len(_INDENT)))
        text = safe(hit.passage.text)
        wrapped = textwrap.wrap(
            text,
            width,
            initial_indent=_INDENT,
            subsequent_indent=_INDENT,
            break_on_hyphens=False,
        )
        print("\n".join(wrapped))
        print()


def safe(text: str) -> str:
    """The text on one line, without what a terminal would obey."""
    return " ".join(_CONTROLS.sub(" ", text).split())


def heat_strip(scores: np.ndarray[Any, np.dtype[np.float32]], width: int = 100) -> str:
    """One character per landmark, tall where it is close to the query.

    Past ``width`` characters neighbours share one, as tall as the best of them.

    >>> heat_strip(np.array([0.0, 0.5, 1.0], np.float32))
    '▁▅█'
    """
    if len(scores) > width:
        scores = np.array([part.max() for part in np.array_split(scores, max(1, width))])
    low, high = float(scores.min()), float(scores.max())
    steps = np.round((scores - low) / max(high - low, 1e-9) * (len(_BARS) - 1))
    return "".join(_BARS[int(step)] for step in steps)


def print_info(collections: list[dict[str, Any]], location: str) -> None:
    """What the collections of a store hold."""
    if not collections:
        print(f"no collections at {location}")
    for found in collections:
        print(f"{found['collection']} at {location}")
        if found["aliases"]:
            print(f"  also called {', '.join(map(repr, found['aliases']))}")
        print(f"  documents  {found['documents']:>8,}")
        print(f"  sections   {found['sections']:>8,}")
        recipe = found["recipe"] or {}
        print(f"  model      {found['model']} ({(found['space'] or {}).get('pooling')})")
        if found["landmark_datatype"]:
            every, stored_as = recipe.get("granularity"), found["landmark_datatype"]
            print(f"  landmarks  every {every} tokens, stored as {stored_as}")
        print(f"  sections of at most {recipe.get('section_tokens')} tokens")
        print(f"  language   {(found['bm25'] or {}).get('language')}")
