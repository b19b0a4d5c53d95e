"""The made-up corpus: sizes, spans, neighbours and postings are what a search bench needs."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from lmk_integrations.bench.synthetic import (
    LANDMARKS_PER_SECTION,
    CorpusSpec,
    SyntheticCorpus,
    SyntheticEncoder,
    pooled,
)
from lmk_integrations.encoder.records import SectionEncoding, TextDone
from lmk_integrations.encoder.stream import StreamItem
from lmk_integrations.errors import ConfigError

SPEC = CorpusSpec(sections=90, dim=48)


@pytest.fixture(scope="module")
def corpus() -> SyntheticCorpus:
    """A small one."""
    return SyntheticCorpus(SPEC)


def test_as_many_sections_as_asked_for(corpus):
    """The last document has what is left; every section has its landmarks, and spans tile it."""
    encoder = SyntheticEncoder(SPEC)
    made = [
        (text, section)
        for text in (document.text for document in corpus.documents())
        for section in encoder.sections(text)
    ]
    assert len(made) == 90
    low, high = LANDMARKS_PER_SECTION
    counts = {len(section.rows) for _, section in made}
    assert min(counts) >= low
    assert max(counts) <= high
    assert len(counts) > 5
    for text, section in made:
        assert "\n\n" not in text[section.start : section.end]
        assert section.spans[0, 0] == section.start
        assert section.spans[-1, 1] == section.end
        assert (section.spans[1:, 0] == section.spans[:-1, 1]).all()
        assert section.rows.shape == (len(section.spans), 48)


def test_the_same_again(corpus):
    """Texts and queries follow from the seed alone, vectors from the text."""
    again = SyntheticCorpus(SPEC)
    assert again.text(3) == corpus.text(3) != corpus.text(4)
    assert SyntheticCorpus(CorpusSpec(sections=90, seed=1, dim=48)).text(3) != corpus.text(3)
    first, second = corpus.queries(2), again.queries(2)
    assert [query.text for query in first] == [query.text for query in second]
    assert np.array_equal(first[1].vector, second[1].vector)
    assert first[0].text != first[1].text


def test_queries_are_near_their_section(corpus):
    """By vector: the section's own is the nearest for most; by words: all of them are in it."""
    encoder = SyntheticEncoder(SPEC)
    keys, rows, texts = [], [], {}
    for number in range(corpus.n_documents):
        text = corpus.text(number)
        for ordinal, section in enumerate(encoder.sections(text)):
            keys.append((corpus.doc_id(number), ordinal))
            rows.append(pooled(section))
            texts[keys[-1]] = text[section.start : section.end].lower()
    queries = corpus.queries(40)
    matrix = np.stack(rows)
    nearest = [keys[int(np.argmax(matrix @ query.vector))] for query in queries]
    own = [(query.doc_id, query.section) for query in queries]
    assert sum(a == b for a, b in zip(nearest, own, strict=True)) > 30
    for query, key in zip(queries, own, strict=True):
        assert abs(float(np.linalg.norm(query.vector)) - 1) < 1e-5
        assert all(word in texts[key] for word in query.text.split())


def test_words_follow_zipf(corpus):
    """A few words are everywhere, most are rare: what BM25's postings look like in English."""
    words = Counter(
        word.strip(".").lower() for document in corpus.documents() for word in document.text.split()
    )
    (first, most), *_ = words.most_common(1)
    total = sum(words.values())
    assert first == "the"
    assert 0.02 < most / total < 0.1
    once = sum(count == 1 for count in words.values())
    assert once > len(words) / 3


def test_the_stream_an_index_takes(corpus):
    """Sections in order, then the text's end; vectors are of unit length."""
    events = list(SyntheticEncoder(SPEC).iter_sections([StreamItem(corpus.text(0))], None))
    *sections, done = events
    assert isinstance(done, TextDone)
    assert done.n_sections == len(sections) == 4
    for ordinal, section in enumerate(sections):
        assert isinstance(section, SectionEncoding)
        assert section.ordinal == ordinal
        assert section.text == corpus.text(0)[section.start : section.end]
        assert abs(float(np.linalg.norm(section.vector)) - 1) < 1e-5
        assert np.allclose(section.pooled, section.landmarks.sum(axis=0), atol=1e-4)
    assert done.n_tokens == sum(section.n_tokens for section in sections)


@pytest.mark.parametrize("given", [{"sections": 0}, {"sections": 1, "dim": 0}])
def test_impossible_sizes(given):
    """Are refused, by name."""
    with pytest.raises(ConfigError, match="must be a whole number"):
        CorpusSpec(**given)
