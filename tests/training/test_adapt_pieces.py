"""What an adaptation reads: the corpus, the batches by number, the slices for the base."""

import lzma

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmk_integrations.core.landmarks import chunk_bounds
from lmk_integrations.encoder.tokens import Tokenizer
from lmk_integrations.errors import ConfigError, DocumentError
from lmk_integrations.training.adapt_settings import AdaptSettings
from lmk_integrations.training.corpus import read_corpus
from lmk_integrations.training.pieces import Steps, slices_of

SENTENCES = "The fox jumps. The dog sleeps by the river! Why? It was late.\n\nNobody was there. "


@pytest.fixture(scope="module")
def tokenizer(calm):
    return Tokenizer(calm("bert"))


def test_slices_by_hand():
    """Chunks of 4 in 10 tokens, at most 8 read at once: each slice as the definition says."""
    plan = slices_of(np.array([0, 4, 8, 10]), 8)
    assert plan.slices[plan.chunk].tolist() == [[0, 4], [4, 8], [8, 10]]
    assert plan.slices[plan.wide].tolist() == [[0, 6], [2, 10], [6, 10]]
    assert plan.slices[plan.windows].tolist() == [[0, 8], [2, 10]]
    assert plan.slices[plan.window].tolist() == [[0, 8], [2, 10], [2, 10]]


def test_a_text_of_one_chunk_is_read_once():
    """A short text is its own chunk, surroundings and window: one slice, embedded once."""
    plan = slices_of(np.array([0, 7]), 254)
    assert plan.slices.tolist() == [[0, 7]]
    assert plan.chunk.tolist() == plan.wide.tolist() == plan.window.tolist() == [0]


@settings(max_examples=150, deadline=None)
@given(st.integers(1, 700), st.sampled_from([1, 3, 32, 64, 256]), st.integers(4, 300))
def test_slices_hold_what_they_are_for(n, granularity, most):
    """No slice is longer than allowed or outside; chunks keep their middle; windows cover all."""
    bounds = chunk_bounds(n, granularity)
    plan = slices_of(bounds, most)
    sizes = plan.slices[:, 1] - plan.slices[:, 0]
    assert sizes.min() >= 1
    assert sizes.max() <= most
    assert plan.slices.min() >= 0
    assert plan.slices.max() <= n
    assert len(np.unique(plan.slices, axis=0)) == len(plan.slices)
    assert len(plan.chunk) == len(plan.wide) == len(plan.window) == len(bounds) - 1
    covered = np.zeros(n, bool)
    for start, stop in plan.slices[plan.windows]:
        covered[start:stop] = True
    assert covered.all()
    middle = (bounds[:-1] + bounds[1:]) // 2
    for index in (plan.chunk, plan.wide):
        found = plan.slices[index]
        assert (found[:, 0] <= middle).all()
        assert (middle <= found[:, 1]).all()


def test_corpus_reads_every_kind(tmp_path, tokenizer):
    """Plain files, packed files and folders below; a form feed line separates documents."""
    (tmp_path / "a.txt").write_text("one fox\n\f\ntwo dogs\n", encoding="utf-8")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "b.md").write_text("# Three\n\nthree rivers", encoding="utf-8")
    with lzma.open(tmp_path / "deep" / "c.txt.xz", "wt", encoding="utf-8") as file:
        file.write("four\n\f\n\f\nfive")
    (tmp_path / "broken.xz").write_bytes(b"no xz")
    corpus = read_corpus(tmp_path, tokenizer)
    assert corpus.documents == 5
    assert [failure.split(":")[0] for failure in corpus.failed] == ["broken.xz"]
    whole = [tokenizer.encode(t).ids for t in ("four\n", "\nfive"[1:])]
    assert corpus.ids[: sum(map(len, whole))].tolist() == np.concatenate(whole).tolist()
    again = read_corpus(tmp_path, tokenizer)
    assert again.digest == corpus.digest
    (tmp_path / "a.txt").write_text("one cat", encoding="utf-8")
    assert read_corpus(tmp_path, tokenizer).digest != corpus.digest


def test_no_text_is_an_error(tmp_path, tokenizer):
    """The folder is named."""
    with pytest.raises(DocumentError, match="holds no text to train on"):
        read_corpus(tmp_path, tokenizer)


def test_batches_are_the_same_by_number(tmp_path, tokenizer):
    """What makes a resumed training exact: batch n is batch n, and the next one differs."""
    (tmp_path / "a.txt").write_text(SENTENCES * 60, encoding="utf-8")
    corpus = read_corpus(tmp_path, tokenizer)
    options = AdaptSettings(steps=1, batch=16, longest=600)
    one, two = (Steps(corpus, options, np.array([32, 64])) for _ in range(2))
    for number in (0, 5):
        for a, b in zip(one.batch(number), two.batch(number), strict=True):
            assert a.ids.tolist() == b.ids.tolist()
            assert a.bounds.tolist() == b.bounds.tolist()
    first, second = ([len(piece.ids) for piece in one.batch(n)] for n in (0, 1))
    assert first != second


def test_shares_stay_with_their_granularities(tmp_path, tokenizer):
    """Where a granularity does not fit the window, the others keep their own chances."""
    (tmp_path / "a.txt").write_text(SENTENCES * 50)
    corpus = read_corpus(tmp_path, tokenizer)
    options = AdaptSettings(
        steps=1, batch=40, longest=200, granularities=(500, 8, 16), shares=(0.5, 1e-9, 0.5)
    )
    pieces = Steps(corpus, options, np.array([8, 16])).batch(0)
    long = [piece for piece in pieces if len(piece.ids) > 16]
    assert len(long) > 5
    assert {int(piece.bounds[1]) for piece in long} == {16}


def test_batches_hold_all_lengths_and_granularities(tmp_path, tokenizer):
    """From single sentences to the longest allowed, beginning where sentences begin."""
    (tmp_path / "a.txt").write_text(SENTENCES * 200, encoding="utf-8")
    corpus = read_corpus(tmp_path, tokenizer)
    options = AdaptSettings(steps=1, batch=32, longest=900)
    pieces = Steps(corpus, options, np.array([32, 64])).batch(0)
    lengths = [len(piece.ids) for piece in pieces]
    assert min(lengths) < 40
    assert max(lengths) > 512
    assert max(lengths) <= 900
    steps = {int(np.diff(piece.bounds)[0]) for piece in pieces if len(piece.bounds) > 2}
    assert steps == {32, 64}
    starts = {tuple(corpus.ids[start : start + 3]) for start in corpus.starts}
    assert all(tuple(piece.ids[:3]) in starts for piece in pieces if len(piece.ids) >= 3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "either steps or minutes"),
        ({"steps": 1, "minutes": 1}, "either steps or minutes"),
        ({"steps": 0}, "steps=0 must be a whole number"),
        ({"minutes": -1}, "minutes=-1 must be a number above 0"),
        ({"steps": 1, "shares": (1.0,)}, "must give one chance for each"),
        ({"steps": 1, "lr": 0}, "lr=0 must be a number above 0"),
        ({"steps": 1, "warmup": 1}, "warmup=1 must be a share"),
        ({"steps": 1, "find_weight": float("nan")}, "find_weight=nan"),
        ({"steps": 1, "dtype": "int8"}, "dtype='int8' is not one of"),
    ],
)
def test_impossible_settings_are_refused(options, message):
    """Each names the option and the value."""
    with pytest.raises(ConfigError, match=message):
        AdaptSettings(**options)
