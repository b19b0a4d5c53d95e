"""Directories of sentence-transformers' landmark modules open with the vectors of those modules."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest
from landmark_modules import (
    INTERVAL,
    LEGACY,
    TYPE,
    WINDOW,
    Reference,
    landmark_of,
    save_modules,
)
from plain import cosine
from tiny_models import CORPUS, WIDTH
from transformers import AutoTokenizer

from lmk_integrations.encoder import LMKEncoder, SectionEncoding, StreamItem
from lmk_integrations.encoder.tokens import placed, stripped
from lmk_integrations.errors import ModelError

FAMILIES = ["bert", "roberta", "modernbert", "xlm-roberta", "llama"]
WORDS = " ".join(CORPUS[:4]).split()
TEXTS = [
    "fox",
    CORPUS[0],
    CORPUS[3],
    " \n Leading and trailing\n\n",
    "One.\n\nTwo: 123.",
    " ".join(WORDS[:24]),
]


def close(found, expected):
    assert found.shape == expected.shape
    assert min(cosine(a, b) for a, b in zip(found, expected, strict=True)) > 0.99999


@pytest.mark.parametrize("family", FAMILIES)
def test_equal_vectors(family, tiny, tmp_path):
    """Of texts that fit one window; llama's PAD is its end token, the landmark."""
    directory = save_modules(tiny(family), tmp_path)
    encoder = LMKEncoder(directory, dtype="float32")
    assert (encoder.pooling, encoder.granularity, encoder.max_tokens) == ("lmk", INTERVAL, WINDOW)
    expected = Reference(directory, own_pad=family == "llama").encode(TEXTS)
    close(encoder.encode_documents(TEXTS), expected)
    close(encoder.encode_queries(TEXTS), expected)
    found = encoder.encode_landmarks(TEXTS)
    close(np.stack([encoding.vector for encoding in found]), expected)


@pytest.mark.parametrize("family", ["bert", "modernbert"])
@pytest.mark.parametrize("interval", [1, 3, 8, 64])
def test_every_length_up_to_the_window(family, interval, tiny, tmp_path):
    """Whole chunks, a last chunk of one token, a full window, an interval beyond the window."""
    directory = save_modules(tiny(family), tmp_path, landmark_interval=interval, max_seq_length=40)
    encoder, reference = LMKEncoder(directory, dtype="float32"), Reference(directory)
    words = ["fox", "dog", "river", "sea", "landmark", "text", "She"]
    draw = random.Random(interval)
    texts = [" ".join(draw.choice(words) for _ in range(n)) for n in range(40)]
    reference.most = 10_000
    lengths = [len(reference.ids(text)) for text in texts]
    fitting = [text for text, length in zip(texts, lengths, strict=True) if length <= 40]
    found = encoder.encode_landmarks(fitting)
    assert {encoding.n_windows for encoding in found} == {1}
    assert max(length for length in lengths if length <= 40) >= 36
    close(np.stack([encoding.vector for encoding in found]), reference.encode(fitting))


@pytest.mark.filterwarnings("ignore:.*was not trained for landmarks")
def test_the_token_behind_a_text_counts(tiny, tmp_path):
    """Their pooling finds landmarks by id, so the separator that closes a text is one, too."""
    directory = save_modules(tiny("bert"), tmp_path)
    encoder = LMKEncoder(directory, dtype="float32")
    found = encoder.encode_landmarks(["fox", " ".join(WORDS[:12])])
    assert [encoding.weights.tolist() for encoding in found] == [[2], [1, 2]]
    own = LMKEncoder(tiny("bert"), pooling="lmk", granularity=INTERVAL, dtype="float32")
    assert cosine(own.encode_documents(["fox"])[0], found[0].vector) < 0.999
    assert own.space != encoder.space


@pytest.mark.parametrize("family", ["bert", "roberta", "modernbert", "llama"])
@pytest.mark.parametrize("text", ["", "   \n", " \t x", "x \n\n "])
def test_white_space_and_empty_texts(family, text, tiny, tmp_path):
    """White space around a text is not read; an empty text has its landmarks all the same."""
    directory = save_modules(tiny(family), tmp_path, prompts={"query": " find: "})
    encoder = LMKEncoder(directory, dtype="float32")
    reference = Reference(directory, own_pad=True)
    close(encoder.encode_documents([text]), reference.encode([text]))
    close(encoder.encode_queries([text]), reference.encode([" find: " + text]))
    spans = encoder.encode_landmarks([text])[0].spans
    assert text[spans[0, 0] : spans[-1, 1]] == text.strip()


def test_prompts_count_in_the_first_chunk(tiny, tmp_path):
    """Their chunks begin at the prompt: the first landmark comes so many tokens earlier."""
    prompts = {"query": "query: where is ", "document": "passage: "}
    directory = save_modules(tiny("bert"), tmp_path, prompts=prompts)
    encoder, reference = LMKEncoder(directory, dtype="float32"), Reference(directory)
    for prompt, found in (
        (prompts["query"], encoder.encode_queries(TEXTS)),
        (prompts["document"], encoder.encode_documents(TEXTS)),
    ):
        close(found, reference.encode([prompt + text for text in TEXTS]))
    bare = LMKEncoder(directory, query_prompt="", dtype="float32")
    close(bare.encode_queries(TEXTS), reference.encode(TEXTS))


def test_include_prompt_changes_nothing(tiny, tmp_path):
    """A prompt that is left out of the pooling has no landmark to leave out."""
    landmark = landmark_of(tiny("bert"))
    pooling = LEGACY | {"lmk_token_id": landmark, "include_prompt": False}
    directory = save_modules(tiny("bert"), tmp_path, pooling=pooling, prompts={"query": "q: "})
    encoder, reference = LMKEncoder(directory, dtype="float32"), Reference(directory)
    close(encoder.encode_queries(TEXTS), reference.encode(["q: " + text for text in TEXTS]))


def test_a_prompt_longer_than_a_chunk_warns(tiny, tmp_path):
    """They would put landmarks into the prompt, which here has none."""
    directory = save_modules(tiny("bert"), tmp_path, prompts={"query": CORPUS[0] + " "})
    with pytest.warns(UserWarning, match="would put landmarks into the prompt"):
        encoder = LMKEncoder(directory, dtype="float32")
    assert np.isfinite(encoder.encode_queries(["fox"])).all()


def test_pad_equal_to_the_landmark_keeps_the_landmarks(tiny, tmp_path):
    """Theirs loses them, so that a vector depends on its batch; ours is the same everywhere."""
    directory = save_modules(tiny("bert"), tmp_path)
    settings = json.loads((directory / "tokenizer_config.json").read_text())
    settings["pad_token"] = settings["sep_token"]
    (directory / "tokenizer_config.json").write_text(json.dumps(settings))
    encoder = LMKEncoder(directory, dtype="float32")
    assert encoder.model.tokenizer.pad_id == encoder.model.tokenizer.landmark_id
    found = encoder.encode_documents(TEXTS)
    close(found, Reference(directory, own_pad=True).encode(TEXTS))
    close(found, np.concatenate([encoder.encode_documents([text]) for text in TEXTS]))
    theirs = Reference(directory).encode(TEXTS)
    assert max(cosine(a, b) for a, b in zip(found, theirs, strict=True)) < 0.999


def test_another_token_as_landmark(tiny, tmp_path):
    """lmk_token_id may be any token; then the separator stays and is not pooled."""
    mask = AutoTokenizer.from_pretrained(tiny("modernbert")).mask_token_id
    directory = save_modules(tiny("modernbert"), tmp_path, landmark=mask)
    encoder = LMKEncoder(directory, dtype="float32")
    close(encoder.encode_documents(TEXTS), Reference(directory).encode(TEXTS))
    weights = encoder.encode_landmarks([CORPUS[0]])[0].weights
    assert set(weights.tolist()) == {1}


def test_longer_texts_are_read_on(tiny, tmp_path):
    """Theirs are cut at max_seq_length; here every word counts, in window after window."""
    directory = save_modules(tiny("bert"), tmp_path, max_seq_length=40)
    encoder, reference = LMKEncoder(directory, dtype="float32"), Reference(directory)
    text = "  " + " ".join(WORDS) + " "
    close(reference.encode([text]), reference.encode([text + "harbour"]))
    found, other = encoder.encode_landmarks([text, text + "harbour"])
    assert found.n_windows > 2
    assert cosine(found.vector, other.vector) < 0.9999
    pieces = [text[a:b] for a, b in found.spans]
    assert "".join(pieces) == text.strip()
    # Each window closes with the separator: its last landmark counts twice.
    assert found.weights.sum() == len(found.weights) + found.n_windows


class Source:
    """A text that arrives in small pieces."""

    def __init__(self, text):
        self.text = text

    def pieces(self):
        return (self.text[at : at + 7] for at in range(0, len(self.text), 7))


def test_sections_keep_their_offsets(tiny, tmp_path):
    """White space that is not read shifts nothing, in sections and streams too; that behind a
    prompt is read."""
    directory = save_modules(tiny("modernbert"), tmp_path, prompts={"document": "passage: "})
    text = " \n\t" + CORPUS[0] + "\n\n " + CORPUS[1] + " \n "
    encoder = LMKEncoder(directory, dtype="float32", document_prompt="")
    prompted = LMKEncoder(directory, dtype="float32")
    for own, expected in ((encoder, text.strip()), (prompted, text.rstrip())):
        events = list(own.iter_sections([StreamItem(Source(text))], 16))
        sections = [event for event in events if isinstance(event, SectionEncoding)]
        assert len(sections) > 2
        assert all(section.text == text[section.start : section.end] for section in sections)
        assert "".join(section.text for section in sections) == expected
    whole = encoder.encode_landmarks([text])[0]
    close(whole.vector[None], Reference(directory).encode([text]))


@pytest.mark.parametrize("start", [True, False])
def test_stripped_pieces(start):
    """Pieces in order with their positions, whatever white space lies at or between them."""
    draw = random.Random(0)
    for _ in range(300):
        pieces = [draw.choice(["", " ", "\n ", "a", " b", "c ", "d e"]) for _ in range(6)]
        text = "".join(pieces)
        found = list(stripped(placed(pieces), start=start))
        assert "".join(piece for _, piece in found) == (text.strip() if start else text.rstrip())
        assert all(text[at : at + len(piece)] == piece for at, piece in found)


def test_settings_of_the_transformer(tiny, tmp_path):
    """do_lower_case, and a max_seq_length that is left to the model."""
    directory = save_modules(tiny("modernbert"), tmp_path, do_lower_case=True, max_seq_length=None)
    encoder = LMKEncoder(directory, dtype="float32")
    assert encoder.max_tokens == 2048
    (directory / "sentence_bert_config.json").write_text(
        (directory / "sentence_bert_config.json").read_text().replace("null", "2048")
    )
    expected = Reference(directory).encode([text.lower() for text in TEXTS])
    close(encoder.encode_documents(TEXTS), expected)


@pytest.mark.parametrize(
    "kind",
    [
        TYPE,
        TYPE + ".LandmarkTransformer",
        "sentence_transformers.base.modules.landmark_transformer.LandmarkTransformer",
        "landmark_transformer.LandmarkTransformer",
    ],
)
def test_known_by_the_class_name_and_never_imported(kind, tiny, tmp_path):
    """Wherever the class was saved from; code beside the weights is not run."""
    directory = save_modules(tiny("bert"), tmp_path / "model", kind=kind)
    code = f"open({str(tmp_path / 'ran')!r}, 'w').close()\nclass LandmarkTransformer: pass\n"
    for name in ("landmark_transformer.py", "LandmarkTransformer.py"):
        (directory / name).write_text(code)
    encoder = LMKEncoder(directory, dtype="float32")
    close(encoder.encode_documents(TEXTS[:2]), Reference(directory).encode(TEXTS[:2]))
    assert not (tmp_path / "ran").exists()


def test_the_newer_name_of_a_pooling(tiny, tmp_path):
    """As later versions write one: a mode instead of flags."""
    landmark = landmark_of(tiny("bert"))
    pooling = {"embedding_dimension": WIDTH, "pooling_mode": "lmk", "lmk_token_id": landmark}
    directory = save_modules(tiny("bert"), tmp_path, pooling=pooling)
    close(
        LMKEncoder(directory, dtype="float32").encode_documents(TEXTS),
        Reference(directory).encode(TEXTS),
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"landmark_interval": "absent"}, "lacks landmark_interval"),
        ({"landmark_interval": "absent", "eval_splitter_granularity": 8}, "landmark_interval"),
        ({"landmark_interval": 0}, "landmark_interval must be a whole number above 0"),
        ({"landmark_interval": True}, "landmark_interval must be a whole number above 0"),
        ({"lmk_token_id": -3}, "lmk_token_id must be a whole number from 0"),
        ({"lmk_token_id": 7}, "averages all tokens"),
        ({"lmk_token_id": None}, "averages all tokens"),
        ({"landmark": 999_999}, "the landmark 999999 is no token"),
        ({"landmark": 2}, "puts the landmark 2 around a text"),  # [CLS]
        ({"pooling": LEGACY | {"lmk_token_id": -1}}, "averages all tokens"),
        ({"pooling": LEGACY | {"pooling_mode_mean_tokens": True}}, "pooling"),
        ({"pooling": {"pooling_mode": "mean"}}, "LandmarkTransformer and the pooling 'mean'"),
        ({"kind": "sentence_transformers.models.Transformer"}, "the pooling 'lmk'"),
        ({"kind": "sentence_transformers.models.LandmarkThing"}, "supported are"),
    ],
)
def test_what_is_not_such_a_model_is_refused(changes, message, tiny, tmp_path):
    """No silent fall-back: whatever those modules would compute otherwise is an error."""
    assert landmark_of(tiny("bert")) not in (2, 7)
    directory = save_modules(tiny("bert"), tmp_path, **changes)
    with pytest.raises(ModelError, match=message):
        LMKEncoder(directory)
