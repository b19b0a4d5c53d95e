"""A tiny teacher, a little prose, and a retrieval set of it."""

import json
import random
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "encoder"))

from tiny_models import build_tiny

from lmk_integrations.encoder.model import OpenModel
from lmk_integrations.encoder.settings import EncoderSettings

WORDS = "fox dog river landmark harbour query passage heading paragraph chunk quick brown lazy"


@pytest.fixture(scope="session")
def teacher_directory(tmp_path_factory):
    return build_tiny("bert", tmp_path_factory.mktemp("teacher") / "bert")


@pytest.fixture(scope="session")
def teacher(teacher_directory):
    return OpenModel(teacher_directory, EncoderSettings(device="cpu", dtype="float32"))


def prose(seed, sentences=120):
    chooser = random.Random(seed)
    own = chooser.sample(WORDS.split(), 6)
    lines = [" ".join(chooser.choices(own, k=9)).capitalize() + "." for _ in range(sentences)]
    return " ".join(lines)


@pytest.fixture(scope="session")
def text_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("prose")
    for number in range(6):
        (folder / f"{number}.txt").write_text(prose(number), encoding="utf-8")
    return folder


@pytest.fixture
def retrieval_set(tmp_path):
    """Sixteen documents of 120 sentences; early-i asks for sentence 4 of i, late-i for 60."""
    folder = tmp_path / "stories"
    folder.mkdir()
    documents, queries, qrels, spans = [], [], ["query-id\tcorpus-id\tscore"], []
    for number in range(16):
        text = prose(100 + number)
        documents.append({"_id": f"d{number}", "title": "", "text": text})
        sentences = text.split(". ")
        for name, place in ((f"early-{number}", 4), (f"late-{number}", 60)):
            start = text.index(sentences[place])
            queries.append({"_id": name, "text": sentences[place]})
            qrels.append(f"{name}\td{number}\t1")
            evidence = [[start, start + len(sentences[place])]]
            spans.append({"query_id": name, "corpus_id": f"d{number}", "spans": evidence})
    for name, rows in (("corpus", documents), ("queries", queries), ("spans", spans)):
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"{name}.jsonl").write_text(lines, encoding="utf-8")
    (folder / "qrels.tsv").write_text("\n".join(qrels) + "\n", encoding="utf-8")
    return folder
