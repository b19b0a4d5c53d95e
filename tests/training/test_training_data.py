"""What lmk train reads, and what it says of lines that it cannot use."""

from __future__ import annotations

import json

import pytest

from lmk_integrations.errors import ConfigError, DocumentError
from lmk_integrations.training.data import Example, read_training_data

GOOD = {"query": "q", "positive": "p", "negatives": ["n", "m"], "scores": [3, 1.5, -1]}


def read(tmp_path, *lines):
    path = tmp_path / "data.jsonl"
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("\n".join(texts) + "\n", encoding="utf-8")
    return read_training_data(path)


def test_rows(tmp_path):
    """Texts, negatives and scores as they are; blank lines and other keys do not matter."""
    data = read(tmp_path, GOOD, "", {"query": "a", "positive": "b", "id": 7})
    assert data.examples == (
        Example("q", "p", ("n", "m"), (3.0, 1.5, -1.0)),
        Example("a", "b"),
    )
    assert data.corpus == ("p", "n", "m", "b")
    assert data.where[1].endswith("data.jsonl, line 3")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "is not JSON"),
        ("[1]", "is not a JSON object"),
        ({"positive": "p"}, "lacks query"),
        ({"query": "q", "positive": " "}, "empty or wrong positive"),
        ({"query": 1, "positive": "p"}, "empty or wrong query"),
        ({"query": "q", "positive": "p", "negative": "n"}, "called 'negatives'"),
        ({"query": "q", "positive": "p", "negatives": "n"}, "negatives of type str"),
        ({"query": "q", "positive": "p", "negatives": ["n", ""]}, "empty or wrong negatives"),
        ({"query": "q", "positive": "p", "negatives": ["p"]}, "positive among its negatives"),
        (GOOD | {"scores": [1, 2]}, "write 3"),
        (GOOD | {"scores": [1, 2, None]}, "score None"),
        ('{"query": "q", "positive": "p", "scores": [NaN]}', "score nan"),
        (f'{{"query": "q", "positive": "p", "scores": [1{"0" * 400}]}}', "score 1000"),
        ({"query": "q", "positive": "\0"}, "empty or wrong positive"),
        ({"query": "\ud800", "positive": "p"}, "empty or wrong query"),
    ],
)
def test_a_bad_line_is_named(line, message, tmp_path):
    """With its file, its number, and what to write instead."""
    with pytest.raises(DocumentError, match=message) as caught:
        read(tmp_path, GOOD, line)
    assert "data.jsonl, line 2" in str(caught.value)
    assert ";" in str(caught.value)


def test_files_that_are_none(tmp_path):
    """A missing or empty file says what is expected."""
    with pytest.raises(ConfigError, match="no such file"):
        read_training_data(tmp_path / "no.jsonl")
    with pytest.raises(DocumentError, match="is empty"):
        read(tmp_path, "")
    (tmp_path / "a.jsonl").write_text(json.dumps(GOOD))
    with pytest.raises(ConfigError, match="folders in BEIR's layout"):
        read_training_data(tmp_path / "a.jsonl", half="odd")


def test_folder(toy_folder):
    """Every judgement is an example; all texts are there to mine from."""
    data = read_training_data(toy_folder)
    assert len(data.examples) == 48
    assert all(example.positive.endswith(example.query) for example in data.examples)
    assert len(data.corpus) == 48
    titled = read_training_data(toy_folder, titles=True)
    assert titled.examples[0].positive.startswith(f"about {titled.examples[0].query} ")
    halves = [read_training_data(toy_folder, half=half).examples for half in ("even", "odd")]
    assert halves[0]
    assert halves[1]
    assert set(halves[0]) | set(halves[1]) == set(data.examples)
    assert not set(halves[0]) & set(halves[1])


def test_test_judgements_are_not_trained_on(toy_folder):
    """qrels/train.tsv goes before qrels.tsv, and qrels/test.tsv alone is refused."""
    (toy_folder / "qrels").mkdir()
    judgements = (toy_folder / "qrels.tsv").read_text()
    (toy_folder / "qrels" / "train.tsv").write_text("\n".join(judgements.splitlines()[:3]) + "\n")
    assert len(read_training_data(toy_folder).examples) == 2
    (toy_folder / "qrels" / "train.tsv").rename(toy_folder / "qrels" / "test.tsv")
    assert len(read_training_data(toy_folder).examples) == 48
    (toy_folder / "qrels.tsv").unlink()
    with pytest.raises(ConfigError, match=r"qrels/train\.tsv .* test set"):
        read_training_data(toy_folder)


def test_digest(tmp_path):
    """Equal for equal examples, another for another order or another text."""
    other = {"query": "a", "positive": "b"}
    first = read(tmp_path, GOOD, other).digest
    assert read(tmp_path, GOOD, "", other).digest == first
    assert read(tmp_path, other, GOOD).digest != first
    assert read(tmp_path, GOOD | {"scores": None}, other).digest != first
