"""Surrogates and NUL are mended and counted, and nothing else is touched."""

import itertools
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from lmk_integrations import Mark
from lmk_integrations.text.repair import repair, repair_marks, repair_metadata, repair_pieces

any_text = st.text(st.characters(exclude_categories=()))
damaged = st.text(st.sampled_from("a\0\ud83d\ude00\ud800é😀\r\n"))


def test_a_sound_text_comes_back_as_the_same_object():
    """The fast path copies nothing."""
    for text in ("", "plain", "naïve 😀 👩‍👩‍👧 e\u0301 \ufffd\ufeff\r\n"):
        assert repair(text).text is text
        assert repair(text).notes == {}


def test_pairs_are_joined_and_lone_halves_dropped():
    """Halves that belong together are the character they were; the rest cannot be stored."""
    repaired = repair("a\ud83d\ude00b\ude00\ud83dc\0d\0")
    assert repaired.text == "a😀bcd"
    assert repaired.notes == {"surrogates_paired": 1, "surrogates_dropped": 2, "nul_removed": 2}


def test_halves_that_a_nul_parted_are_joined():
    """NUL goes first."""
    assert repair("\ud83d\0\ude00").text == "😀"


def mended_by_hand(text):
    """Character by character: a first half followed by a second one is a pair."""
    text = text.replace("\0", "")
    made, i = "", 0
    while i < len(text):
        one, two = text[i], text[i + 1 : i + 2]
        if "\ud800" <= one <= "\udbff" and "\udc00" <= two <= "\udfff":
            made += chr(0x10000 + ((ord(one) - 0xD800) << 10) + (ord(two) - 0xDC00))
            i += 1
        elif not "\ud800" <= one <= "\udfff":
            made += one
        i += 1
    return made


@given(damaged | any_text)
def test_a_repair_does_no_more_and_counts_all_it_does(text):
    """The same as by hand, and the counts make up the difference in length."""
    repaired = repair(text)
    assert repaired.text == mended_by_hand(text)
    assert len(text) - len(repaired.text) == sum(repaired.notes.values())


@given(damaged | any_text)
def test_a_repaired_text_can_be_stored_and_stays(text):
    """It is valid Unicode without NUL, and repairing it again changes nothing."""
    repaired = repair(text).text
    assert "\0" not in repaired
    assert repaired.encode("utf-8").decode("utf-8") == repaired
    assert repair(repaired).text is repaired


@given(damaged, st.lists(st.integers(0, 20), max_size=5))
def test_pieces_together_are_the_repaired_whole(text, cuts):
    """However a text is cut, within a pair too, the text and the counts are the same."""
    places = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    pieces = [text[a:b] for a, b in itertools.pairwise(places)]
    notes: Counter[str] = Counter()
    assert "".join(repair_pieces(pieces, notes)) == repair(text).text
    assert dict(notes) == repair(text).notes


def test_marks_move_with_their_text():
    """A mark points at the same character after the repair."""
    text = "\0ab\0\ud83d\ude00\ud800cd"
    marks = [Mark(1, "page", "1"), Mark(text.index("c"), "heading", "c\0d")]
    moved = repair_marks(text, marks)
    repaired = repair(text).text
    assert [repaired[mark.start] for mark in moved] == ["a", "c"]
    assert moved[1].label == "cd"


def test_metadata_is_mended_at_every_depth():
    """Keys and values, in lists too; other values stay what they are."""
    metadata = {"a\0": ["x\ud800", {"y": ("\ud83d\ude00", 1, None)}], "n": 2.5}
    repaired, notes = repair_metadata(metadata)
    assert repaired == {"a": ["x", {"y": ("😀", 1, None)}], "n": 2.5}
    assert notes == {"nul_removed": 1, "surrogates_dropped": 1, "surrogates_paired": 1}
