"""BM25 term weights, their settings, and how the settings travel."""

from __future__ import annotations

import json
import pickle

import pytest

from lmk_integrations.errors import ConfigError
from lmk_integrations.qdrant.bm25 import LANGUAGES, Bm25Encoder


def test_weights_are_those_of_the_formula() -> None:
    """tf * (k + 1) / (tf + k * (1 - b + b * length / avg_len)), by hand for tf = 2, length = 3."""
    vector = Bm25Encoder(avg_len=6.0, k=1.2, b=0.75).encode_document("fox fox dog")
    norm = 1.2 * (1 - 0.75 + 0.75 * 3 / 6)
    expected = sorted([2 * 2.2 / (2 + norm), 1 * 2.2 / (1 + norm)])
    assert sorted(vector.values) == pytest.approx(expected, rel=1e-6)


def test_queries_meet_documents() -> None:
    """Stop words go, endings go, and each distinct query term weighs 1."""
    encoder = Bm25Encoder()
    document = encoder.encode_document("The foxes were running")
    query = encoder.encode_query("a fox runs and runs")
    assert sorted(query.indices) == sorted(document.indices)
    assert query.values == [1.0, 1.0]


@pytest.mark.parametrize("text", ["", "   ", "the of and", "!?"])
def test_a_text_without_terms_has_no_entries(text: str) -> None:
    """Callers leave such a vector out."""
    vector = Bm25Encoder().encode_document(text)
    assert (vector.indices, vector.values) == ([], [])


def test_no_language_keeps_every_word() -> None:
    """Neither stop words nor stemming; upper and lower case are one."""
    encoder = Bm25Encoder("none")
    assert len(encoder.encode_document("The run runs running RUN").indices) == 4


@pytest.mark.parametrize("language", ["multilingual", "chinese", "japanese"])
def test_unspaced_scripts_are_split(language: str) -> None:
    """A word inside an unspaced sentence is found, which the word tokenizer cannot do."""
    sentence, word = "我们在北京大学学习中文", "北京"
    found = set(Bm25Encoder(language).encode_query(word).indices)
    assert found
    assert found <= set(Bm25Encoder(language).encode_document(sentence).indices)
    spaced = Bm25Encoder("none")
    assert not set(spaced.encode_query(word).indices) & set(
        spaced.encode_document(sentence).indices
    )


def test_every_language_works() -> None:
    """All names that the error message offers can be used."""
    for language in LANGUAGES:
        assert Bm25Encoder(language).encode_document("zebra 42 zebra").indices
    assert {"english", "german", "chinese"} <= set(LANGUAGES)


def test_settings_travel_as_json() -> None:
    """The collection's metadata, a pickle and a copy give the same vectors."""
    encoder = Bm25Encoder("german", avg_len=120, k=1.5, b=0.5, tokenizer="whitespace")
    text = "Die Häuser, das Haus und viele Häuser"
    for other in (
        Bm25Encoder.from_dict(json.loads(json.dumps(encoder.to_dict()))),
        pickle.loads(pickle.dumps(encoder)),
    ):
        assert other == encoder
        assert hash(other) == hash(encoder)
        assert other.encode_document(text) == encoder.encode_document(text)
    assert encoder.to_dict()["language"] == encoder.language == "german"
    assert Bm25Encoder() != encoder


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"language": "klingon"}, "'klingon'. Choose one of .*english.*multilingual"),
        ({"language": "English"}, "'English'"),
        ({"tokenizer": "bytes"}, "'bytes'. Choose one of word"),
        ({"avg_len": 0}, "avg_doc_len"),
        ({"avg_len": float("nan")}, "avg_len"),
        ({"b": 2}, "BM25 b"),
        ({"k": -1}, "BM25 k"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, object], message: str) -> None:
    """ConfigError names the setting and what is possible."""
    with pytest.raises(ConfigError, match=message):
        Bm25Encoder(**settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({}, "version None"),
        ({**Bm25Encoder().to_dict(), "version": 2}, "version 2.*Upgrade"),
        ({**Bm25Encoder().to_dict(), "stemmer": "x"}, "stemmer"),
    ],
)
def test_unknown_saved_settings_are_refused(data: dict[str, object], message: str) -> None:
    """A newer release's settings are not guessed at."""
    with pytest.raises(ConfigError, match=message):
        Bm25Encoder.from_dict(data)


def test_odd_text_is_no_error() -> None:
    """NUL, lone surrogates and very long words are encoded."""
    encoder = Bm25Encoder()
    assert encoder.encode_document("fox\ud800") == encoder.encode_document("fox")
    assert encoder.encode_document("fox\0dog").indices
    assert encoder.encode_document("x" * 100_000).indices
