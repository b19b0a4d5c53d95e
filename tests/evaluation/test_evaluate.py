"""From a set and method names to figures."""

import dataclasses
import json
import warnings

import numpy as np
import pytest

from lmk_integrations.encoder import EncodingCancelled, LMKEncoder
from lmk_integrations.errors import ConfigError, ModelError
from lmk_integrations.evaluation import METRICS, RetrievalSet, difference, evaluate, load_beir
from lmk_integrations.evaluation.sources import cut_tokens


@pytest.fixture
def toy(folder, texts) -> RetrievalSet:
    """Queries that are the beginnings of documents; the last one has no judgement."""
    asked = {f"q{n}": " ".join(text.split()[:8]) for n, text in enumerate(texts)}
    qrels = [(f"q{n}", f"d{n}", 1) for n in range(len(texts))]
    return load_beir(folder(texts, {**asked, "q99": "none"}, qrels))


def ndcg_of(query_vectors: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Query n is answered by document n."""
    scores = query_vectors @ vectors.T
    own = np.diagonal(scores)
    ranks = (scores > own[:, None]).sum(axis=1)
    return np.where(ranks < 10, 1 / np.log2(ranks + 2), 0)


def test_figures_are_those_of_the_models(toy, bert, landmark_model):
    """lmk- methods read with the model, the others with the base, queries too."""
    found = evaluate(toy, ["lmk-text", "own"], model=landmark_model, base=bert)
    assert [result.method for result in found] == ["lmk-text", "own"]
    model, base = LMKEncoder(landmark_model), LMKEncoder(bert)
    starts = [cut_tokens(base, text, 126)[0] for text in toy.texts]
    expected = [
        ndcg_of(model.encode_queries(toy.queries), model.encode_documents(toy.texts)),
        ndcg_of(base.encode_queries(toy.queries), base.encode_documents(starts)),
    ]
    assert 0.2 < expected[0].mean() < 0.99
    assert not np.allclose(*expected)
    for result, values in zip(found, expected, strict=True):
        np.testing.assert_allclose(result.values["ndcg@10"], values)
        assert result.metrics["ndcg@10"].mean == pytest.approx(values.mean())
        assert result.metrics["recall@100"].mean == 1
        assert (result.query_ids, result.n_documents) == (toy.query_ids, 10)


def test_a_source_is_read_once(toy, bert, landmark_model):
    """Methods of one model and granularity share its vectors, however they name it."""
    seen: list[tuple[str, int, int]] = []
    evaluate(
        toy,
        ["lmk-text", "chunks-64-best", "lmk-best@32", "lmk-run2", "chunks-64-mean"],
        model=landmark_model,
        base=bert,
        progress=lambda *step: seen.append(step),
    )
    assert list(dict.fromkeys(label for label, _, _ in seen)) == [
        "1/2 landmarks-32",
        "2/2 chunks-64",
    ]
    assert [done for label, done, total in seen if label.startswith("1") and total == 10] == [
        *range(11)
    ]


def test_the_same_call_gives_the_same_figures(toy, bert, landmark_model):
    """Figures and intervals repeat with the seed; another seed moves the intervals alone."""
    first, again, other = (
        evaluate(toy, ["lmk-best", "bm25"], model=landmark_model, base=bert, seed=seed)
        for seed in (4, 4, 5)
    )
    assert first == again != other
    for a, b in zip(first, other, strict=True):
        assert a.metrics["ndcg@10"].mean == b.metrics["ndcg@10"].mean


def test_only_the_chosen_queries_count(toy, bert):
    """Half and cap choose queries; all documents stay."""
    (result,) = evaluate(toy, ["own"], base=bert, half="odd", queries=2)
    assert result.query_ids == toy.select("odd", 2).query_ids
    assert len(result.values["mrr@10"]) == 2
    assert (result.n_documents, result.half) == (10, "odd")


def test_titles_are_embedded_when_asked(toy, bert):
    """A title that holds the query's words lifts its document."""
    titled = dataclasses.replace(
        toy, texts=("same",) * 10, titles=tuple(f"{query} {query}" for query in toy.queries)
    )
    plain, with_titles = (
        evaluate(titled, ["bm25"], base=bert, titles=titles)[0] for titles in (False, True)
    )
    assert with_titles.metrics["mrr@10"].mean > plain.metrics["mrr@10"].mean + 0.3


def test_what_bm25_does_not_find_is_not_ranked(toy, bert):
    """No shared term, no place in the ranking: recall stays below 1 in a corpus of ten."""
    strange = dataclasses.replace(toy, queries=("xylophone",) * 10)
    (result,) = evaluate(strange, ["bm25"], base=bert)
    assert all(result.metrics[name].mean == 0 for name in METRICS)


def test_results_are_json(toy, bert):
    """to_dict holds every figure as plain JSON."""
    (result,) = evaluate(toy, ["own"], base=bert)
    read = json.loads(json.dumps(result.to_dict()))
    assert (read["dataset"], read["method"], read["n_queries"]) == ("toy", "own", 10)
    assert set(read["metrics"]) == set(METRICS)
    assert set(read["metrics"]["mrr@10"]) == {"mean", "low", "high"}


def test_differences_are_paired(toy, bert):
    """A method leads itself by nothing, and the lead's interval is that of the differences."""
    own, best = evaluate(toy, ["own", "chunks-32-best"], base=bert)
    assert difference(own, own).to_dict() == {"mean": 0, "low": 0, "high": 0}
    lead = difference(best, own)
    assert lead.mean == pytest.approx(best.metrics["ndcg@10"].mean - own.metrics["ndcg@10"].mean)
    assert lead.low < lead.high
    (other,) = evaluate(toy, ["own"], base=bert, queries=3)
    with pytest.raises(ConfigError, match="measured on different queries"):
        difference(own, other)


def test_all_is_checked_before_any_work(toy, bert, tmp_path):
    """A method, model or granularity that cannot be had is told before the first document."""

    def work(*_: object) -> None:
        raise AssertionError("work was begun")

    with pytest.raises(ConfigError, match="unknown method 'lmk'"):
        evaluate(toy, ["own", "lmk"], base=bert, progress=work)
    with pytest.raises(ConfigError, match="named twice"):
        evaluate(toy, ["own", "own"], base=bert, progress=work)
    with pytest.raises(ModelError, match="does not exist"):
        evaluate(toy, ["own", "lmk-text"], base=bert, model=tmp_path / "none", progress=work)
    with pytest.raises(ConfigError, match="granularity=500 does not fit"):
        evaluate(toy, ["own", "raw-lmk-text@500"], base=bert, progress=work)


def test_a_model_without_landmarks_is_warned_of_once_it_is_meant(toy, bert):
    """raw- methods show what the warning tells; a lmk- method of such a model is a mistake."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        evaluate(toy, ["raw-lmk-text"], base=bert)


def test_it_can_be_cancelled(toy, bert):
    """Between two batches, as the encoder does."""
    with pytest.raises(EncodingCancelled):
        evaluate(toy, ["own"], base=bert, cancelled=lambda: True)
