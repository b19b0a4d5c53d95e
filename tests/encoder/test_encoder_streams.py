"""Streams: lazy, in order, bounded, cancellable; sections nest in windows."""

import itertools
import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
from plain import PlainModel, cosine
from tiny_models import CORPUS

from lmk_integrations.encoder import (
    EncodingCancelled,
    LMKEncoder,
    SectionEncoding,
    StreamItem,
    TextDone,
    TextFailed,
    plan,
)
from lmk_integrations.encoder.tokens import iter_pieces
from lmk_integrations.errors import ConfigError, DocumentError
from lmk_integrations.records import Mark

pytestmark = pytest.mark.filterwarnings("ignore:.*was not trained for landmarks")

PROSE = [text for text in CORPUS if "#" not in text]
TEXT = "\n\n".join(f"# Part {i}\n\n" + " ".join(PROSE) for i in range(6))


@pytest.fixture(scope="module")
def bert(tiny):
    return LMKEncoder(
        tiny("bert"), pooling="mean", granularity=8, dtype="float32", token_budget=512
    )


@pytest.fixture(scope="module")
def modernbert(tiny):
    return LMKEncoder(tiny("modernbert"), pooling="lmk", granularity=16, dtype="float32")


class Source:
    """A re-openable text."""

    def __init__(self, text, size=1000):
        self.text, self.size = text, size

    def pieces(self):
        for at in range(0, len(self.text), self.size):
            yield self.text[at : at + self.size]


# -- laziness and memory ---------------------------------------------------------------------


def test_an_endless_stream_can_be_read_in_part(bert):
    """Texts are taken only as far as is needed; the results come in order."""
    taken = itertools.count()
    texts = (f"text number {next(taken)} of an endless stream" for _ in range(10_000))
    found = list(itertools.islice(bert.iter_landmarks(texts), 300))
    assert [encoding.index for encoding in found] == list(range(300))
    assert next(taken) < 2000


@pytest.mark.parametrize("wanted", [None, lambda _: False])
def test_few_texts_are_held_at_once(wanted, bert):
    """However long the stream, what is read ahead is bounded; also where nothing is encoded."""
    ahead = []
    given = 0

    def items():
        for read in range(3000):
            ahead.append(read - given)
            yield StreamItem("word " * 50, wanted=wanted)

    for event in bert.iter_sections(items(), 64):
        given += isinstance(event, TextDone)
        if given == 600:
            break
    assert max(ahead) < 200


def test_failing_texts_are_passed_on(bert):
    """A stream of failures is not held back without end either."""
    read = itertools.count()
    items = (StreamItem(f"\ud800 {next(read)}") for _ in range(30_000))
    found = list(itertools.islice(bert.iter_sections(items, 64), 5))
    assert [event.index for event in found] == list(range(5))
    assert next(read) < 20_000


def test_memory_stays_bounded_over_a_long_stream(bert):
    """Four times the texts, from where two lots are held, take no more memory at their peak."""

    def peak(count):
        tracemalloc.start()
        texts = (" ".join(CORPUS) for _ in range(count))
        for _ in bert.iter_landmarks(texts, section_tokens=64):
            pass
        top = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return top

    peak(5)
    assert peak(240) < 1.5 * peak(60)


def test_a_long_source_is_not_held(bert, monkeypatch):
    """A long source is cut as it comes and let go: four times the text takes no more memory."""
    monkeypatch.setattr(plan, "iter_pieces", partial(iter_pieces, limit=1 << 14))

    class Long:
        def __init__(self, count):
            self.count = count

        def pieces(self):
            for number in range(self.count):
                yield f"A sentence of piece {number}. " * 600

    def peak(count):
        tracemalloc.start()
        for event in bert.plan_only([StreamItem(Long(count))], 1 << 10):
            last = event
        top = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert last.n_tokens > count * 600 * 5
        return top

    peak(1)
    assert peak(24) < 1.3 * peak(6)


# -- order, failure, cancelling, progress ------------------------------------------------------


def test_events_come_in_the_order_of_the_stream(bert):
    """Each text's sections, then its end; a failure ends its text and not the stream."""
    items = [StreamItem(TEXT), StreamItem(""), StreamItem("x\ud800"), StreamItem(Source(TEXT))]
    events = list(bert.iter_sections(iter(items), 64))
    assert [event.index for event in events] == sorted(event.index for event in events)
    ends = [event for event in events if not isinstance(event, SectionEncoding)]
    assert [type(event) for event in ends] == [TextDone, TextDone, TextFailed, TextDone]
    assert ends[2].error.reason == "surrogate"
    for index in (0, 1, 3):
        own = [e for e in events if isinstance(e, SectionEncoding) and e.index == index]
        done = ends[index]
        assert [section.ordinal for section in own] == list(range(done.n_sections))
        assert sum(section.n_tokens for section in own) == done.n_tokens
        assert sum(section.n_unk for section in own) == done.n_unk
    first, last = (
        [e.vector for e in events if isinstance(e, SectionEncoding) and e.index == index]
        for index in (0, 3)
    )
    np.testing.assert_allclose(first, last, atol=1e-5)


def test_a_source_that_fails_half_way_fails_alone(bert):
    """A DocumentError of the source is its text's failure; another error is the caller's."""

    class Changed:
        def pieces(self):
            yield TEXT
            raise DocumentError("the file changed", "changed")

    class Broken:
        def pieces(self):
            yield TEXT
            raise RuntimeError("a bug")

    events = list(bert.iter_sections([StreamItem(Changed()), StreamItem("b")], 64))
    failed = [event for event in events if isinstance(event, TextFailed)]
    assert [(event.index, event.error.reason) for event in failed] == [(0, "changed")]
    assert isinstance(events[-1], TextDone)
    with pytest.raises(DocumentError, match="text 0: the file changed"):
        list(bert.iter_landmarks([Changed()]))
    with pytest.raises(RuntimeError, match="a bug"):
        list(bert.iter_sections([StreamItem(Broken())], 64))


def test_progress_counts_every_text(bert):
    """(done, all) after each text, ascending to the end."""
    for encode in (bert.encode_documents, bert.encode_queries, bert.encode_landmarks):
        seen = []
        encode(["a b c"] * 40, progress=lambda done, total: seen.append((done, total)))  # noqa: B023
        assert seen == [(i + 1, 40) for i in range(40)]


def test_cancelling_stops_between_two_batches(bert):
    """The answer True ends the work with EncodingCancelled; the encoder works on afterwards."""
    asked = itertools.count()
    for encode in (bert.encode_documents, bert.encode_queries, bert.encode_landmarks):
        begun = next(asked)
        with pytest.raises(EncodingCancelled):
            encode(["a b c"] * 2000, cancelled=lambda: next(asked) >= begun + 3)  # noqa: B023
        assert next(asked) <= begun + 6
    with pytest.raises(EncodingCancelled):
        list(bert.iter_sections([StreamItem(TEXT)], 64, cancelled=lambda: True))
    assert bert.encode_documents(["a"], cancelled=lambda: False).shape == (1, 32)


def test_a_section_of_no_tokens_is_refused(bert):
    """The budget must hold at least a token."""
    with pytest.raises(ConfigError, match="section_tokens=0"):
        list(bert.iter_landmarks(["a"], section_tokens=0))


# -- sections ----------------------------------------------------------------------------------


def test_only_wanted_sections_are_encoded(bert):
    """Unwanted ones come with their text and spans but no vectors, the others as ever."""
    every = [
        e for e in bert.iter_sections([StreamItem(TEXT)], 100) if isinstance(e, SectionEncoding)
    ]
    some = list(bert.iter_sections([StreamItem(TEXT, wanted=lambda i: i % 3 == 1)], 100))
    assert isinstance(some[-1], TextDone)
    assert len(some) == len(every) + 1
    for section, whole in zip(some, every, strict=False):
        assert section.spans.tolist() == whole.spans.tolist()
        assert section.text == whole.text == TEXT[section.start : section.end]
        if section.ordinal % 3 == 1:
            np.testing.assert_allclose(section.vector, whole.vector, atol=1e-5)
        else:
            assert section.vector is section.landmarks is None
            assert section.weights is section.pooled is None


def test_nothing_wanted_opens_no_weights(tiny):
    """Planning needs the tokenizer only."""
    encoder = LMKEncoder(tiny("bert"), pooling="mean")
    events = list(encoder.plan_only([StreamItem(TEXT)], 64))
    assert isinstance(events[-1], TextDone)
    assert encoder.model._loaded is None


def test_headings_and_pages_in_force(bert):
    """A section tells the last heading and page at its start: from marks, and from markup."""
    marks = [
        Mark(0, "page", "i"),
        Mark(TEXT.index("# Part 2"), "page", "ii"),
        Mark(TEXT.index("# Part 4"), "heading", "Marked"),
    ]
    events = list(bert.iter_sections([StreamItem(TEXT, marks=marks, markup="markdown")], 128))
    sections = [event for event in events if isinstance(event, SectionEncoding)]
    for section in sections:
        part = TEXT.count("# Part", 0, section.start + len("# Part")) - 1
        assert section.heading in {f"Part {part}"} | ({"Marked"} if part == 4 else set())
        assert section.page == ("ii" if part >= 2 else "i")
    assert any(TEXT.startswith("# Part", section.start) for section in sections[1:])
    plain = bert.plan_only([StreamItem(TEXT)], 128)
    assert {e.heading for e in plain if isinstance(e, SectionEncoding)} == {None}


def test_a_section_is_encoded_as_a_text_of_its_own(bert):
    """A short-context encoder reads a section in windows of its own, so its text tells all."""
    sections = [
        e for e in bert.iter_sections([StreamItem(TEXT)], 200) if isinstance(e, SectionEncoding)
    ]
    alone = bert.encode_landmarks([section.text for section in sections])
    assert max(section.n_windows for section in sections) == 2
    for section, own in zip(sections, alone, strict=True):
        assert section.n_windows == own.n_windows
        np.testing.assert_allclose(section.landmarks, own.landmarks, atol=1e-5)
        np.testing.assert_allclose(section.vector, own.vector, atol=1e-5)


def test_sums_of_sections_are_the_document(bert, modernbert):
    """The pooled sums add up to the mean of all landmarks: the vector of the whole document."""
    for encoder in (bert, modernbert):
        events = encoder.iter_sections([StreamItem(TEXT)], 128)
        sections = [event for event in events if isinstance(event, SectionEncoding)]
        rows = np.concatenate([section.landmarks for section in sections]).astype(np.float64)
        weights = np.concatenate([section.weights for section in sections]).astype(np.float64)
        total = np.sum([section.pooled for section in sections], axis=0)
        np.testing.assert_allclose(total, weights @ rows, rtol=1e-4, atol=1e-3)


def test_whole_sections_share_a_long_window(modernbert, tiny):
    """With 2,048 positions and sections of 256 tokens, landmarks see the sections around them."""
    text = TEXT * 3
    events = modernbert.iter_sections([StreamItem(text, markup="markdown")], 256)
    sections = [event for event in events if isinstance(event, SectionEncoding)]
    assert len(sections) > 8
    assert all(section.n_windows == 1 for section in sections)
    # Plainly: chunking restarts at each section, and whole sections fill a window.
    plain = PlainModel("modernbert", tiny("modernbert"), 2048)
    ids = plain.tokenizer(text, add_special_tokens=False)["input_ids"]
    groups, at = [[]], 0
    for section in sections:
        own = ids[at : at + section.n_tokens]
        at += section.n_tokens
        chunks = [own[i : i + 16] for i in range(0, len(own), 16)]
        held = [chunk for chunks_of in groups[-1] for chunk in chunks_of]
        if sum(len(c) + 1 for c in held + chunks) > 2047:
            groups.append([])
        groups[-1].append(chunks)
    assert at == len(ids)
    assert len(groups) > 1
    assert len(groups[0]) > 3
    expected = []
    for group in groups:
        encoded = plain.encode_chunks([chunk for chunks in group for chunk in chunks], "lmk")
        first = 0
        for chunks in group:
            expected.append(encoded.rows[first : first + len(chunks)])
            first += len(chunks)
    for section, rows in zip(sections, expected, strict=True):
        np.testing.assert_allclose(section.landmarks, rows, atol=3e-4)
        assert cosine(section.vector, rows.mean(axis=0)) > 0.99999
    # They do see each other: alone, a section's landmarks are different.
    alone = modernbert.encode_landmarks([sections[1].text])[0]
    assert not np.allclose(alone.landmarks[0], sections[1].landmarks[0], atol=1e-2)


def test_a_section_that_shares_a_window_with_a_wanted_one_is_encoded(modernbert):
    """Landmarks must not depend on what is wanted, so the whole window is read."""
    every = [
        e
        for e in modernbert.iter_sections([StreamItem(TEXT)], 256)
        if isinstance(e, SectionEncoding)
    ]
    some = list(modernbert.iter_sections([StreamItem(TEXT, wanted=lambda i: i == 1)], 256))
    np.testing.assert_allclose(some[1].landmarks, every[1].landmarks, atol=1e-5)
    assert some[0].landmarks is not None


@pytest.mark.parametrize("kind", ["bert", "modernbert", "qwen3"])
def test_overlap_over_sections_is_context_only(kind, tiny):
    """With overlap a section's landmarks also see the end of the one before, and are given once."""
    make = {"pooling": "lmk", "granularity": 8, "max_tokens": 100, "dtype": "float32"}
    plain = LMKEncoder(tiny(kind), **make)
    overlapping = LMKEncoder(tiny(kind), overlap_tokens=24, **make)
    a, b = (
        [e for e in x.iter_sections([StreamItem(TEXT)], 64) if isinstance(e, SectionEncoding)]
        for x in (plain, overlapping)
    )
    assert [x.spans.tolist() for x in a] == [x.spans.tolist() for x in b]
    assert all(len(x.landmarks) == len(x.spans) == len(x.weights) for x in b)
    np.testing.assert_allclose(a[0].landmarks[0], b[0].landmarks[0], atol=1e-4)
    assert not np.allclose(a[1].landmarks, b[1].landmarks, atol=1e-3)


def test_landmarks_at_sentences(tiny):
    """granularity="sentence": one landmark per sentence, in the plain computation too."""
    text = "The quick fox ran. Was it late? Nobody knew! The dog slept by the river all day."
    encoder = LMKEncoder(tiny("bert"), pooling="lmk", granularity="sentence", dtype="float32")
    found = encoder.encode_landmarks([text])[0]
    sentences = [text[a:b].strip() for a, b in found.spans]
    assert sentences == [
        "The quick fox ran.",
        "Was it late?",
        "Nobody knew!",
        "The dog slept by the river all day.",
    ]
    plain = PlainModel("bert", tiny("bert"), 128)
    chunks = [plain.tokenizer(s, add_special_tokens=False)["input_ids"] for s in sentences]
    np.testing.assert_allclose(found.landmarks, plain.encode_chunks(chunks, "lmk").rows, atol=2e-4)
    assert found.chunk_tokens.tolist() == [len(chunk) for chunk in chunks]


def test_a_sentence_above_the_window_is_cut(tiny):
    """No sentence is too long: it gets several landmarks, and nothing is lost."""
    for kind in ("bert", "modernbert"):
        encoder = LMKEncoder(tiny(kind), pooling="lmk", granularity="sentence", dtype="float32")
        found = encoder.encode_landmarks(["@~{}" * 500])[0]
        assert found.chunk_tokens.sum() == found.n_tokens
        assert len(found.landmarks) > 1
        assert found.chunk_tokens.max() <= 256


@pytest.mark.parametrize("granularity", [1, 2, 16, "sentence"])
def test_default_sections_fit_a_point(granularity, tiny, monkeypatch):
    """Even a section of one-token landmarks stays below Qdrant's limit, whatever the width."""
    for dim in (32, 1024, 4096, 8192):
        encoder = LMKEncoder(tiny("modernbert"), granularity=granularity)
        monkeypatch.setattr(encoder.model, "dim", dim)
        rows = encoder.default_section_tokens
        rows = rows if granularity == "sentence" else -(-rows // granularity)
        assert rows * dim < 1 << 20


def test_strings_and_sources_share_a_stream(bert):
    """Indices count through a stream of both; a string is whole, a source comes in sections."""
    stream = [CORPUS[0], Source(TEXT), "", CORPUS[1], Source("short")]
    found = list(bert.iter_landmarks(stream))
    assert [e.index for e in found if e.is_last] == [0, 1, 2, 3, 4]
    sections = [e for e in found if e.index == 1]
    assert [e.section for e in sections] == list(range(len(sections)))
    assert len(sections) > 1
    np.testing.assert_allclose(found[0].vector, bert.encode_documents([CORPUS[0]])[0], atol=1e-6)


# -- threads -----------------------------------------------------------------------------------


def test_eight_threads_get_the_same_vectors(tiny):
    """One encoder, opened by all at once, encodes in eight threads as in one."""
    texts = [" ".join(CORPUS)[a : a + 200] for a in range(0, 600, 20)]
    make = {"pooling": "lmk", "granularity": 8, "dtype": "float32", "token_budget": 300}
    expected = LMKEncoder(tiny("bert"), **make).encode_documents(texts)
    shared = LMKEncoder(tiny("bert"), **make)
    together = threading.Barrier(8)

    def work(number):
        together.wait(timeout=30)
        order = np.random.default_rng(number).permutation(len(texts))
        vectors = np.empty_like(expected)
        for _ in range(3):
            vectors[order] = shared.encode_documents([texts[i] for i in order])
        landmarks = shared.encode_landmarks(texts[:5])
        return vectors, [e.vector for e in landmarks], shared.space

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(work, range(8)))
    assert len({space for *_, space in results}) == 1
    for vectors, landmarks, _ in results:
        np.testing.assert_allclose(vectors, expected, atol=5e-6)
        np.testing.assert_allclose(landmarks, expected[:5], atol=5e-6)
