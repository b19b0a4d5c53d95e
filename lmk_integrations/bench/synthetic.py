"""A made-up corpus of any size: texts with real postings, vectors with real neighbours.

All follows from a seed. Words are drawn by Zipf's law, so BM25 meets frequent and rare ones as in
English; vectors are a centre, a document's, a section's and a landmark's own part, so that each
has near and far neighbours.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmk_integrations.core.pooling import l2_normalize
from lmk_integrations.encoder.identity import digest_of
from lmk_integrations.encoder.plain import PlainSpace
from lmk_integrations.encoder.records import SectionEncoding, TextDone
from lmk_integrations.encoder.settings import check_range
from lmk_integrations.encoder.stream import Event, StreamItem
from lmk_integrations.records import Document, pieces_of

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]

SECTIONS_PER_DOCUMENT = 4
LANDMARKS_PER_SECTION = (8, 16)
WORDS_PER_LANDMARK = 24  # about 32 tokens

_VOCABULARY = 50_000
_ZIPF_OFFSET = 2.7  # Mandelbrot's
_SENTENCE_WORDS = 15
_SECTION_END = "\n\n"
_CENTRES = 256
# How far apart: documents around a centre, sections around a document, landmarks around a section.
_STEPS = (1.0, 0.7, 0.7)
_QUERY_STEP = 1.0
_QUERY_WORDS = (3, 8)
_FREQUENT = tuple(
    word
    for line in (
        "the of and to in a is that it was for on are as with his they at be this from have or",
        "by one had not but what all were when we there can an your which their if will each",
    )
    for word in line.split()
)
_WORD = re.compile(r"\S+")
_CONSONANTS = "bdfgklmnprstvz"
_VOWELS = "aeiou"


@dataclass(frozen=True, slots=True)
class CorpusSpec:
    """sections: of the whole corpus; dim: of its vectors."""

    sections: int
    seed: int = 0
    dim: int = 384

    def __post_init__(self) -> None:
        check_range("sections", self.sections, 1, 100_000_000)
        check_range("dim", self.dim, 1, 1 << 16)

    def to_dict(self) -> dict[str, int]:
        """The fields by name."""
        return asdict(self)


@dataclass(frozen=True, slots=True, eq=False)
class MadeSection:
    """A section of a made-up text: ``text[start:end]``, with a row for each of its landmarks."""

    start: int
    end: int
    spans: Ints
    rows: Floats


@dataclass(frozen=True, slots=True, eq=False)
class MadeQuery:
    """A few words of one section, and a vector near one of its landmarks."""

    text: str
    vector: Floats
    doc_id: str
    section: int


class SyntheticCorpus:
    """Texts by number, and queries whose section is known."""

    def __init__(self, spec: CorpusSpec) -> None:
        self.spec = spec
        self.n_documents = -(-spec.sections // SECTIONS_PER_DOCUMENT)
        self._words = _vocabulary()
        weights = 1.0 / (np.arange(_VOCABULARY) + 1 + _ZIPF_OFFSET)
        self._cumulated = np.cumsum(weights / weights.sum())

    def doc_id(self, number: int) -> str:
        """A document's id."""
        return f"made/{number:07}"

    def text(self, number: int) -> str:
        """A document's text, the same at every call."""
        rng = np.random.default_rng([self.spec.seed, number])
        first = number * SECTIONS_PER_DOCUMENT
        n_sections = min(SECTIONS_PER_DOCUMENT, self.spec.sections - first)
        return _SECTION_END.join(self._section(rng) for _ in range(n_sections))

    def documents(self) -> Iterator[Document]:
        """All documents."""
        for number in range(self.n_documents):
            yield Document(self.text(number), id=self.doc_id(number))

    def queries(self, count: int) -> list[MadeQuery]:
        """So many queries, each made from a section drawn at random."""
        rng = np.random.default_rng([self.spec.seed, 1 << 40])
        return [self._query(rng) for _ in range(count)]

    def _section(self, rng: np.random.Generator) -> str:
        low, high = LANDMARKS_PER_SECTION
        count = int(rng.integers(low, high + 1)) * WORDS_PER_LANDMARK
        ranks = np.searchsorted(self._cumulated, rng.random(count)).clip(max=_VOCABULARY - 1)
        words = [self._words[rank] for rank in ranks]
        sentences = (words[i : i + _SENTENCE_WORDS] for i in range(0, count, _SENTENCE_WORDS))
        return " ".join(f"{' '.join(sentence).capitalize()}." for sentence in sentences)

    def _query(self, rng: np.random.Generator) -> MadeQuery:
        number = int(rng.integers(self.n_documents))
        text = self.text(number)
        sections = SyntheticEncoder(self.spec).sections(text)
        ordinal = int(rng.integers(len(sections)))
        section = sections[ordinal]
        words = set(text[section.start : section.end].lower().replace(".", "").split())
        rare = sorted(words - set(_FREQUENT))
        low, high = _QUERY_WORDS
        asked = rng.choice(rare, size=int(rng.integers(low, high + 1)), replace=False)
        near = section.rows[int(rng.integers(len(section.rows)))]
        noise = l2_normalize(rng.standard_normal(self.spec.dim, np.float32))
        vector = l2_normalize(l2_normalize(near) + _QUERY_STEP * noise)
        return MadeQuery(" ".join(asked), vector, self.doc_id(number), ordinal)


class SyntheticEncoder:
    """Takes a made-up text apart and invents its vectors: a `DocumentEncoder` that costs little.

    A text's vectors follow from its characters, as an encoder's do.
    """

    model_name = "synthetic"
    has_landmarks = True
    default_section_tokens = 512
    max_section_tokens = 512

    def __init__(self, spec: CorpusSpec) -> None:
        self.dim = spec.dim
        self._centres = _centres(spec.dim)

    @property
    def space_parts(self) -> PlainSpace:
        """Its name and dimensions."""
        return PlainSpace({"model": self.model_name, "dim": self.dim})

    @property
    def fingerprint(self) -> str:
        """Digest of `fingerprint_parts` (hex)."""
        return digest_of(self.fingerprint_parts)

    @property
    def fingerprint_parts(self) -> Mapping[str, Any]:
        """The space: all there is."""
        return {"space": self.space_parts.to_dict()}

    def encode_queries(self, texts: Sequence[str], /) -> Floats:
        """The vectors of texts as if each were a document, (n, dim)."""
        rows = [self.sections(text)[0].rows.mean(axis=0) for text in texts]
        return np.stack([l2_normalize(row) for row in rows])

    def sections(self, text: str) -> list[MadeSection]:
        """The sections of a text with their landmarks, not normalised."""
        rng = np.random.default_rng(zlib.crc32(text.encode()))
        document = self._centres[rng.integers(_CENTRES)] + _STEPS[0] * self._noise(rng)
        found = []
        start = 0
        for part in text.split(_SECTION_END):
            spans = _chunks(part) + start
            centre = document + _STEPS[1] * self._noise(rng)
            rows = centre + _STEPS[2] * self._noise(rng, len(spans))
            found.append(MadeSection(start, start + len(part), spans, rows))
            start += len(part) + len(_SECTION_END)
        return found

    def iter_sections(
        self,
        items: Iterable[StreamItem],
        section_tokens: int | None,
        *,
        cancelled: Callable[[], bool] | None = None,
    ) -> Iterator[Event]:
        """The sections of each text, then its TextDone. section_tokens, cancelled: not used."""
        for index, item in enumerate(items):
            text = "".join(pieces_of(item.text))
            n_tokens = 0
            made = self.sections(text)
            for ordinal, section in enumerate(made):
                encoding = _encoding(index, ordinal, text, section)
                n_tokens += encoding.n_tokens
                yield encoding
            yield TextDone(index, len(made), n_tokens, 0)

    def _noise(self, rng: np.random.Generator, count: int | None = None) -> Floats:
        """Directions drawn at random, of length about one."""
        shape = self.dim if count is None else (count, self.dim)
        drawn = rng.standard_normal(shape, np.float32) / np.float32(np.sqrt(self.dim))
        return np.asarray(drawn, np.float32)


def pooled(section: MadeSection) -> Floats:
    """A section's own vector, of unit length."""
    return l2_normalize(section.rows.mean(axis=0))


def _encoding(index: int, ordinal: int, text: str, section: MadeSection) -> SectionEncoding:
    chunk_tokens = np.full(len(section.rows), 32, np.int64)
    return SectionEncoding(
        index=index,
        ordinal=ordinal,
        start=section.start,
        end=section.end,
        text=text[section.start : section.end],
        heading=None,
        page=None,
        marks=(),
        spans=section.spans,
        chunk_tokens=chunk_tokens,
        n_tokens=int(chunk_tokens.sum()),
        n_unk=0,
        n_windows=1,
        vector=pooled(section),
        landmarks=section.rows,
        weights=np.ones(len(section.rows), np.float32),
        pooled=section.rows.sum(axis=0, dtype=np.float64),
    )


def _chunks(section: str) -> Ints:
    """Spans that tile a section, so many words each."""
    starts = [word.start() for word in _WORD.finditer(section)][::WORDS_PER_LANDMARK] or [0]
    starts[0] = 0
    return np.stack([starts, [*starts[1:], len(section)]], axis=1).astype(np.int64)


@lru_cache(maxsize=1)
def _vocabulary() -> list[str]:
    """Words by rank: the usual frequent ones, then made-up ones, the rarer the longer."""
    syllables = [consonant + vowel for consonant in _CONSONANTS for vowel in _VOWELS]
    made = (_spelled(number, syllables) for number in range(_VOCABULARY - len(_FREQUENT)))
    return [*_FREQUENT, *made]


def _spelled(number: int, syllables: Sequence[str]) -> str:
    """A number in syllables as digits, two of them at least: no stop word is made up."""
    word = ""
    while number or len(word) < 4:
        number, digit = divmod(number, len(syllables))
        word = syllables[digit] + word
    return word


@lru_cache(maxsize=1)
def _centres(dim: int) -> Floats:
    drawn = np.random.default_rng(7).standard_normal((_CENTRES, dim), np.float32)
    return np.asarray(drawn / np.float32(np.sqrt(dim)), np.float32)
