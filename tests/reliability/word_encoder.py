"""An encoder that costs nothing and is the same in every process, and a corpus for it."""

from __future__ import annotations

import hashlib
import random
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from lmk_integrations import Document
from lmk_integrations.core.pooling import l2_normalize, weighted_sum
from lmk_integrations.encoder import EncodingCancelled, SectionEncoding, TextDone
from lmk_integrations.encoder.plain import PlainSpace
from lmk_integrations.encoder.stream import StreamItem
from lmk_integrations.records import pieces_of

_WORD = re.compile(r"\S+\s*")
_WORDS_PER_LANDMARK = 4
_WORDS = ("amber", "river", "keeper", "stone", "winter", "garden", "letter", "harbour", "candle")


class WordEncoder:
    """Words are tokens; a landmark's vector depends on its words alone.

    delay_s: how long a section takes. sections: those that were encoded, as (text, ordinal).
    """

    model_name = "words"
    has_landmarks = True
    default_section_tokens = 32
    max_section_tokens = 1 << 16

    def __init__(self, dim: int = 8, delay_s: float = 0.0) -> None:
        self.dim = dim
        self.sections: list[tuple[int, int]] = []
        self._delay_s = delay_s

    @property
    def space_parts(self) -> PlainSpace:
        return PlainSpace({"model": "words", "dim": self.dim})

    @property
    def fingerprint_parts(self) -> dict[str, Any]:
        return {"space": self.space_parts.to_dict()}

    @property
    def fingerprint(self) -> str:
        return f"words-{self.dim}"

    def encode_queries(self, texts: Sequence[str], /) -> Any:
        return np.stack([self._vector(text) for text in texts])

    def iter_sections(
        self,
        items: Iterable[StreamItem],
        section_tokens: int | None,
        *,
        cancelled: Callable[[], bool] | None = None,
    ) -> Iterator[Any]:
        size = section_tokens or self.default_section_tokens
        for index, item in enumerate(items):
            text = "".join(pieces_of(item.text))
            words = [match.span() for match in _WORD.finditer(text)]
            end_of_text = len(text.rstrip())
            firsts = range(0, len(words), size)
            for ordinal, first in enumerate(firsts):
                if cancelled is not None and cancelled():
                    raise EncodingCancelled("cancelled between two sections")
                spans = [list(span) for span in words[first : first + size]]
                spans[-1][1] = min(spans[-1][1], end_of_text)
                wanted = item.wanted is None or item.wanted(ordinal)
                yield self._section(index, ordinal, text, spans, wanted=wanted)
            yield TextDone(index, len(firsts), len(words), 0)

    def _section(
        self, index: int, ordinal: int, text: str, words: list[list[int]], *, wanted: bool
    ) -> SectionEncoding:
        runs = [
            words[i : i + _WORDS_PER_LANDMARK] for i in range(0, len(words), _WORDS_PER_LANDMARK)
        ]
        spans = np.array([[run[0][0], run[-1][1]] for run in runs], np.int64)
        start, end = words[0][0], words[-1][1]
        landmarks = weights = pooled = None
        if wanted:
            self.sections.append((index, ordinal))
            if self._delay_s:
                time.sleep(self._delay_s)
            landmarks = np.stack([self._vector(text[a:b]) for a, b in spans])
            weights = np.ones(len(spans), np.float32)
            pooled = weighted_sum(landmarks, weights)
        return SectionEncoding(
            index=index,
            ordinal=ordinal,
            start=start,
            end=end,
            text=text[start:end],
            heading=None,
            page=None,
            marks=(),
            spans=spans,
            chunk_tokens=np.array([len(run) for run in runs], np.int64),
            n_tokens=len(words),
            n_unk=0,
            n_windows=1,
            vector=None if pooled is None else l2_normalize(pooled.astype(np.float32)),
            landmarks=landmarks,
            weights=weights,
            pooled=pooled,
        )

    def _vector(self, text: str) -> Any:
        seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")
        return np.random.default_rng(seed).standard_normal(self.dim).astype(np.float32)


def prose(seed: int, words: int) -> str:
    """So many words, with some white space around."""
    rng = random.Random(seed)
    return f"  {' '.join(rng.choice(_WORDS) + str(rng.randrange(99)) for _ in range(words))}\n"


def corpus(small: int = 30, long: int = 2, sections: int = 40) -> list[Document]:
    """Many small documents, and a few of so many sections, some in between and one at the end."""
    documents = [
        Document(
            prose(number, 10 + number % 60),
            id=f"small/{number}",
            title=f"Number {number}",
            metadata={"n": number, "tags": ["a", None], "title": "given"},
        )
        for number in range(small)
    ]
    for number in range(long):
        words = sections * WordEncoder.default_section_tokens - 5
        document = Document(prose(1000 + number, words), id=f"long/{number}", source="a book")
        documents.insert(len(documents) * (number + 1) // long, document)
    return documents


def assert_same(got: dict[str, Any], expected: dict[str, Any]) -> None:
    """The same ids, payloads to the last character, vectors but for the last bits."""
    assert got.keys() == expected.keys()
    for point_id, (payload, vectors) in expected.items():
        assert got[point_id][0] == payload
        assert got[point_id][1].keys() == vectors.keys()
        for name, vector in vectors.items():
            if name != "bm25":
                np.testing.assert_allclose(got[point_id][1][name], vector, atol=1e-3)
