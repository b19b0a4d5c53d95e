"""Texts of given lengths in tokens: cut from files, or made of a tokenizer's own words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from lmk_integrations.errors import ConfigError
from lmk_integrations.ingest.sources import Sources
from lmk_integrations.records import Failure, pieces_of

_WORD_MARKS = (
    "\u0120\u2581"  # how byte-level and unigram vocabularies write the space before a word
)
_SENTENCE_WORDS = 15
_MADE_WORDS = 40_000
_ZIPF_OFFSET = 2.7
_FEWEST_WORDS = 100


def open_tokenizer(directory: Path) -> Tokenizer:
    """A model's tokenizer that neither cuts nor pads."""
    tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def read_texts(paths: Sequence[Path]) -> str:
    """The text of files and folders, one behind the other. Raises ConfigError if there is none."""
    found = []
    for one in Sources(list(paths)).documents():
        if isinstance(one, Failure):
            raise ConfigError(f"{one.name} cannot be read: {one.message}")
        found.append("".join(pieces_of(one.text)))
    text = "\n\n".join(found)
    if not text.strip():
        raise ConfigError(f"there is no text in {', '.join(map(str, paths))}")
    return text


def made_text(tokenizer: Tokenizer, seed: int) -> str:
    """Words of the vocabulary in sentences; the frequent ones, which come first in it, more often.

    Raises ConfigError for a vocabulary with hardly any Latin words.
    """
    by_id = sorted(tokenizer.get_vocab().items(), key=lambda entry: entry[1])
    stripped = (token.lstrip(_WORD_MARKS) for token, _ in by_id)
    words = [word for word in dict.fromkeys(stripped) if len(word) > 1 and _is_plain(word)]
    if len(words) < _FEWEST_WORDS:
        raise ConfigError(
            f"the model's vocabulary has only {len(words)} plain words to make texts of; name "
            "files to take texts from"
        )
    rng = np.random.default_rng(seed)
    weights = 1.0 / (np.arange(len(words)) + 1 + _ZIPF_OFFSET)
    drawn = rng.choice(len(words), size=_MADE_WORDS, p=weights / weights.sum())
    lines = range(0, _MADE_WORDS, _SENTENCE_WORDS)
    sentences = (" ".join(words[i] for i in drawn[at : at + _SENTENCE_WORDS]) for at in lines)
    return " ".join(f"{sentence.capitalize()}." for sentence in sentences)


def texts_of(tokenizer: Tokenizer, source: str, n_tokens: int, count: int) -> list[str]:
    """So many texts of so many tokens each, one behind the other from the source, again from its
    beginning where it ends."""
    offsets = tokenizer.encode(source, add_special_tokens=False).offsets
    if not offsets:
        raise ConfigError("the source holds no token to make texts of")
    found = []
    at = 0
    for _ in range(count):
        parts = []
        missing = n_tokens
        while missing:
            stop = min(at + missing, len(offsets))
            parts.append(source[offsets[at][0] : offsets[stop - 1][1]])
            missing -= stop - at
            at = stop % len(offsets)
        found.append(" ".join(parts))
    return found


def windows_of(tokenizer: Tokenizer, texts: Iterable[str], n_tokens: int) -> list[str]:
    """Texts cut to at most so many tokens: what an encoder that cuts off the rest must be given
    to read them whole."""
    found = []
    for text in texts:
        offsets = tokenizer.encode(text, add_special_tokens=False).offsets
        for first in range(0, len(offsets), n_tokens):
            last = min(first + n_tokens, len(offsets)) - 1
            found.append(text[offsets[first][0] : offsets[last][1]])
    return found


def count_tokens(tokenizer: Tokenizer, texts: Iterable[str]) -> int:
    """Tokens of texts, special ones apart."""
    return sum(len(tokenizer.encode(text, add_special_tokens=False).ids) for text in texts)


def _is_plain(word: str) -> bool:
    return word.isascii() and word.isalpha()
