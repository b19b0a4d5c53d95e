"""Toy sets whose evidence lies beyond the first window."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

WINDOW = 32
KEY_WORDS = ["fox", "dog", "river", "landmark", "harbour", "query", "passage", "heading"]
KEY_WORDS += ["paragraph", "chunk", "quick", "brown"]
FILLER = ["the", "it", "was", "and", "all", "day", "long", "by", "sea", "there", "read", "what"]


def toy_rows(seed: int) -> list[dict[str, Any]]:
    """One row per key word: it stands at the text's end only, past the first window's 31 tokens."""
    chooser = random.Random(seed)
    return [
        {"query": word, "positive": " ".join([*chooser.choices(FILLER, k=36), *[word] * 8])}
        for word in KEY_WORDS
    ]


def write_jsonl(path: Path, rows: list[dict[str, Any]]) -> Path:
    """One JSON object a line."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path
