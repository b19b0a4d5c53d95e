"""Runs without a space: what WordPiece gives up on is read in parts, with its offsets kept."""

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmk_integrations.encoder import StreamItem
from lmk_integrations.encoder.tokens import Tokenizer, iter_pieces
from lmk_integrations.text.graphemes import cluster_starts

THAI = "ภาษาไทยเป็นภาษาราชการของประเทศไทยและเป็นภาษาแม่ของคนไทยส่วนใหญ่" * 5
KHMER = "ភាសាខ្មែរជាភាសាផ្លូវការរបស់ប្រទេសកម្ពុជា" * 8
HEX = "".join(f"{i * 2654435761 % 2**32:08x}" for i in range(40))
FAMILY = "\U0001f469\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466"
KOREAN = "한국어를공부하는학생들이" * 8  # under 100 characters, over it as the model's letters
RUNS = {"thai": THAI, "khmer": KHMER, "hex": HEX, "emoji": FAMILY * 60, "korean": KOREAN}
KINDS = ["bert", "modernbert", "qwen3", "xlm-roberta"]


@pytest.fixture(scope="module")
def tokenizer(encoder):
    return encoder.model.tokenizer


@pytest.fixture(scope="module")
def others(tiny):
    return {kind: Tokenizer(tiny(kind)) for kind in KINDS}


@pytest.mark.parametrize("name", RUNS)
def test_a_long_run_is_not_one_unknown_token(name, tokenizer):
    """A part of it for each 16 characters or so, and the parts cover it without a gap."""
    run = RUNS[name]
    text = f"Words before, {run} and after."
    offsets = tokenizer.encode(text).offsets
    begin, end = text.index(run), text.index(run) + len(run)
    inside = offsets[(offsets[:, 0] >= begin) & (offsets[:, 1] <= end)]
    assert len(inside) >= len(run) // 40
    assert inside[0, 0] == begin
    assert inside[-1, 1] == end
    assert np.all(inside[1:, 0] <= inside[:-1, 1])
    assert np.diff(inside).max() <= 40


def test_hex_digits_are_read(tokenizer):
    """Nothing of them is unknown: only their number was the matter."""
    ids = tokenizer.encode(HEX).ids
    assert tokenizer.unk_id not in ids
    assert len(ids) > len(HEX) // 4


def test_the_words_around_a_long_run_keep_their_tokens(tokenizer):
    """Those before and behind are the same tokens at the same places, with and without it."""
    before, behind = "The keeper wrote, ", " and the winter went on."
    alone, behind_alone = tokenizer.encode(before), tokenizer.encode(behind)
    found = tokenizer.encode(before + THAI + behind)
    n, m = len(alone.ids), len(behind_alone.ids)
    assert found.ids[:n].tolist() == alone.ids.tolist()
    assert found.offsets[:n].tolist() == alone.offsets.tolist()
    assert found.ids[-m:].tolist() == behind_alone.ids.tolist()
    assert (found.offsets[-m:] - len(before + THAI)).tolist() == behind_alone.offsets.tolist()


@pytest.mark.parametrize(
    "text", ["a" * 100, "supercalifragilistic " * 30, "https://a.org/" + "b/" * 99]
)
def test_what_wordpiece_reads_is_left_alone(text, tokenizer):
    """Words of up to 100 characters, however many stand in a row, keep the model's own tokens."""
    fast = tokenizer._fast.encode(text, add_special_tokens=False)
    assert tokenizer.encode(text).ids.tolist() == fast.ids


@pytest.mark.parametrize("kind", ["modernbert", "qwen3", "xlm-roberta"])
def test_tokenizers_without_a_limit_are_left_alone(kind, others):
    """Byte-level BPE and Unigram read any run: nothing is put in between."""
    for run in RUNS.values():
        fast = others[kind]._fast.encode(run, add_special_tokens=False)
        assert others[kind].encode(run).ids.tolist() == fast.ids


def test_the_share_of_unknown_tokens_tells_how_much_text_is_unknown(encoder):
    """Half Thai, half English: about as many unknown tokens as known ones, not one."""
    english = "The keeper of the light wrote a letter to his sister in the town. " * 5
    done = list(encoder.plan_only([StreamItem(english + THAI)], 1024))[-1]
    assert 0.15 < done.n_unk / done.n_tokens < 0.6


alphabet = st.sampled_from(
    ["a", " ", "\n", "\u0301", "\u200d", "\U0001f469", "\U0001f1eb", "ที่", "!"]
)


@pytest.mark.parametrize("kind", ["default", *KINDS])
@settings(max_examples=60, deadline=None)
@given(text=st.lists(alphabet | st.sampled_from([THAI[:120], FAMILY * 12, HEX])).map("".join))
def test_no_token_begins_or_ends_within_a_character_as_seen(kind, others, tokenizer, text):
    """So no landmark, section or passage does."""
    chosen = tokenizer if kind == "default" else others[kind]
    offsets = chosen.encode(text).offsets
    assert cluster_starts(text)[offsets].all()
    assert np.all(offsets[:, 0] <= offsets[:, 1])
    assert np.all(offsets <= len(text))


@pytest.mark.parametrize("cluster", [FAMILY, "e\u0301\u0302", "🇫🇷"])
def test_a_piece_ends_between_characters_as_seen(cluster):
    """A text without white space is cut hard, but never within one of them."""
    text = cluster * 200
    pieces = list(iter_pieces(text, limit=100))
    assert "".join(pieces) == text
    assert len(pieces) > 3
    assert all(len(piece) % len(cluster) == 0 for piece in pieces)


def test_a_megabyte_without_a_space_takes_no_quadratic_time(tokenizer):
    """A million characters of Thai in about the time of a million others."""
    begin = time.process_time()
    found = tokenizer.encode((THAI * 3500)[: 1 << 20])
    assert len(found.ids) > 50_000
    assert time.process_time() - begin < 20
