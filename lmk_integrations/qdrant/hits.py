"""What a search gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Passage:
    """The best stretch of a section: ``document[start:end] == text``.

    score: the best landmark's cosine with the query; None where none were compared, as in mode
        "bm25" without an encoder.
    heading, page: those it begins under; the section may have begun under earlier ones.
    """

    text: str
    start: int
    end: int
    score: float | None
    heading: str | None = None
    page: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class SearchHit:
    """One section found, best first.

    score: by the mode of the search. text: the section, ``document[start:end]``.
    landmark_scores: (n_landmarks,) cosines of the query with each landmark; landmark_spans:
        (n_landmarks, 2) their characters in the document.
    landmark_terms: (n_landmarks,) what each landmark adds to the pooled vector's score: they sum
        to the cosine of query and section vector (for pooling "lmk" and "mean").
    metadata: as the document had it, with source, title, section, heading, page, start, end.
    given: the document's metadata exactly as it was given. known: the same, and what reading the
        document told beside it: source, title, and the section's heading and page.
    recipe: what the section was stored under; None for what is no section of a document.
    """

    score: float
    id: str
    doc_id: str
    title: str | None
    source: str | None
    section: int
    heading: str | None
    page: str | None
    text: str
    start: int
    end: int
    passage: Passage
    landmark_scores: Floats
    landmark_terms: Floats
    landmark_spans: Ints
    metadata: Mapping[str, Any]
    given: Mapping[str, Any] = field(default_factory=dict)
    recipe: str | None = None

    @property
    def known(self) -> dict[str, Any]:
        """`given`, with the source, title, heading and page that it does not name itself."""
        told = {
            key: self.metadata.get(key)
            for key in ("source", "title", "heading", "page")
            if self.metadata.get(key) is not None
        }
        return {**told, **self.given}

    def to_dict(self) -> dict[str, Any]:
        """The hit as JSON values."""
        return {
            "score": round(self.score, 6),
            "id": self.id,
            "doc_id": self.doc_id,
            "title": self.title,
            "source": self.source,
            "section": self.section,
            "heading": self.heading,
            "page": self.page,
            "start": self.start,
            "end": self.end,
            "passage": {
                "text": self.passage.text,
                "start": self.passage.start,
                "end": self.passage.end,
                "score": None if self.passage.score is None else round(self.passage.score, 6),
                "heading": self.passage.heading,
                "page": self.passage.page,
            },
            "landmark_scores": [round(float(score), 4) for score in self.landmark_scores],
            "landmark_spans": self.landmark_spans.tolist(),
            "text": self.text,
            "metadata": dict(self.metadata),
        }
