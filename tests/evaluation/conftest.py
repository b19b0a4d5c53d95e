"""A tiny model, a small corpus that is longer than its window, and folders made of them."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent.parent / "encoder"))

from plain import PlainModel
from tiny_models import CORPUS, build_tiny

WINDOW = 128
Folder = Callable[..., Path]


@pytest.fixture(scope="session")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a tiny random BERT with 128 positions."""
    return build_tiny("bert", tmp_path_factory.mktemp("models") / "bert")


@pytest.fixture(scope="session")
def landmark_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another tiny BERT, which says of itself that it was trained for landmarks."""
    directory = build_tiny("bert", tmp_path_factory.mktemp("models") / "lmk", seed=1)
    (directory / "lmk_config.json").write_text('{"version": 1, "pooling": "lmk"}')
    return directory


@pytest.fixture(scope="session")
def plain_bert(bert: Path) -> PlainModel:
    """The first model, opened by transformers."""
    return PlainModel("bert", bert, WINDOW)


@pytest.fixture(scope="session")
def plain_landmark_model(landmark_model: Path) -> PlainModel:
    """The second model, opened by transformers."""
    return PlainModel("bert", landmark_model, WINDOW)


@pytest.fixture(scope="session")
def texts() -> list[str]:
    """Texts of no word to three windows."""
    words = " ".join(CORPUS).split()
    source = random.Random(5)
    lengths = [40, 0, 1, 30, 90, 150, 260, 5, 64, 120]
    return [" ".join(source.choices(words, k=length)) for length in lengths]


@pytest.fixture(scope="session")
def queries() -> list[str]:
    return ["the quick brown fox", "Where does the river end?", "She walked to the harbour.", ""]


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """Write a retrieval set: ``folder(docs, queries, qrels, name=...)``."""

    def write(
        documents: Sequence[str],
        questions: Mapping[str, str],
        qrels: Sequence[tuple[str, str, int]],
        name: str = "toy",
    ) -> Path:
        place = tmp_path / name
        place.mkdir()
        corpus = [{"_id": f"d{n}", "title": f"T{n}", "text": t} for n, t in enumerate(documents)]
        asked = [{"_id": key, "text": text} for key, text in questions.items()]
        for file, records in (("corpus.jsonl", corpus), ("queries.jsonl", asked)):
            lines = [json.dumps(record) + "\n" for record in records]
            (place / file).write_text("".join(lines), encoding="utf-8")
        rows = ["\t".join(map(str, row)) + "\n" for row in qrels]
        (place / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(rows))
        return place

    return write


@pytest.fixture(autouse=True, scope="module")
def one_torch_thread():
    """Tiny matrices take longer to share out among threads than to multiply."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
