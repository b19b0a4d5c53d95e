"""Whatever a text holds, it stays text, its spans tile it, and pieces do not show."""

import time
from functools import partial

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from plain import FRAMES
from tiny_models import BYTE_LEVEL, CORPUS, KINDS

from lmk_integrations.encoder import LMKEncoder, SectionEncoding, StreamItem, TextDone, TextFailed
from lmk_integrations.encoder import plan as plan_module
from lmk_integrations.encoder.plan import Planner
from lmk_integrations.encoder.tokens import Tokenizer, iter_pieces
from lmk_integrations.errors import ConfigError, DocumentError

LITERALS = ("[SEP]", "[CLS]", "[PAD]", "[UNK]", "[MASK]", "<s>", "</s>", "<pad>", "<mask>")
LITERALS += ("<|endoftext|>", "<|end_of_text|>", "<|begin_of_text|>", "<|im_start|>")

HOSTILE = [
    *LITERALS,
    "".join(LITERALS),
    "a\0b\0\0c",
    "\0",
    "family \U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466, flags \U0001f1e9\U0001f1ea",
    "line\r\none\r\n\r\ntwo\rthree\n",
    "e\u0301\u0302\u0303 a\u030a Zal\u0336\u0335go\u0334",
    "敏捷的狐狸跳过懒狗。河流流向大海。全角ＡＢＣ　空格",
    "שלום עולם. الثعلب السريع \u202eabc\u202c done.",
    "\u3000\u2003wide spaces\u00a0kept\u200b ",
    "ﬁ ligature, ½, ™, Å, \u1e9b\u0323, ㎏",
    "\ufeffa mark of byte order\ufffe\uffff",
    "x" * 3000,
    "\n" * 500,
    " " * 500 + "a",
    "",
    " ",
    "\r\n \t",
]

pytestmark = pytest.mark.filterwarnings("ignore:.*was not trained for landmarks")
quick = settings(
    max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture(scope="module")
def tokenizers(tiny):
    return {kind: Tokenizer(tiny(kind)) for kind in KINDS}


@pytest.fixture(scope="module")
def encoders(tiny, encoder):
    make = {"granularity": 4, "dtype": "float32"}
    tinies = {kind: LMKEncoder(tiny(kind), pooling="mean", **make) for kind in KINDS}
    return {"default": encoder, **tinies}


@pytest.fixture(scope="module")
def by_sentence(encoders):
    make = {"pooling": "mean", "granularity": "sentence", "dtype": "float32"}
    return {kind: LMKEncoder(opened.directory, **make) for kind, opened in encoders.items()}


@pytest.mark.parametrize("kind", KINDS)
def test_literal_special_tokens_stay_text(kind, tokenizers, tiny):
    """No text spells a special token: its ids are never those that frame or separate."""
    tokenizer = tokenizers[kind]
    before, after, landmark = FRAMES[kind]
    ids = {tokenizer.landmark_id, tokenizer.pad_id, *tokenizer.prefix, *tokenizer.suffix}
    assert len(ids) >= 1
    for token in {*LITERALS, *before, *after, landmark}:
        for text in (token, f"a {token} b", f"a{token}b", f"{token}{token}", f" {token}\n"):
            found = tokenizer.encode(text)
            assert not ids & set(found.ids.tolist()), text
            assert len(found.ids) > 1, text


@pytest.mark.parametrize("kind", KINDS)
def test_special_tokens_still_frame_a_text(kind, tokenizers, tiny):
    """Hiding them from texts leaves their ids: those that transformers puts around a text."""
    from transformers import AutoTokenizer

    reference = AutoTokenizer.from_pretrained(tiny(kind))
    tokenizer = tokenizers[kind]
    for text in ["fox", CORPUS[0], "naïve 你好 \U0001f600"]:
        ids = [*tokenizer.prefix, *tokenizer.encode(text).ids.tolist(), *tokenizer.suffix]
        assert ids == reference(text)["input_ids"]


def check_tiles(text, spans):
    """In order, without gap or overlap; outside lies only what a tokenizer drops."""
    assert spans[0, 0] >= 0
    assert spans[-1, 1] <= len(text)
    assert np.all(spans[:, 0] <= spans[:, 1])
    assert spans[1:, 0].tolist() == spans[:-1, 1].tolist()
    joined = "".join(text[a:b] for a, b in spans)
    assert joined == text[spans[0, 0] : spans[-1, 1]]


@pytest.mark.parametrize("kind", ["default", *KINDS])
def test_hostile_texts(kind, encoders):
    """Spans tile, vectors are finite and of unit length, nothing is left of what has letters."""
    for text, encoding in zip(HOSTILE, encoders[kind].encode_landmarks(HOSTILE), strict=True):
        check_tiles(text, encoding.spans)
        assert abs(np.linalg.norm(encoding.vector) - 1) < 1e-4
        assert np.isfinite(encoding.landmarks).all()
        assert len(encoding.landmarks) == len(encoding.spans) == len(encoding.weights) > 0
        first, last = encoding.spans[0, 0], encoding.spans[-1, 1]
        assert not any(c.isalnum() for c in text[:first] + text[last:])


@pytest.mark.parametrize("kind", BYTE_LEVEL)
def test_byte_level_reads_every_character(kind, encoders):
    """A byte-level tokenizer drops nothing: only white space may lie outside the spans."""
    for text in HOSTILE:
        spans = encoders[kind].encode_landmarks([text])[0].spans
        assert (text[: spans[0, 0]] + text[spans[-1, 1] :]).strip() == ""


@pytest.mark.parametrize("kind", ["default", "qwen3", "xlm-roberta"])
@quick
@given(text=st.text(max_size=300))
@example("\U0001f600" * 40)
@example("\0\0a\0")
@example("a\r\n\r\nb")
def test_any_text_is_tiled(kind, encoders, text):
    """Spans tile any text from its first to its last token."""
    tokenizer = encoders[kind].model.tokenizer
    encoding = next(iter(encoders[kind].plan_only([StreamItem(text)], None)))
    check_tiles(text, encoding.spans)
    assert encoding.n_tokens == len(tokenizer.encode(text).ids)
    assert encoding.text == text[encoding.start : encoding.end]


@pytest.mark.parametrize("kind", ["default", "qwen3", "xlm-roberta", "roberta"])
@quick
@given(
    prompt=st.text(alphabet="ae: \u0301\U0001f600", max_size=6),
    text=st.text(alphabet="ae .\n\u0301\U0001f600", max_size=40),
)
def test_a_prompt_leaves_the_spans_in_the_text(kind, encoders, prompt, text):
    """Whatever the prompt, spans tile the text alone, and no token of both is lost."""
    model = encoders[kind].model
    planner = Planner(model.tokenizer, model.layout(prompt, None))
    (group,) = planner.plan(text)
    (section,) = group.sections
    check_tiles(text, section.spans)
    joint = len(model.tokenizer.encode(prompt + text).ids)
    read = len(group.windows[0].input.ids) - len(model.tokenizer.prefix + model.tokenizer.suffix)
    assert section.n_tokens <= joint
    assert read == joint or (joint == 0 and read == 1)


@pytest.mark.parametrize("kind", ["default", "qwen3", "xlm-roberta"])
@pytest.mark.parametrize("granularity", [4, "sentence"])
@quick
@given(text=st.text(alphabet="ab .\n。é\U0001f600", max_size=250), section=st.integers(1, 40))
def test_sections_of_any_text_tile_it(kind, granularity, section, encoders, by_sentence, text):
    """Sections follow each other without gap, within their budget, and count every token."""
    encoder = (encoders if granularity == 4 else by_sentence)[kind]
    *sections, done = encoder.plan_only([StreamItem(text, markup="markdown")], section)
    assert isinstance(done, TextDone)
    assert done.n_sections == len(sections) >= 1
    assert [s.ordinal for s in sections] == list(range(len(sections)))
    assert done.n_tokens == len(encoder.model.tokenizer.encode(text).ids)
    check_tiles(text, np.concatenate([s.spans for s in sections]))
    for s in sections:
        assert s.n_tokens == s.chunk_tokens.sum() <= section
        assert (s.start, s.end) == (s.spans[0, 0], s.spans[-1, 1])
        assert s.text == text[s.start : s.end]


def test_empty_texts_have_a_landmark(encoders):
    """An empty text is legal: one landmark with an empty span, no token."""
    for encoder in encoders.values():
        for encoding in encoder.encode_landmarks(["", "  \n"]):
            assert len(encoding.landmarks) == 1
            assert encoding.spans[0, 0] <= encoding.spans[0, 1]
    empty = encoders["default"].encode_landmarks([""])[0]
    assert (empty.n_tokens, empty.spans.tolist()) == (0, [[0, 0]])
    assert encoders["default"].encode_documents([]).shape == (0, 384)


def test_a_lone_surrogate_is_named(encoders):
    """The error says which text, where in it, and what to do."""
    with pytest.raises(DocumentError, match=r"text 1: .*character 3.*repair") as caught:
        encoders["default"].encode_documents(["fine", "abc\ud800", "fine"])
    assert caught.value.reason == "surrogate"
    with pytest.raises(DocumentError, match="text 2"):
        list(encoders["bert"].iter_landmarks([Pieces("a"), "b", Pieces("\udfff")]))
    *_, failed, section, done = encoders["bert"].iter_sections(
        [StreamItem("a\ud800"), StreamItem("b")], 64
    )
    assert isinstance(failed, TextFailed)
    assert (failed.index, section.index, done.index) == (0, 1, 1)


def test_what_is_no_text_is_named(encoders):
    """A single string or another type is refused before any work."""
    with pytest.raises(ConfigError, match="list of texts"):
        encoders["bert"].encode_documents("a text")
    with pytest.raises(DocumentError, match="text 1 is a NoneType"):
        encoders["bert"].encode_queries(["a", None])


class Pieces:
    """A text handed over in pieces of a size."""

    def __init__(self, text, size=7):
        self.text, self.size = text, size

    def pieces(self):
        for at in range(0, len(self.text), self.size):
            yield self.text[at : at + self.size]


@given(st.text(alphabet="ab \n\u3000é", max_size=200), st.integers(1, 40), st.integers(1, 60))
def test_pieces_concatenate_and_do_not_depend_on_the_source(text, size, limit):
    """Pieces are the text, within the limit, and the same however it was handed over."""
    pieces = list(iter_pieces(text, limit))
    assert "".join(pieces) == text
    assert all(len(piece) <= limit for piece in pieces)
    assert list(iter_pieces(Pieces(text, size), limit)) == pieces
    begin = 0
    for piece in pieces[:-1]:
        cut = begin + len(piece)
        if not text[cut].isspace():  # cut hard: there was no white space to cut at
            assert not any(c.isspace() for c in text[begin + limit // 2 + 1 : begin + limit + 1])
        begin = cut


@pytest.mark.parametrize("kind", ["default", "qwen3", "xlm-roberta", "deberta-v2"])
@pytest.mark.parametrize("limit", [50, 333])
def test_pieces_do_not_show(kind, limit, encoders, monkeypatch):
    """Read in pieces, from a string or a source, a text has the same sections and vectors."""
    text = "\n\n".join(CORPUS) + "\r\n" + "word" * 60 + "\U0001f600" * 90
    monkeypatch.setattr(plan_module, "iter_pieces", partial(iter_pieces, limit=limit))
    encoder = encoders[kind]
    whole = list(encoder.iter_landmarks([text], section_tokens=64))
    check_tiles(text, np.concatenate([e.spans for e in whole]))
    assert whole[0].spans[0, 0] == 0
    assert whole[-1].spans[-1, 1] == len(text)
    for size in (1, 64, 10_000):
        parts = list(encoder.iter_landmarks([Pieces(text, size)], section_tokens=64))
        assert [p.spans.tolist() for p in parts] == [p.spans.tolist() for p in whole]
        assert [p.is_last for p in parts] == [False] * (len(parts) - 1) + [True]
        for a, b in zip(parts, whole, strict=True):
            np.testing.assert_allclose(a.vector, b.vector, atol=1e-5)


def test_a_text_of_megabytes_is_cut_as_its_source_is(encoders):
    """Above the piece size a string and a source give the same sections; both hold every token."""
    text = " ".join(f"Sentence {i} of the text is here." for i in range(40_000))
    assert len(text) > 1 << 20
    cut = [
        [
            (event.start, event.end, event.n_tokens)
            for event in encoders["default"].plan_only([StreamItem(source)], 960)
            if isinstance(event, SectionEncoding)
        ]
        for source in (text, Pieces(text, 700_001))
    ]
    assert cut[0] == cut[1]
    assert (cut[0][0][0], cut[0][-1][1]) == (0, len(text))
    assert max(n for _, _, n in cut[0]) <= 960


def test_a_byte_level_sentence_starts_at_its_own_token(by_sentence):
    """Where the space is part of the token, a section still begins with its sentence."""
    text = "One two three four five six. Seven eight nine ten. Eleven twelve now. The end."
    for kind, encoder in by_sentence.items():
        spans = next(iter(encoder.plan_only([StreamItem(text)], None))).spans
        pieces = [text[a:b].strip() for a, b in spans]
        assert pieces == [
            "One two three four five six.",
            "Seven eight nine ten.",
            "Eleven twelve now.",
            "The end.",
        ], kind


@pytest.mark.parametrize(
    "text", ["# a\n" * 75_000, "A b. " * 60_000, "x" * 300_000, "\n" * 300_000]
)
@pytest.mark.parametrize("granularity", [4, "sentence"])
def test_planning_takes_no_quadratic_time(granularity, text, encoders, by_sentence):
    """300,000 characters of headings, sentences, or one word are planned in about a second."""
    encoder = (encoders if granularity == 4 else by_sentence)["default"]
    begin = time.process_time()
    *_, done = encoder.plan_only([StreamItem(text, markup="markdown")], 960)
    assert isinstance(done, TextDone)
    assert time.process_time() - begin < 5
