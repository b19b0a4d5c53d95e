"""What is mended in texts, and that nothing else is touched."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmk_integrations import Mark
from lmk_integrations.text.repair import repair, repair_marks, repair_metadata, repair_pieces

ODD = st.text(alphabet=st.sampled_from("ab\0é😀\ud83d\ud800\ude00\udfff\r\n"), max_size=40)


def mended_by_hand(text: str) -> str:
    """Without NUL, character by character: a first half followed by a second one is a pair."""
    text = text.replace("\0", "")
    made, i = "", 0
    while i < len(text):
        one, two = text[i], text[i + 1 : i + 2]
        if "\ud800" <= one <= "\udbff" and two and "\udc00" <= two <= "\udfff":
            made += chr(0x10000 + ((ord(one) - 0xD800) << 10) + (ord(two) - 0xDC00))
            i += 2
        else:
            made += "" if "\ud800" <= one <= "\udfff" else one
            i += 1
    return made


@given(ODD)
def test_a_repaired_text_is_the_text_without_what_is_broken(text: str) -> None:
    """Halves in order become their character, lone ones and NUL go, and all of it is counted."""
    repaired = repair(text)
    assert repaired.text == mended_by_hand(text)
    repaired.text.encode("utf-8")
    removed = repaired.surrogates_paired + repaired.surrogates_dropped + repaired.nul_removed
    assert len(text) - len(repaired.text) == removed
    assert repaired.nul_removed == text.count("\0")


@pytest.mark.parametrize("text", ["", "plain", "naïve 😀 \r\n\t\x1b 中文 \ufeff\u200d"])
def test_a_text_with_nothing_to_mend_is_the_same_object(text: str) -> None:
    """Line ends, control characters, joiners and marks inside a text are its own."""
    repaired = repair(text)
    assert repaired.text is text
    assert repaired.notes == {}


@given(ODD, st.lists(st.integers(0, 40), max_size=6))
def test_pieces_are_repaired_as_the_whole(text: str, cuts: list[int]) -> None:
    """However a text is cut, inside a pair too, the pieces make the same text and counts."""
    places = sorted({0, len(text), *(min(cut, len(text)) for cut in cuts)})
    pieces = [text[a:b] for a, b in pairwise(places)]
    notes: Counter[str] = Counter()
    whole = repair(text)
    assert "".join(repair_pieces(pieces, notes)) == whole.text
    assert dict(notes) == whole.notes
    assert all(repair_pieces(pieces))  # and none of them is empty


def test_marks_move_with_the_text() -> None:
    """A heading is where its first character is after the repair."""
    text = "\0\0One\n\ud83d\ude00Two \ud800\nThree"
    marks = [Mark(text.index(word), "heading", word) for word in ("One", "Two", "Three")]
    moved = repair_marks(text, [*marks, Mark(len(text), "page", "9\0")])
    mended = repair(text).text
    assert [mark.start for mark in moved] == [
        *(mended.index(word) for word in ("One", "Two", "Three")),
        len(mended),
    ]
    assert moved[-1].label == "9"


def test_metadata_is_repaired_all_through() -> None:
    """Keys, values, lists in mappings; what is no text stays as it is."""
    deep: list[object] = []
    for _ in range(5000):
        deep = [deep]
    metadata = {"a\0": ["x\ud800", ("\ud83d\ude00", 1)], "b": {"c": "y\0\0"}, "n": 1.5, "d": deep}
    cleaned, notes = repair_metadata(metadata)
    assert {k: v for k, v in cleaned.items() if k != "d"} == {
        "a": ["x", ("😀", 1)],
        "b": {"c": "y"},
        "n": 1.5,
    }
    assert dict(notes) == {"nul_removed": 3, "surrogates_dropped": 1, "surrogates_paired": 1}
