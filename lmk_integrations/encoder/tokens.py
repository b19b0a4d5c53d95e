"""The tokenizer's edge: text -> token ids with exact character offsets, nothing baked in."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmk_integrations.errors import DocumentError, ModelError
from lmk_integrations.records import TextSource, pieces_of
from lmk_integrations.text.graphemes import MAX_CLUSTER_CHARS, cluster_starts

Ints = NDArray[np.int64]

_VOCABULARIES = ("tokenizer.json", "vocab.txt", "vocab.json", "*.model", "tekken.json")
_HIDDEN = "\0 \0"  # before a piece's name: normalizers drop or replace at least one of them
_SPACES = np.array([chr(point).isspace() for point in range(0x3002)])  # none lies above

_PART_CHARS = 16  # of a run that is broken up: so an unknown one counts as much as known text

PIECE_CHARS = 1 << 18
"""A text is tokenised in pieces of at most this size: tokens take about 120 bytes per byte."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """ids: (n,) int64; offsets: (n, 2) half-open characters in the text that was tokenised.

    A token's leading white space is not in its range, whatever kind of tokenizer it comes from,
    and no range begins or ends within what a reader sees as one character: the earlier token has
    the whole of it.
    """

    ids: Ints
    offsets: Ints


class Tokenizer:
    """A fast tokenizer without padding, truncation or special tokens.

    prefix, suffix: the special tokens that the model puts around a text.
    landmark_id: the token that was passed, else the separator token, else the end-of-sequence
        token; None if there is none.
    """

    def __init__(
        self, directory: Path, *, lower_case: bool = False, landmark_id: int | None = None
    ) -> None:
        if not any(path for name in _VOCABULARIES for path in directory.glob(name)):
            # transformers would make up an empty vocabulary: every word unknown.
            raise ModelError(f"{directory} holds no tokenizer.json, nor another vocabulary")
        self.landmark_id = landmark_id
        try:
            self._open(directory, lower_case)
        except Exception as error:  # no common base: OSError, ValueError, ImportError, pyo3's
            raise ModelError(f"the tokenizer in {directory} cannot be opened: {error}") from error
        if landmark_id is not None and self._fast.id_to_token(landmark_id) is None:
            raise ModelError(f"the landmark {landmark_id} is no token of {directory}")

    def _open(self, directory: Path, lower_case: bool) -> None:
        from tokenizers import Tokenizer as FastTokenizer
        from tokenizers import normalizers
        from transformers import AutoTokenizer

        loaded: Any = AutoTokenizer.from_pretrained(
            str(directory), trust_remote_code=False, local_files_only=True, use_fast=True
        )
        fast = FastTokenizer.from_str(_special_hidden(loaded.backend_tokenizer.to_str()))
        # tokenizer.json may bake in both; a literal "[SEP]" in a document must stay text.
        fast.no_padding()
        fast.no_truncation()
        fast.encode_special_tokens = True
        if lower_case:
            first = normalizers.Lowercase()
            then = [fast.normalizer] if fast.normalizer is not None else []
            fast.normalizer = normalizers.Sequence([first, *then])
        self._fast = fast
        self._max_word_chars = _max_word_chars(fast)
        self.prefix, self.suffix = _special_frame(fast)
        landmark = loaded.sep_token_id if loaded.sep_token_id is not None else loaded.eos_token_id
        if self.landmark_id is None and landmark is not None:
            self.landmark_id = int(landmark)
        self.pad_id = int(loaded.pad_token_id) if loaded.pad_token_id is not None else 0
        self.unk_id: int | None = loaded.unk_token_id
        self.model_max_length = int(min(loaded.model_max_length, 1 << 30))

    def to_str(self) -> str:
        """The tokenizer as JSON, for its fingerprint."""
        return str(self._fast.to_str())

    def encode(self, text: str) -> Tokens:
        """Tokenise one text. Raises DocumentError where it is not valid Unicode."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[Tokens]:
        """Tokenise several texts at once, in parallel."""
        for text in texts:
            check_unicode(text)
        encodings = self._fast.encode_batch(list(texts), add_special_tokens=False)
        return [
            self._softened(text, _tokens(text, encoding))
            for text, encoding in zip(texts, encodings, strict=True)
        ]

    def _softened(self, text: str, tokens: Tokens) -> Tokens:
        """The tokens, those anew that are unknown only because they are long.

        WordPiece gives up at words of over 100 characters: Thai, Khmer, hex digits, emoji. Such a
        word is read in parts, as if they were separated; all others keep their tokens.
        """
        if self._max_word_chars is not None and self.unk_id is not None:
            unknown = tokens.offsets[tokens.ids == self.unk_id]
            cuts = _part_cuts(text, unknown[self._are_long(text, unknown)])
            if len(cuts):
                parts = [text[a:b] for a, b in itertools.pairwise([0, *cuts, len(text)])]
                spaced = " ".join(parts)
                again = _tokens(spaced, self._fast.encode(spaced, add_special_tokens=False))
                blanks = cuts + np.arange(len(cuts))  # where the spaces are in it
                tokens = Tokens(
                    again.ids, again.offsets - np.searchsorted(blanks, again.offsets, side="left")
                )
        return Tokens(tokens.ids, _whole_clusters(text, tokens.offsets))

    def _are_long(self, text: str, ranges: Ints) -> NDArray[np.bool_]:
        """Which of these words are too long, as the tokenizer counts: after its normalizer."""
        assert self._max_word_chars is not None
        normalizer = self._fast.normalizer
        lengths = [
            len(normalizer.normalize_str(text[a:b]) if normalizer is not None else text[a:b])
            if b - a > _PART_CHARS
            else 0
            for a, b in ranges.tolist()
        ]
        return np.array(lengths, np.int64) > self._max_word_chars


def check_unicode(text: str) -> None:
    """Raise DocumentError at the first lone surrogate: no tokenizer takes one."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise DocumentError(
            f"the text holds a lone surrogate at character {error.start}; repair it first, for "
            "example with lmk_integrations.text.repair.repair(text)",
            "surrogate",
        ) from None


def iter_pieces(text: str | TextSource, limit: int = PIECE_CHARS) -> Iterator[str]:
    """The text again, in pieces of at most ``limit`` characters, cut before white space.

    The cuts depend on the text alone, not on how a source happened to hand it over. A stretch
    of over ``limit`` characters without white space is cut hard.
    """
    held = ""
    for part in pieces_of(text):
        held += part
        begin = 0
        while len(held) - begin > limit:
            cut = _last_space(held, begin, limit)
            yield held[begin:cut]
            begin = cut
        held = held[begin:]
    yield held


def placed(pieces: Iterable[str]) -> Iterator[tuple[int, str]]:
    """(position in the text, piece) of each piece."""
    position = 0
    for piece in pieces:
        yield position, piece
        position += len(piece)


def stripped(pieces: Iterable[tuple[int, str]], *, start: bool = True) -> Iterator[tuple[int, str]]:
    """The pieces without the white space at the text's end and, if ``start``, at its start."""
    held: list[tuple[int, str]] = []  # the last one with text, then white space
    for position, piece in pieces:
        if start:
            position, piece = position + len(piece) - len(piece.lstrip()), piece.lstrip()
        if piece.strip():
            yield from held
            held = []
            start = False
        if held or not start:
            held.append((position, piece))
    position, piece = held[0] if held else (0, "")
    yield position, piece.rstrip()


def _last_space(text: str, begin: int, limit: int) -> int:
    """Where to end the piece from ``begin`` on, so that the next one begins with white space."""
    least, most = begin + limit // 2 + 1, begin + limit
    for near in ("\n", " "):
        cut = text.rfind(near, least, most + 1)
        if cut > 0:
            return cut
    cut = next((i for i in range(most, least - 1, -1) if text[i].isspace()), 0)
    return cut or _last_cluster(text, begin, most)


def _last_cluster(text: str, begin: int, most: int) -> int:
    """The last place before ``most``, or there, that lies between two characters as seen."""
    first = max(begin, most - 2 * MAX_CLUSTER_CHARS)
    starts = np.flatnonzero(cluster_starts(text[first : most + 1])[1:-1])
    return first + 1 + int(starts[-1]) if len(starts) else most


def _max_word_chars(fast: Any) -> int | None:
    """The longest word that a WordPiece model looks at; None: it is of another kind."""
    model = json.loads(fast.to_str())["model"]
    limit = model.get("max_input_chars_per_word") if model.get("type") == "WordPiece" else None
    return None if limit is None else int(limit)


def _part_cuts(text: str, ranges: Ints) -> Ints:
    """Where to cut these ranges, so that no part is much longer than `_PART_CHARS`."""
    found: list[Ints] = [np.empty(0, np.int64)]
    for begin, end in ranges.tolist():
        starts = np.flatnonzero(cluster_starts(text[begin:end])[:-1])
        # The first start in each stretch of so many characters, but for the very first.
        _, firsts = np.unique(starts // _PART_CHARS, return_index=True)
        found.append(begin + starts[firsts[1:]])
    return np.concatenate(found)


def _whole_clusters(text: str, offsets: Ints) -> Ints:
    """Offsets moved on to the next place where the text can be cut."""
    starts = cluster_starts(text)
    if starts.all() or not len(offsets):
        return offsets
    places = np.where(starts, np.arange(len(starts)), len(text))
    following = np.minimum.accumulate(places[::-1])[::-1]
    return np.asarray(following[np.minimum(offsets, len(text))], np.int64)


def _tokens(text: str, encoding: Any) -> Tokens:
    offsets = np.array(encoding.offsets, np.int64).reshape(-1, 2)
    return Tokens(np.array(encoding.ids, np.int64), _trimmed(text, offsets))


def _trimmed(text: str, offsets: Ints) -> Ints:
    """Offsets without the white space before a word that some tokenizers make part of its token.

    Else a sentence would begin one token late: at the first token that starts at or after it.
    """
    characters = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    is_space = _SPACES[np.minimum(characters, len(_SPACES) - 1)]
    # For each character, and the end of the text, the next one that is not white space.
    following = np.where(is_space, len(text), np.arange(len(text)))
    following = np.minimum.accumulate(np.append(following, len(text))[::-1])[::-1]
    starts = following[np.minimum(offsets[:, 0], len(text))]
    kept = starts < offsets[:, 1]  # a token of white space alone stays as it is
    return np.stack([np.where(kept, starts, offsets[:, 0]), offsets[:, 1]], axis=1)


def _special_hidden(description: str) -> str:
    """The tokenizer as JSON, so that no text can spell one of its special tokens.

    `encode_special_tokens` is not enough where such a token is also a piece of the model's own
    vocabulary ("</s>" in XLM-R's): there it gets a name that no text matches. Ids stay.
    """
    tokenizer = json.loads(description)
    model = tokenizer["model"]
    special = {token["content"] for token in tokenizer["added_tokens"] if token["special"]}
    special.discard(model.get("unk_token"))
    vocabulary = model.get("vocab", {})
    if isinstance(vocabulary, list):
        hidden = {entry[0] for entry in vocabulary} & special
        model["vocab"] = [
            [_HIDDEN + piece if piece in hidden else piece, *score] for piece, *score in vocabulary
        ]
    else:
        hidden = set(vocabulary) & special
        model["vocab"] = {
            _HIDDEN + piece if piece in hidden else piece: id_ for piece, id_ in vocabulary.items()
        }
    tokenizer["added_tokens"] = [
        token for token in tokenizer["added_tokens"] if token["content"] not in hidden
    ]
    return json.dumps(tokenizer)


def _special_frame(fast: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The special tokens that the post-processor puts before and after a text."""
    encoding = fast.encode("a", add_special_tokens=True)
    special = [bool(mask) for mask in encoding.special_tokens_mask]
    inner = [i for i, is_special in enumerate(special) if not is_special]
    if not inner:
        return tuple(encoding.ids), ()
    return tuple(encoding.ids[: inner[0]]), tuple(encoding.ids[inner[-1] + 1 :])
