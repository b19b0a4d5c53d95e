"""In training mode: gradients, granularities, texts cut; and sentence-transformers' own trainer."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from datasets import Dataset
from plain import PlainModel
from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.sentence_transformer import losses
from sentence_transformers.sentence_transformer.evaluation import SentenceEvaluator
from tiny_models import CORPUS

from lmk_integrations.encoder import LMKEncoder
from lmk_integrations.errors import ConfigError
from lmk_integrations.sentence_transformers import to_sentence_transformer

pytestmark = pytest.mark.filterwarnings("ignore:.*was not trained for landmarks")

LONG = " ".join(CORPUS)
OPTIONS = {"granularity": 8, "max_tokens": 64, "dtype": "float32"}


def build(directory, pooling="lmk", **training):
    encoder = LMKEncoder(directory, pooling=pooling, **OPTIONS)
    return to_sentence_transformer(encoder, device="cpu", **training)


def without_dropout(model):
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
        if hasattr(module, "attention_dropout"):
            module.attention_dropout = 0.0
    return model


def gradients(model, loss):
    model.zero_grad()
    loss.backward()
    return {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}


def landmarks(features):
    """How many landmarks each text of a batch has."""
    return (features["pool_weights"] > 0).sum(1).tolist()


@pytest.mark.parametrize("kind", ["bert", "modernbert", "llama"])
def test_gradients_flow_to_every_weight(kind, tiny):
    """Through all windows of a long text, as if each window had been run alone."""
    model = build(tiny(kind))
    target = torch.randn(model.get_embedding_dimension(), generator=torch.manual_seed(0))
    features = model.preprocess(["fox", LONG])
    found = gradients(model, (model(features)["sentence_embedding"][1] * target).sum())
    trained = {n for n, p in model.named_parameters() if p.requires_grad}
    assert set(found) == trained
    assert not [name for name in trained if "pooler" in name]

    # The same by hand: window after window, no padding, the landmarks' mean, L2.
    plain = PlainModel(kind, tiny(kind), 64)
    row = features["window_ids"][1]
    network = model[0].model
    states = []
    for number in range(1, int(row.max()) + 1):
        ids = features["input_ids"][1][row == number]
        at = features["pool_weights"][1][row == number].nonzero()[:, 0]
        assert all(int(ids[i]) == plain.landmark for i in at)
        states.append(network(input_ids=ids[None]).last_hidden_state[0, at])
    vector = torch.nn.functional.normalize(torch.cat(states).mean(0), dim=0)
    expected = gradients(model, (vector * target).sum())
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, atol=1e-5, rtol=1e-3)


def test_positions_are_carried(tiny):
    """A literal landmark in the text is text; PAD with the landmark's id counts for nothing."""
    model = build(tiny("llama"))
    tokenizer = LMKEncoder(tiny("llama"), **OPTIONS).model.tokenizer
    assert tokenizer.pad_id == tokenizer.landmark_id
    features = model.preprocess(["fox", "<|end_of_text|> " + LONG])
    weights, mask = features["pool_weights"], features["attention_mask"]
    assert int((weights[0] > 0).sum()) == 1  # one landmark, however much padding follows
    assert not bool((weights[mask == 0] > 0).any())
    n_tokens = len(tokenizer.encode("<|end_of_text|> " + LONG).ids)
    assert landmarks(features)[1] == -(-n_tokens // 8)
    assert bool((features["input_ids"][weights > 0] == tokenizer.landmark_id).all())


def test_granularity_is_drawn_per_text_in_training(tiny):
    """Each of the given ones, by itself for every text; the encoder's own at evaluation."""
    model = build(tiny("bert"), train_granularities=(4, 8, 16))
    n_tokens = len(LMKEncoder(tiny("bert"), **OPTIONS).model.tokenizer.encode(LONG).ids)
    expected = [-(-n_tokens // granularity) for granularity in (4, 8, 16)]
    assert landmarks(model.eval().preprocess([LONG] * 3)) == [expected[1]] * 3
    model.train()
    counts = landmarks(model.preprocess([LONG] * 300))
    shares = [counts.count(count) / 300 for count in expected]
    assert sum(shares) == pytest.approx(1)
    assert min(shares) > 0.2
    model.eval()
    assert landmarks(model.preprocess([LONG])) == [expected[1]]


def test_draws_depend_on_the_batch_and_the_seed_alone(tiny):
    """So a resumed training draws the same, and a text meets several granularities."""
    model = build(tiny("bert"), train_granularities=(4, 8, 16)).train()
    batch = [LONG, *CORPUS] * 4
    first = landmarks(model.preprocess(batch))
    torch.rand(5)  # other draws in between do not matter
    assert landmarks(model.preprocess(batch)) == first
    assert landmarks(model.preprocess(batch[::-1])) != first[::-1]
    other = build(tiny("bert"), train_granularities=(4, 8, 16), seed=1).train()
    assert landmarks(other.preprocess(batch)) != first


def test_other_poolings_have_no_granularities(tiny):
    """Landmarks play no part in them, in training neither."""
    model = build(tiny("bert"), "mean", train_granularities=(4, 16)).train()
    assert model[0].training_layout.granularities == ()
    torch.testing.assert_close(
        model.preprocess([LONG])["input_ids"], model.eval().preprocess([LONG])["input_ids"]
    )


def test_texts_are_cut_in_training_only(tiny):
    """train_text_tokens bounds what a step costs; evaluation reads the whole text."""
    model = build(tiny("bert"), train_text_tokens=20)
    model.train()
    tokenizer = LMKEncoder(tiny("bert"), **OPTIONS).model.tokenizer
    row = model.preprocess([LONG])
    ids = tokenizer.encode(LONG).ids[:20]
    inner = row["input_ids"][0][(row["pool_weights"][0] == 0) & (row["attention_mask"][0] == 1)]
    assert inner.tolist() == [*tokenizer.prefix, *ids.tolist()]
    model.eval()
    assert model.preprocess([LONG])["input_ids"].shape[1] > 64
    assert model.train().preprocess(["fox"])["input_ids"].shape[1] < 8


def test_a_granularity_beyond_the_window_is_refused(tiny):
    """Before any training begins, with both numbers."""
    with pytest.raises(ConfigError, match=r"64 tokens per landmark .* max_tokens=64"):
        build(tiny("bert"), train_granularities=(8, 64))
    with pytest.raises(ConfigError, match="train_granularities=0"):
        build(tiny("bert"), train_granularities=(0,))


def test_a_cached_loss_gives_the_plain_gradients(tiny):
    """Mini-batches slice and trim the rows: positions and windows must survive that."""
    model = without_dropout(build(tiny("bert"), train_granularities=(4, 16))).train()
    queries, texts = ["fox", "river", "sea", "harbour"], [*CORPUS[:3], LONG]

    def features():
        return [model.preprocess(queries), model.preprocess(texts)]

    plain = losses.MultipleNegativesRankingLoss(model)(features(), None)
    expected = gradients(model, plain)
    cached = losses.CachedMultipleNegativesRankingLoss(model, mini_batch_size=2)(features(), None)
    found = gradients(model, cached)
    torch.testing.assert_close(cached, plain)
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, atol=1e-5, rtol=1e-3)


class FirstIsBest(SentenceEvaluator):
    """Says that a model was better each time before."""

    calls = 0

    def __call__(self, model, *arguments, **options):
        self.calls += 1
        return {"score": 1 / self.calls}


@pytest.mark.parametrize("pooling", ["lmk", "mean"])
def test_the_trainer_of_sentence_transformers(pooling, tiny, tmp_path):
    """It trains the model as it is, and takes its best checkpoint back without remote code."""
    model = without_dropout(build(tiny("bert"), pooling, train_granularities=(4, 8)))
    data = Dataset.from_dict({"query": CORPUS, "positive": [LONG, *CORPUS[1:]]})
    arguments = SentenceTransformerTrainingArguments(
        output_dir=str(tmp_path),
        max_steps=4,
        save_steps=2,
        eval_steps=2,
        eval_strategy="steps",
        load_best_model_at_end=True,
        metric_for_best_model="eval_score",
        greater_is_better=True,
        per_device_train_batch_size=5,
        use_cpu=True,
        report_to="none",
        disable_tqdm=True,
    )
    trainer = SentenceTransformerTrainer(
        model=model,
        args=arguments,
        train_dataset=data,
        loss=losses.MultipleNegativesRankingLoss(model),
        evaluator=FirstIsBest(),
    )
    trainer.train()
    assert trainer.state.best_model_checkpoint.endswith("checkpoint-2")
    best = LMKEncoder(tmp_path / "checkpoint-2", dtype="float32")
    found = trainer.model.encode(CORPUS)
    np.testing.assert_allclose(found, best.encode_documents(CORPUS), atol=1e-4)
