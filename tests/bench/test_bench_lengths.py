"""Texts of given lengths: as many tokens as asked for, whatever they are cut from."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

sys.path.insert(0, str(Path(__file__).parent.parent / "encoder"))

from tiny_models import build_tiny

from lmk_integrations.bench.lengths import (
    count_tokens,
    made_text,
    open_tokenizer,
    read_texts,
    texts_of,
    windows_of,
)
from lmk_integrations.errors import ConfigError


def whole_words(vocabulary: list[str]) -> Tokenizer:
    """A tokenizer for which a word is a token."""
    ids = {word: number for number, word in enumerate(["?", *vocabulary])}
    tokenizer = Tokenizer(models.WordLevel(ids, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return tokenizer


def test_texts_follow_one_another():
    """Each goes on where the one before ended; the source begins again where it ends."""
    tokenizer = whole_words(["a", "b", "c", "d", "e"])
    assert texts_of(tokenizer, "a b c  d e", 3, 3) == ["a b c", "d e a", "b c  d"]
    assert texts_of(tokenizer, "a b", 5, 1) == ["a b a b a"]
    with pytest.raises(ConfigError, match="no token"):
        texts_of(tokenizer, "  ", 3, 1)


def test_windows_lose_nothing():
    """Pieces of at most so many tokens; a text that fits stays as it is."""
    tokenizer = whole_words(["a", "b", "c", "d", "e"])
    assert windows_of(tokenizer, ["a b c  d e", "a"], 2) == ["a b", "c  d", "e", "a"]
    assert windows_of(tokenizer, ["a b c  d e"], 5) == ["a b c  d e"]
    assert count_tokens(tokenizer, ["a b", "c"]) == 3


def test_made_texts_are_a_tokens_a_word():
    """The frequent words are the first of the vocabulary; pieces and other scripts are not used."""
    words = [f"w{chr(97 + i // 26)}{chr(97 + i % 26)}" for i in range(200)]
    tokenizer = whole_words([*words, "##ing", "x1", "слово", "q", "Ġspaced"])
    text = made_text(tokenizer, seed=3)
    assert text == made_text(tokenizer, seed=3) != made_text(tokenizer, seed=4)
    found = text.lower().replace(".", "").split()
    assert len(found) == 40_000
    assert set(found) <= {*words, "spaced"}
    assert found.count("waa") > 5 * found.count("whr")
    with pytest.raises(ConfigError, match="only 1 plain words"):
        made_text(whole_words(["one", "2"]), seed=0)


def test_a_models_tokenizer_neither_cuts_nor_pads(tmp_path):
    """Though its file says that it should."""
    tokenizer = open_tokenizer(build_tiny("bert", tmp_path / "m", baked=True))
    assert len(tokenizer.encode("river " * 40, add_special_tokens=False).ids) >= 40
    assert len(tokenizer.encode("river", add_special_tokens=False).ids) < 6


def test_texts_of_files(tmp_path):
    """All files of a folder, in order; nothing to read is an error that names it."""
    (tmp_path / "b.txt").write_text("second")
    (tmp_path / "a.md").write_text("first")
    assert read_texts([tmp_path]) == "first\n\nsecond"
    (tmp_path / "c.txt").write_text(" ")
    with pytest.raises(ConfigError, match=r"c\.txt"):
        read_texts([tmp_path / "c.txt"])
