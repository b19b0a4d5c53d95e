"""lmk train learns what it should, and writes a model that LMKEncoder opens."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import losses
from tiny_models import WIDTH
from toy_sets import KEY_WORDS, WINDOW, toy_rows, write_jsonl

from lmk_integrations.encoder import LMKEncoder
from lmk_integrations.errors import ConfigError, DocumentError
from lmk_integrations.sentence_transformers import to_sentence_transformer
from lmk_integrations.training.contrastive import train
from lmk_integrations.training.data import read_training_data
from lmk_integrations.training.losses import build_loss
from lmk_integrations.training.settings import TrainSettings

pytestmark = pytest.mark.filterwarnings("ignore:.*was not trained for landmarks")

TOY = {
    "steps": 80,
    "batch": 12,
    "lr": 5e-3,
    "temperature": 0.05,
    "max_tokens": WINDOW,
    "granularities": (8, 16),
    "precision": "float32",
}
HELD_OUT = [toy_rows(seed) for seed in range(99, 107)]
# Random embeddings know a word when they see it again: 0.10 to 0.40 was seen of untrained models.
UNTRAINED = 0.5


def accuracy(encoder):
    """How often the text of a key word, never seen in training, comes first for it."""
    queries = encoder.encode_queries(KEY_WORDS)
    found = []
    for rows in HELD_OUT:
        texts = encoder.encode_documents([row["positive"] for row in rows])
        found.append((queries @ texts.T).argmax(1) == np.arange(len(KEY_WORDS)))
    return float(np.mean(found))


def opened(directory, **options):
    return LMKEncoder(directory, dtype="float32", **options)


@pytest.mark.parametrize("kind", ["bert", "modernbert"])
def test_evidence_beyond_the_first_window_is_learned(kind, calm, toy_file, tmp_path):
    """From near chance to near perfect on texts never seen, of which only the end matters."""
    base = opened(calm(kind), pooling="lmk", granularity=8, max_tokens=WINDOW)
    first_window = base.encode_landmarks([HELD_OUT[0][0]["positive"]])[0]
    assert first_window.n_windows > 1
    assert accuracy(base) < UNTRAINED
    report = train(calm(kind), read_training_data(toy_file), tmp_path / "out", TrainSettings(**TOY))
    assert report.steps == 80
    assert report.losses[-1][1] < 0.3 < 1.5 < report.losses[0][1]
    trained = opened(tmp_path / "out")
    assert (trained.pooling, trained.granularity, trained.max_tokens) == ("lmk", 8, WINDOW)
    assert accuracy(trained) > 0.9
    assert accuracy(opened(tmp_path / "out", granularity=16)) > 0.9


def test_the_first_window_alone_teaches_nothing(calm, toy_file, tmp_path):
    """The counter-check: cut before the evidence, the same training gains nothing."""
    settings = TrainSettings(**TOY | {"steps": 40}, text_tokens=28)
    train(calm("bert"), read_training_data(toy_file), tmp_path / "out", settings)
    base = opened(calm("bert"), pooling="lmk", granularity=8, max_tokens=WINDOW)
    assert accuracy(opened(tmp_path / "out")) < accuracy(base) + 0.1


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_other_poolings(pooling, calm, toy_file, tmp_path):
    """The paper's comparison: same data and steps, another pooling, a plain model written."""
    settings = TrainSettings(**TOY | {"granularities": None, "steps": 60}, pooling=pooling)
    report = train(calm("bert"), read_training_data(toy_file), tmp_path / "out", settings)
    assert report.losses[-1][1] < report.losses[0][1] - 0.5
    trained = opened(tmp_path / "out")
    assert trained.pooling == pooling
    plain = SentenceTransformer(str(tmp_path / "out"), device="cpu").encode(["fox", "dog"])
    np.testing.assert_allclose(plain, trained.encode_documents(["fox", "dog"]), atol=1e-4)


def test_what_is_written(calm, toy_folder, tmp_path):
    """The model, its card, its report; the checkpoints are gone."""
    out = tmp_path / "out"
    settings = TrainSettings(**TOY | {"steps": 3}, save_every=1)
    report = train(calm("bert"), read_training_data(toy_folder), out, settings)
    config = json.loads((out / "lmk_config.json").read_text())
    assert config["trained_granularities"] == [8, 16]
    card = (out / "README.md").read_text()
    for part in ("toy: 48 examples", "| steps | 3 |", "| granularities | 8, 16 |", "`lmk train`"):
        assert part in card
    assert "teacher" not in card  # what played no part is not listed
    saved = json.loads((out / "training.json").read_text())
    for text in (card, json.dumps(saved)):
        assert str(tmp_path) not in text  # no path of this machine in what people publish
        assert str(calm("bert")) not in text
    assert saved["losses"] == [list(pair) for pair in report.losses]
    assert len(saved["losses"]) == 3
    assert not (out / "checkpoints").exists()


def test_usual_granularities_are_those_that_fit(calm, toy_file, tmp_path):
    """32, 64, 128, 256 as far as the window allows; saved with 32; none at all is an error."""
    data = read_training_data(toy_file)
    settings = TrainSettings(**TOY | {"steps": 1, "granularities": None, "max_tokens": 100})
    train(calm("bert"), data, tmp_path / "a", settings)
    config = json.loads((tmp_path / "a" / "lmk_config.json").read_text())
    assert (config["granularity"], config["trained_granularities"]) == (32, [32, 64])
    with pytest.raises(ConfigError, match="smaller granularities"):
        train(calm("bert"), data, tmp_path / "b", TrainSettings(**TOY | {"granularities": None}))
    with pytest.raises(ConfigError, match="granularity=32 does not fit"):
        train(calm("bert"), data, tmp_path / "b", TrainSettings(**TOY | {"granularities": (32,)}))
    assert not (tmp_path / "b").exists()


def test_epochs(calm, toy_file, tmp_path):
    """Two passes over 96 examples in batches of 12, two batches a step."""
    settings = TrainSettings(**TOY | {"steps": None}, epochs=2, accumulate=2)
    report = train(calm("bert"), read_training_data(toy_file), tmp_path / "out", settings)
    assert report.steps == 8


@pytest.mark.parametrize("way", [{"mini_batch": 4}, {"matryoshka": (8, 16)}])
def test_ways_to_train(way, calm, toy_file, tmp_path):
    """Mini-batches for large batches; Matryoshka, whose first dimensions serve alone."""
    settings = TrainSettings(**TOY, **way)
    train(calm("bert"), read_training_data(toy_file), tmp_path / "out", settings)
    short = {"truncate_dim": 8} if "matryoshka" in way else {}
    assert accuracy(opened(tmp_path / "out", **short)) > 0.9


# -- hard negatives and teachers ----------------------------------------------------------------


def rows_with_negatives(counts, scores=None):
    rows = toy_rows(0)[: len(counts)]
    texts = [row["positive"] for row in toy_rows(1)]
    for place, (row, count) in enumerate(zip(rows, counts, strict=True)):
        others = texts[:place] + texts[place + 1 :]
        row["negatives"] = others[:count]
        if scores is not None:
            row["scores"] = [float(scores)] * (1 + count)
    return rows


@pytest.mark.parametrize(
    ("counts", "asked", "used"),
    [((3, 2, 4), None, 2), ((3, 2, 4), 1, 1), ((9, 9, 9), None, 7), ((9, 9, 9), 9, 9)],
)
def test_how_many_hard_negatives(counts, asked, used, calm, tmp_path):
    """As many as every example has, at most 7, unless told."""
    data = read_training_data(write_jsonl(tmp_path / "d.jsonl", rows_with_negatives(counts)))
    settings = TrainSettings(**TOY | {"steps": 1, "batch": 3}, hard_negatives=asked)
    assert train(calm("bert"), data, tmp_path / "out", settings).negatives == used


def test_hard_negatives_count(calm, tmp_path):
    """They are among the texts that the answer is told from, beside those of the batch."""
    rows = rows_with_negatives((3, 3))
    data = read_training_data(write_jsonl(tmp_path / "d.jsonl", rows))
    found = []
    for negatives in (0, 2):
        settings = TrainSettings(**TOY | {"steps": 1, "batch": 2}, hard_negatives=negatives)
        report = train(calm("bert"), data, tmp_path / f"out{negatives}", settings)
        found.append(report.losses[0][1])
    assert found[1] > found[0]  # more texts to tell apart, before anything is learned


@pytest.mark.parametrize(
    ("counts", "scores", "options", "named"),
    [
        ((2, 1, 2), None, {"hard_negatives": 2}, "line 2 has 1 negatives"),
        ((2, 2), None, {"teacher_scores": "kl"}, "line 1 has no scores"),
    ],
)
def test_examples_that_lack_something(counts, scores, options, named, calm, tmp_path):
    """Are named with file and line, before any work."""
    data = read_training_data(
        write_jsonl(tmp_path / "d.jsonl", rows_with_negatives(counts, scores))
    )
    with pytest.raises(DocumentError, match=named):
        train(calm("bert"), data, tmp_path / "out", TrainSettings(**TOY, **options))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("teacher", ["kl", "margin_mse"])
def test_a_teacher_is_listened_to(teacher, calm, tmp_path):
    """A teacher that finds all texts alike keeps the student from telling them far apart."""
    rows = rows_with_negatives((2,) * 8, scores=1)
    data = read_training_data(write_jsonl(tmp_path / "d.jsonl", rows))
    gaps = []
    for name, options in (("without", {}), ("with", {"teacher_scores": teacher})):
        settings = TrainSettings(**TOY | {"batch": 4, "steps": 40}, teacher_weight=3.0, **options)
        train(calm("bert"), data, tmp_path / name, settings)
        encoder = opened(tmp_path / name)
        queries = encoder.encode_queries([row["query"] for row in rows])
        right = encoder.encode_documents([row["positive"] for row in rows])
        wrong = encoder.encode_documents([row["negatives"][0] for row in rows])
        gaps.append(float(np.mean((queries * right).sum(1) - (queries * wrong).sum(1))))
    assert gaps[0] > 0.1
    assert gaps[1] < gaps[0] * 0.6


@pytest.mark.parametrize("teacher", ["kl", "margin_mse"])
def test_the_teacher_loss_by_hand(teacher, calm):
    """Contrastive loss + weight * (divergence of softmaxes, or error of margins), at the scale
    of cosines over the temperature."""
    settings = TrainSettings(teacher_scores=teacher, teacher_weight=0.5, temperature=0.1)
    model = to_sentence_transformer(
        opened(calm("bert"), pooling="lmk", granularity=8), device="cpu"
    )
    columns = [["fox", "dog"], ["a fox", "a dog"], ["the sea", "the day"]]
    scores = torch.tensor([[3.0, 1.0], [2.0, 0.5]])
    found = build_loss(model, settings)([model.preprocess(texts) for texts in columns], scores)
    queries, right, wrong = (torch.from_numpy(model.encode(texts)) for texts in columns)
    all_texts = queries @ torch.cat([right, wrong]).T / 0.1
    contrastive = torch.nn.functional.cross_entropy(all_texts, torch.tensor([0, 1]))
    own = torch.stack([(queries * right).sum(1), (queries * wrong).sum(1)], 1) / 0.1
    if teacher == "kl":
        wanted = scores.softmax(1)
        taught = (wanted * (wanted.log() - own.log_softmax(1))).sum(1).mean()
    else:
        taught = ((own[:, 0] - own[:, 1] - (scores[:, 0] - scores[:, 1])) ** 2).mean()
    torch.testing.assert_close(found, contrastive + 0.5 * taught, atol=1e-4, rtol=1e-4)


def test_the_loss_is_sentence_transformers_own(calm):
    """scale = 1 / temperature; Matryoshka adds all dimensions; too many are refused."""
    model = to_sentence_transformer(opened(calm("bert")), device="cpu")
    plain = build_loss(model, TrainSettings())
    assert isinstance(plain, losses.MultipleNegativesRankingLoss)
    assert plain.scale == pytest.approx(50)
    cached = build_loss(model, TrainSettings(mini_batch=4))
    assert isinstance(cached, losses.CachedMultipleNegativesRankingLoss)
    assert cached.mini_batch_size == 4
    nested = build_loss(model, TrainSettings(matryoshka=(8,)))
    assert list(nested.matryoshka_dims) == [WIDTH, 8]
    with pytest.raises(ConfigError, match="matryoshka=64 exceeds"):
        build_loss(model, TrainSettings(matryoshka=(64,)))


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"batch": 1}, "batch=1"),
        ({"lr": 0}, "lr=0"),
        ({"temperature": float("nan")}, "temperature=nan"),
        ({"warmup": 1.0}, "warmup=1.0"),
        ({"pooling": "max"}, "pooling='max'"),
        ({"granularities": ()}, "granularities names none"),
        ({"granularities": (0,)}, "granularities=0"),
        ({"seed": -1}, "seed=-1"),
        ({"teacher_scores": "yes"}, "teacher_scores='yes'"),
        ({"teacher_scores": "kl", "mini_batch": 4}, "do not go together"),
        ({"matryoshka": (0,)}, "matryoshka=0"),
    ],
)
def test_impossible_train_settings(options, named):
    """Fail at once, with their name and value."""
    with pytest.raises(ConfigError, match=named):
        TrainSettings(**options)


def test_datasets_are_not_written_to(toy_file):
    """The examples go to the trainer as columns in their order: query, positive, negatives."""
    from lmk_integrations.training.contrastive import _columns

    columns = _columns(read_training_data(toy_file), TrainSettings(), 0)
    assert isinstance(columns, Dataset)
    assert columns.column_names == ["query", "positive"]
    assert columns.cache_files == []


def test_nothing_to_tell_apart_is_refused(calm, tmp_path):
    """One example, even many times, without negatives: a loss of 0, and nothing learned."""
    path = tmp_path / "one.jsonl"
    path.write_text('{"query": "q", "positive": "p"}\n' * 5)
    with pytest.raises(DocumentError, match="nothing to tell apart"):
        train(calm("bert"), read_training_data(path), tmp_path / "out", TrainSettings(steps=1))
    assert not (tmp_path / "out").exists()
