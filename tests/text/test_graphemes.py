"""A text is cut between what a reader sees as characters, never within one."""

import itertools
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmk_integrations.text.graphemes import MAX_CLUSTER_CHARS, cluster_starts


def clusters(text):
    starts = [at for at, is_start in enumerate(cluster_starts(text)) if is_start]
    return [text[a:b] for a, b in itertools.pairwise(starts)]


@pytest.mark.parametrize(
    "expected",
    [
        ["a", "b", " ", "c"],
        ["\U0001f469\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466", "\U0001f600", "x"],
        ["\U0001f44d\U0001f3fd", "\u2764\ufe0f", "1\ufe0f\u20e3"],
        ["\U0001f1eb\U0001f1f7", "\U0001f1e9\U0001f1ea", "\U0001f1ef", "a", "\U0001f1ef\U0001f1f5"],
        ["\U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f", "!"],
        ["e\u0301", "o\u0308\u0304", "n"],
        ["กำ", "ที่", "สุ", "ด"],
        ["한", "\u1112\u1161\u11ab", "국"],
        ["न", "म", "स्", "ते"],
        ["a", "\r\n", "\n", "\r", "b"],
        ["\n", "\u0301", "x\u200d", " ", "y"],
        ["\U0002f800", "漢", "字"],
    ],
)
def test_clusters(expected):
    """Emoji of several parts, flags, tags, marks, Thai, Hangul, Devanagari and line ends."""
    assert clusters("".join(expected)) == expected


@given(st.text(st.characters(exclude_categories=()) | st.sampled_from("a\u200d\u0301\r\n🇫🇷👩")))
def test_clusters_tile_any_text(text):
    """Together they are the text, none is empty, none is longer than the limit."""
    found = clusters(text)
    assert "".join(found) == text
    assert all(1 <= len(cluster) <= MAX_CLUSTER_CHARS for cluster in found)
    assert len(cluster_starts(text)) == len(text) + 1


@pytest.mark.parametrize("text", ["e" + "\u0301" * 500_000, "👩\u200d" * 250_000, "🇫" * 500_000])
def test_an_endless_cluster_is_cut(text):
    """Half a million marks are no character of half a million; and it takes no time."""
    begin = time.process_time()
    assert max(map(len, clusters(text))) <= MAX_CLUSTER_CHARS
    assert time.process_time() - begin < 2
