"""Each method's scores against a plain computation: no batches, no blocks, no package code."""

import doctest
import itertools

import numpy as np
import pytest

from lmk_integrations.encoder import LMKEncoder
from lmk_integrations.errors import ConfigError
from lmk_integrations.evaluation import DEFAULT_METHODS, methods, scoring
from lmk_integrations.evaluation.methods import EXPLANATION, Source, parse_method
from lmk_integrations.evaluation.scoring import best_documents, score_documents
from lmk_integrations.evaluation.sources import cut_tokens, iter_vectors

POOLINGS = {"late": "mean", "landmarks": "lmk", "raw-landmarks": "lmk"}


def unit(vector: np.ndarray) -> np.ndarray:
    return vector / np.linalg.norm(vector)


def sliced(plain, text: str, tokens: int) -> list[str]:
    """The text in pieces of so many tokens, each with the white space behind it."""
    offsets = plain.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    starts = [start for start, _ in offsets["offset_mapping"]][::tokens]
    if not starts:
        return [""]
    end = offsets["offset_mapping"][-1][1]
    return [text[a:b] for a, b in itertools.pairwise([*starts, end])]


def documents_as_defined(name: str, plain, text: str) -> list[np.ndarray]:
    """The unit vectors that stand for a text, of which the best score counts."""
    if name == "own":
        return [plain.encode(sliced(plain, text, 126)[0], "mean", 126).vector]
    if name.startswith("chunks"):
        size = int(name.split("-")[1])
        vectors = [plain.encode(part, "mean", size).vector for part in sliced(plain, text, size)]
        return [unit(np.mean(vectors, axis=0))] if name.endswith("mean") else vectors
    if name.startswith("late"):
        return [unit(row) for row in plain.encode(text, "mean", 32).rows]
    name, _, granularity = name.removeprefix("raw-").partition("@")
    read = plain.encode(text, "lmk", int(granularity or 32))
    rows = [unit(row) for row in read.rows]
    if name == "lmk-text":
        return [read.vector]
    if name.startswith("lmk-run"):
        longest = int(name.removeprefix("lmk-run") or 3)
        return [
            unit(np.mean(rows[first : first + length], axis=0))
            for length in range(1, longest + 1)
            for first in range(len(rows) - length + 1)
        ]
    return rows


def scores_as_defined(name: str, plain, queries, texts) -> np.ndarray:
    """(n_queries, n_documents)."""
    pooling = "lmk" if "lmk" in name else "mean"
    granularity = int(name.partition("@")[2] or 32)
    asked = [plain.encode(query, pooling, granularity).vector for query in queries]
    found = [documents_as_defined(name, plain, text) for text in texts]
    best = int(name.removeprefix("lmk-top")) if name.startswith("lmk-top") else 1
    return np.array(
        [[np.mean(sorted(v @ q for v in vectors)[-best:]) for vectors in found] for q in asked]
    )


def scores_of(name: str, directory, queries, texts) -> np.ndarray:
    method = parse_method(name)
    source = method.source
    encoder = LMKEncoder(
        directory,
        pooling=POOLINGS.get(source.kind, "mean"),
        granularity=source.size if source.kind in POOLINGS else None,
        dtype="float32",
    )
    documents = iter_vectors(source, encoder, texts)
    return score_documents([method], encoder.encode_queries(queries), documents, len(texts))[name]


@pytest.mark.parametrize(
    "name",
    [
        "own",
        "chunks-64-mean",
        "chunks-64-best",
        "chunks-32-best",
        "chunks-7-best",
        "late-32",
        "lmk-text",
        "lmk-text@64",
        "lmk-best",
        "lmk-best@16",
        "lmk-run",
        "lmk-run2@16",
        "lmk-top3",
        "raw-lmk-best",
    ],
)
def test_scores_as_defined(name, bert, plain_bert, queries, texts):
    """What a method's description says is what its scores are."""
    expected = scores_as_defined(name, plain_bert, queries, texts)
    np.testing.assert_allclose(scores_of(name, bert, queries, texts), expected, atol=2e-5)


@pytest.mark.parametrize("name", ["chunks-32-best", "lmk-run", "lmk-top2", "lmk-text"])
@pytest.mark.parametrize("rows", [1, 7])
def test_blocks_change_nothing(name, rows, bert, queries, texts, monkeypatch):
    """A bound on memory is no matter of results."""
    whole = scores_of(name, bert, queries, texts)
    monkeypatch.setattr(scoring, "BLOCK_ROWS", rows)
    np.testing.assert_allclose(scores_of(name, bert, queries, texts), whole, atol=1e-6)


def test_slices_are_the_text(bert):
    """Slices tile the text exactly, hold the tokens asked for, and never drop a character."""
    encoder = LMKEncoder(bert, pooling="mean")
    text = "The quick  brown\nfox (\U0001f600) jumps; Äpfel, 敏捷的狐狸跳过懒狗。 the river ends"
    for tokens in (1, 3, 8, 500):
        slices = cut_tokens(encoder, text, tokens)
        assert "".join(slices) == text
        counts = [len(encoder.model.tokenizer.encode(part).ids) for part in slices]
        assert len(slices) == -(-len(encoder.model.tokenizer.encode(text).ids) // tokens)
        assert max(counts) >= min(tokens, 20)
    assert cut_tokens(encoder, "", 5) == [""]


def test_the_usual_methods_are_known_and_explained():
    """Every default name parses, and every kind of name stands in the explanation."""
    parsed = [parse_method(name) for name in DEFAULT_METHODS]
    assert len({method.name for method in parsed}) == len(DEFAULT_METHODS)
    for word in ("own", "chunks-N", "late-N", "lmk-text", "lmk-run", "lmk-topK", "@G", "bm25"):
        assert word in EXPLANATION


def test_granularity_by_suffix_or_by_default():
    """A suffix wins over the default; base methods have no granularity."""
    assert parse_method("lmk-best").source == Source("landmarks", None)
    assert parse_method("lmk-best", 64).source == Source("landmarks", 64)
    assert parse_method("lmk-best@128", 64).source == Source("landmarks", 128)
    assert parse_method("raw-lmk-run5@sentence").source == Source("raw-landmarks", "sentence")
    assert parse_method("own", 64).source == Source("own")


@pytest.mark.parametrize(
    "name",
    ["", "OWN", "chunks-0-best", "chunks-32", "late", "lmk-top", "lmk-text3", "lmk-best@0", "x"],
)
def test_an_unknown_method_is_named_and_the_known_listed(name):
    """The error says what could have been meant."""
    with pytest.raises(ConfigError, match=rf"unknown method '{name}'; methods:\n  own "):
        parse_method(name)


def test_ties_go_to_the_earlier_document():
    """Rankings do not depend on how a sort breaks ties, and absent documents stay away."""
    scores = np.array([[0.5, 0.0, 0.9, 0.5, 0.0]], np.float32)
    assert list(best_documents(scores, 4)) == [[2, 0, 3, 1]]
    assert list(best_documents(scores, 4, above=0.0)) == [[2, 0, 3]]


def test_the_example_of_runs_is_true():
    """What the docstring of run_vectors prints."""
    result = doctest.testmod(methods, extraglobs={"np": np})
    assert (result.attempted, result.failed) == (1, 0)
