"""What the encoder gives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lmk_integrations.errors import DocumentError, LMKError
from lmk_integrations.records import Mark

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]


class EncodingCancelled(LMKError):  # noqa: N818 - an outcome, not a fault
    """The caller's ``cancelled()`` returned True between two batches."""


@dataclass(frozen=True, slots=True, eq=False)
class LandmarkEncoding:
    """A text, or one section of it, as its landmarks.

    vector: (dim,) float32, the pooled text vector.
    landmarks: (n_landmarks, dim) float32 states, not normalised; `vector` is the normalised mean
        of them weighted by `weights` (all 1 for landmark pooling).
    spans: (n_landmarks, 2) int64; ``text[start:end]`` of all spans tile the text from its first
        to its last token.
    weights: (n_landmarks,) float32.
    chunk_tokens: (n_landmarks,) int64, tokens of each landmark's chunk.
    n_tokens, n_windows, n_unk: tokens read (special ones apart), windows the text took, unknown
        tokens among them.
    index: which text of the call; section: which section of it; is_last: no section follows.
    """

    vector: Floats
    landmarks: Floats
    spans: Ints
    weights: Floats
    chunk_tokens: Ints
    n_tokens: int
    n_windows: int
    n_unk: int
    index: int = 0
    section: int = 0
    is_last: bool = True

    @property
    def start(self) -> int:
        """The first character of the first span."""
        return int(self.spans[0, 0])

    @property
    def end(self) -> int:
        """The end of the last span."""
        return int(self.spans[-1, 1])


@dataclass(frozen=True, slots=True, eq=False)
class SectionEncoding:
    """One closed section of a text of a stream.

    index: the text's place in the stream; ordinal: the section's place in the text.
    text: the section's own text, ``document[start:end]``.
    pooled: (dim,) float64, the section's pooled state times its weight: the sums of all sections
        give the document's vector.
    landmarks: None when the caller did not want this section encoded; then spans are still there.
    """

    index: int
    ordinal: int
    start: int
    end: int
    text: str
    heading: str | None
    page: str | None
    marks: tuple[Mark, ...]
    spans: Ints
    chunk_tokens: Ints
    n_tokens: int
    n_unk: int
    n_windows: int = 0
    vector: Floats | None = None
    landmarks: Floats | None = None
    weights: Floats | None = None
    pooled: NDArray[np.float64] | None = None


@dataclass(frozen=True, slots=True)
class TextDone:
    """All sections of a text have been given."""

    index: int
    n_sections: int
    n_tokens: int
    n_unk: int


@dataclass(frozen=True, slots=True)
class TextFailed:
    """A text could not be read to its end; sections given before are void."""

    index: int
    error: DocumentError
