"""Every supported family gives what transformers gives, one text at a time."""

import numpy as np
import pytest
from plain import PlainModel, cosine
from tiny_models import CORPUS, KINDS, POSITIONS, WIDTH

from lmk_integrations.encoder import LMKEncoder

POOLINGS = ("lmk", "mean", "cls", "last")
GRANULARITY = 8

SHORT = [
    "",
    "fox",
    CORPUS[0],
    CORPUS[3],
    "One.\n\nTwo \U0001f600 three. 你好。",
    " leading and trailing  ",
]
LONG = [" ".join(CORPUS * 3)[:n] for n in (700, 1500, 3000)]

pytestmark = pytest.mark.filterwarnings("ignore:.*was not trained for landmarks")


def limit(kind):
    return POSITIONS.get(kind, 128)


@pytest.fixture(scope="module", params=KINDS)
def family(request, tiny):
    return request.param, PlainModel(request.param, tiny(request.param), limit(request.param))


@pytest.mark.parametrize("pooling", POOLINGS)
def test_a_family_equals_the_plain_computation(family, tiny, pooling):
    """Vectors and landmarks of short and long texts, batched, equal the plain ones."""
    kind, plain = family
    encoder = LMKEncoder(tiny(kind), pooling=pooling, granularity=GRANULARITY, dtype="float32")
    assert encoder.max_tokens == limit(kind)
    texts = SHORT + LONG
    encodings = encoder.encode_landmarks(texts)
    vectors = encoder.encode_documents(texts)
    assert vectors.shape == (len(texts), WIDTH)
    assert vectors.dtype == np.float32
    for text, encoding, vector in zip(texts, encodings, vectors, strict=True):
        expected = plain.encode(text, pooling, GRANULARITY)
        assert encoding.n_windows == expected.n_windows
        assert len(encoding.landmarks) == len(encoding.spans) == len(expected.rows)
        assert cosine(encoding.vector, expected.vector) > 0.99999
        assert cosine(vector, expected.vector) > 0.99999
        assert abs(np.linalg.norm(vector) - 1) < 1e-5
        np.testing.assert_allclose(encoding.landmarks, expected.rows, atol=2e-4)
    if limit(kind) < 200:
        assert max(encoding.n_windows for encoding in encodings) > 3
    # The comparison can fail: the vectors differ, unless a decoder's first token is always [BOS].
    if (kind, pooling) != ("llama", "cls"):
        assert cosine(vectors[1], vectors[2]) < 0.99


@pytest.mark.parametrize("kind", KINDS)
def test_no_token_is_lost_or_read_twice(kind, tiny):
    """The chunks hold exactly the text's tokens, and spans tile the text from first to last."""
    encoder = LMKEncoder(tiny(kind), pooling="mean", granularity=GRANULARITY, dtype="float32")
    plain = PlainModel(kind, tiny(kind), limit(kind))
    for text, encoding in zip(LONG, encoder.encode_landmarks(LONG), strict=True):
        ids = plain.tokenizer(text, add_special_tokens=False)["input_ids"]
        assert encoding.n_tokens == len(ids) == encoding.chunk_tokens.sum()
        pieces = [text[a:b] for a, b in encoding.spans]
        assert "".join(pieces) == text.strip()


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("kind", KINDS)
def test_batches_do_not_show(kind, pooling, tiny):
    """The same vectors one window at a time and in large batches, in any order."""
    texts = [text[:n] for n in (0, 10, 37, 90) for text in CORPUS[:4]] + [LONG[2]]
    order = np.random.default_rng(1).permutation(len(texts))
    make = {"pooling": pooling, "granularity": GRANULARITY, "dtype": "float32"}
    alone = LMKEncoder(tiny(kind), token_budget=1, **make).encode_documents(texts)
    for budget in (200, 4096):
        encoder = LMKEncoder(tiny(kind), token_budget=budget, **make)
        shuffled = encoder.encode_documents([texts[i] for i in order])
        np.testing.assert_allclose(shuffled, alone[order], atol=5e-6)


@pytest.mark.parametrize("kind", ["bert", "qwen3"])
def test_bfloat16_is_near(kind, tiny):
    """The fast dtype gives nearly the same vectors."""
    full, half = (
        LMKEncoder(tiny(kind), pooling="mean", dtype=dtype).encode_documents(LONG)
        for dtype in ("float32", "bfloat16")
    )
    assert min(cosine(a, b) for a, b in zip(full, half, strict=True)) > 0.995


def test_baked_in_padding_and_truncation_are_off(tiny):
    """The tiny BERT's tokenizer.json pads to 64 and cuts at 16 tokens: neither must happen."""
    encoder = LMKEncoder(tiny("bert"), pooling="mean", dtype="float32")
    short, long = encoder.encode_landmarks(["fox", LONG[0]])
    assert short.n_tokens < 5
    assert long.n_tokens > 100


def test_max_tokens_and_granularity_are_obeyed(tiny):
    """A smaller window than the model's, and other chunks, are still the plain computation."""
    plain = PlainModel("bert", tiny("bert"), 60)
    encoder = LMKEncoder(
        tiny("bert"), pooling="lmk", granularity=13, max_tokens=60, dtype="float32"
    )
    found = encoder.encode_landmarks(LONG[:1])[0]
    expected = plain.encode(LONG[0], "lmk", 13)
    assert found.n_windows == expected.n_windows > 2
    np.testing.assert_allclose(found.landmarks, expected.rows, atol=2e-4)


@pytest.mark.parametrize("pooling", ["lmk", "mean"])
@pytest.mark.parametrize("kind", ["bert", "xlm-roberta", "qwen3"])
def test_a_document_prompt_begins_every_window(kind, pooling, tiny):
    """The prompt's tokens stand behind [CLS] in each window, and its landmarks see them."""
    prompt = "passage: "
    encoder = LMKEncoder(
        tiny(kind), pooling=pooling, granularity=8, document_prompt=prompt, dtype="float32"
    )
    plain = PlainModel(kind, tiny(kind), limit(kind))
    text = "@~" + LONG[1]  # no token spans the border
    joint = plain.tokenizer(prompt + text, add_special_tokens=False)["input_ids"]
    found = encoder.encode_landmarks([text])[0]
    of_prompt = len(joint) - found.n_tokens
    assert of_prompt > 1
    assert (
        joint[of_prompt:][-20:]
        == plain.tokenizer(text, add_special_tokens=False)["input_ids"][-20:]
    )
    plain.before = [*plain.before, *joint[:of_prompt]]
    own = joint[of_prompt:]
    expected = plain.encode_chunks([own[i : i + 8] for i in range(0, len(own), 8)], pooling)
    assert found.n_windows == expected.n_windows > 1
    np.testing.assert_allclose(found.landmarks, expected.rows, atol=2e-4)
    assert cosine(found.vector, expected.vector) > 0.99999
    assert "".join(text[a:b] for a, b in found.spans) == text


@pytest.mark.parametrize("pooling", ["lmk", "mean"])
def test_overlap_is_context_only(pooling, tiny):
    """Each landmark is given once, also with overlap; later windows see more, so rows change."""
    texts = LONG[:2]
    plain, overlapping = (
        LMKEncoder(
            tiny("roberta"),
            pooling=pooling,
            granularity=GRANULARITY,
            overlap_tokens=overlap,
            dtype="float32",
        ).encode_landmarks(texts)
        for overlap in (0, 24)
    )
    for a, b in zip(plain, overlapping, strict=True):
        assert a.spans.tolist() == b.spans.tolist()
        assert a.chunk_tokens.tolist() == b.chunk_tokens.tolist()
        assert b.n_windows >= a.n_windows
        assert not np.allclose(a.landmarks, b.landmarks, atol=1e-3)


def test_overlap_equals_a_plain_window_with_context(tiny):
    """A later window gives the states of the plain input that also holds the chunks before it."""
    encoder = LMKEncoder(
        tiny("roberta"), pooling="lmk", granularity=8, overlap_tokens=18, dtype="float32"
    )
    plain = PlainModel("roberta", tiny("roberta"), 128)
    text = "".join(np.random.default_rng(0).choice(list("@~{}|^"), 192))  # one token each
    chunks = plain.chunks(text, 8)
    assert len(chunks) == 24
    # A chunk takes 9 of the 127 positions, so 14 fit; 18 positions of context are two chunks.
    first, _, _ = plain.window(chunks[:12], "lmk")
    second, _, _ = plain.window(chunks[10:], "lmk")
    found = encoder.encode_landmarks([text])[0]
    assert found.n_windows == 2
    np.testing.assert_allclose(found.landmarks, [*first, *second[2:]], atol=2e-4)
