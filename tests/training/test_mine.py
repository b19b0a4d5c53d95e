"""Hard negatives: the most similar texts that are no answers, in the form that lmk train reads."""

from __future__ import annotations

import json

import numpy as np
import pytest
from toy_sets import toy_rows, write_jsonl

from lmk_integrations.encoder import LMKEncoder
from lmk_integrations.errors import ConfigError
from lmk_integrations.training.contrastive import train
from lmk_integrations.training.data import read_training_data
from lmk_integrations.training.mine import MineSettings, mine
from lmk_integrations.training.settings import TrainSettings

pytestmark = pytest.mark.filterwarnings("ignore:.*was not trained for landmarks")


@pytest.fixture
def encoder(calm):
    return LMKEncoder(
        calm("bert"), pooling="lmk", granularity=8, max_tokens=32, dtype="float32", device="cpu"
    )


def lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_the_most_similar_others(encoder, toy_folder, tmp_path):
    """Computed by hand: all texts by cosine, without the query's answers and what comes near."""
    data = read_training_data(toy_folder)
    report = mine(
        encoder, data, tmp_path / "out.jsonl", MineSettings(negatives=3, margin=0.01, depth=48)
    )
    found = lines(tmp_path / "out.jsonl")
    answers = {}
    for example in data.examples:
        answers.setdefault(example.query, set()).add(example.positive)
    assert {(row["query"], row["positive"]) for row in found} == {
        (example.query, example.positive) for example in data.examples
    }
    vectors = dict(zip(data.corpus, encoder.encode_documents(data.corpus), strict=True))
    for row in found:
        query = encoder.encode_queries([row["query"]])[0]
        cosines = {text: float(vector @ query) for text, vector in vectors.items()}
        # The margin is that of the answer that the model finds least similar.
        limit = min(cosines[text] for text in answers[row["query"]])
        limit -= abs(limit) * 0.01
        allowed = [
            text
            for text in sorted(cosines, key=cosines.__getitem__, reverse=True)
            if text not in answers[row["query"]] and cosines[text] < limit
        ]
        assert row["negatives"] == allowed[:3], row
        expected = [cosines[text] for text in (row["positive"], *row["negatives"])]
        np.testing.assert_allclose(row.get("scores", expected), expected, atol=1e-5)
    counts = [len(row["negatives"]) for row in found]
    assert (report.examples, report.negatives) == (48, sum(counts))
    assert report.without == counts.count(0)
    assert report.short == sum(count < 3 for count in counts)
    assert sum(counts) > 48


def test_skip_and_depth(encoder, toy_file, tmp_path):
    """The first ranks may be passed over: unmarked answers are among them."""
    data = read_training_data(toy_file)
    options = {"negatives": 2, "margin": 0.0}
    mine(encoder, data, tmp_path / "a.jsonl", MineSettings(**options, depth=30))
    mine(encoder, data, tmp_path / "b.jsonl", MineSettings(**options, depth=30, skip=1))
    pairs = [
        (a["negatives"], b["negatives"])
        for a, b in zip(lines(tmp_path / "a.jsonl"), lines(tmp_path / "b.jsonl"), strict=True)
        if len(a["negatives"]) == 2 and b["negatives"]
    ]
    assert pairs
    assert all(first[1] == second[0] for first, second in pairs)


def test_training_reads_what_was_mined(encoder, calm, toy_file, tmp_path):
    """Negatives and scores both; a line without a negative is named."""
    settings = MineSettings(negatives=2, margin=0.0, depth=96)
    mine(encoder, read_training_data(toy_file), tmp_path / "out.jsonl", settings)
    full = [row for row in lines(tmp_path / "out.jsonl") if len(row["negatives"]) == 2]
    assert len(full) > 8
    data = read_training_data(write_jsonl(tmp_path / "full.jsonl", full))
    settings = TrainSettings(
        steps=2,
        batch=4,
        max_tokens=32,
        granularities=(8,),
        teacher_scores="margin_mse",
        teacher_temperature=0.02,
    )
    assert train(calm("bert"), data, tmp_path / "model", settings).negatives == 2


def test_prompts_are_used(calm, tmp_path):
    """The encoder's own: queries and texts are compared as at search."""
    rows = toy_rows(0)
    data = read_training_data(write_jsonl(tmp_path / "d.jsonl", rows))
    encoder = LMKEncoder(
        calm("bert"), dtype="float32", query_prompt="brown fox: ", document_prompt="the sea: "
    )
    mine(encoder, data, tmp_path / "out.jsonl", MineSettings(negatives=1, margin=0.0))
    row = next(row for row in lines(tmp_path / "out.jsonl") if row["negatives"])
    texts = [row["positive"], *row["negatives"]]
    expected = encoder.encode_documents(texts) @ encoder.encode_queries([row["query"]])[0]
    np.testing.assert_allclose(row["scores"], expected, atol=1e-5)


def test_an_existing_file_is_kept(encoder, toy_file, tmp_path):
    """Mining may take an hour: its result is not overwritten, and nothing else either."""
    (tmp_path / "out.jsonl").write_text("mine")
    with pytest.raises(ConfigError, match="exists already"):
        mine(encoder, read_training_data(toy_file), tmp_path / "out.jsonl")
    assert (tmp_path / "out.jsonl").read_text() == "mine"


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"negatives": 0}, "negatives=0"),
        ({"margin": 1.0}, r"margin=1\.0"),
        ({"skip": -1}, "skip=-1"),
        ({"skip": 3, "negatives": 2, "depth": 4}, "depth=4"),
    ],
)
def test_impossible_mine_settings(options, named):
    """Fail at once, with their name and value."""
    with pytest.raises(ConfigError, match=named):
        MineSettings(**options)
