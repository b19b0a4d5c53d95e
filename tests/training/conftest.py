"""Tiny models without dropout, and the toy sets as files."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent.parent / "encoder"))

from tiny_models import build_tiny
from toy_sets import KEY_WORDS, toy_rows, write_jsonl


@pytest.fixture(scope="session")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The directory of a family's tiny model, without dropout: it learns in fewer steps."""
    root = tmp_path_factory.mktemp("tiny_for_training")
    built: dict[str, Path] = {}

    def directory(kind: str) -> Path:
        if kind not in built:
            built[kind] = build_tiny(kind, root / kind)
            config = json.loads((built[kind] / "config.json").read_text())
            config |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
            (built[kind] / "config.json").write_text(json.dumps(config))
        return built[kind]

    return directory


@pytest.fixture(scope="session")
def dropping(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny BERT with dropout: its loss curve depends on every random draw."""
    return build_tiny("bert", tmp_path_factory.mktemp("dropping") / "bert")


@pytest.fixture
def toy_file(tmp_path: Path) -> Path:
    """Eight texts for each key word."""
    return write_jsonl(tmp_path / "toy.jsonl", [row for seed in range(8) for row in toy_rows(seed)])


@pytest.fixture
def toy_folder(tmp_path: Path) -> Path:
    """The same in BEIR's layout: every text of a key word answers its query."""
    folder = tmp_path / "toy"
    folder.mkdir()
    rows = [row for seed in range(4) for row in toy_rows(seed)]
    documents = [
        {"_id": f"d{i}", "title": f"about {row['query']}", "text": row["positive"]}
        for i, row in enumerate(rows)
    ]
    write_jsonl(folder / "corpus.jsonl", documents)
    write_jsonl(folder / "queries.jsonl", [{"_id": word, "text": word} for word in KEY_WORDS])
    lines = [f"{row['query']}\td{i}\t1" for i, row in enumerate(rows)]
    (folder / "qrels.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *lines]) + "\n")
    return folder


@pytest.fixture(autouse=True, scope="module")
def one_torch_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
