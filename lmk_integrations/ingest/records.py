"""What an ingest hands to a store, and what it asks of one. No store is named here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from lmk_integrations.records import Mark

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Version:
    """One version of one document: its text's hash under one recipe."""

    doc_id: str
    content_hash: str
    recipe: str


@dataclass(frozen=True, slots=True)
class Facts:
    """What is shown with a document and its sections.

    metadata: JSON values, see `json_metadata`. n_bytes: about what they weigh as JSON.
    root: which folder it was found in, see `Document.root`; kept in the head, not shown.
    """

    title: str | None
    source: str | None
    metadata: Mapping[str, Any]
    metadata_hash: str
    n_bytes: int = 0
    root: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionRecord:
    """One section to store. Shapes as in `SectionEncoding`; pooled_norm is |pooled|.

    generation: of the head that will stand for it.
    """

    version: Version
    facts: Facts
    ordinal: int
    text: str
    start: int
    end: int
    heading: str | None
    page: str | None
    marks: tuple[Mark, ...]
    vector: Floats
    landmarks: Floats
    weights: Floats
    spans: Ints
    chunk_tokens: Ints
    n_tokens: int
    pooled_norm: float
    generation: int = 0

    @property
    def n_bytes(self) -> int:
        """About what the record weighs on the wire as JSON: 21 bytes a float, the rest thrice."""
        shown = len(self.text) + self.facts.n_bytes
        return 21 * (self.landmarks.size + 2 * self.vector.size) + 3 * shown + 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadRecord:
    """A document's commit record, written when all its sections are stored.

    vector: (dim,) the whole document's vector. stale: whether sections of another version may be
    stored and must go once this head is written. uncovered: the text before the first section
    and behind the last, so that the whole text can be given back.
    base: the generation of the head whose place it takes, None: there was none. It is written
    only where that one still stands. generation: its own; every other version has another one.
    """

    version: Version
    facts: Facts
    n_sections: int
    n_tokens: int
    n_unk: int
    vector: Floats
    stale: bool
    uncovered: tuple[str, str] = ("", "")
    base: int | None = None
    generation: int = 0

    @property
    def n_bytes(self) -> int:
        """About what the record weighs on the wire as JSON."""
        return 21 * self.vector.size + 2 * self.facts.n_bytes + 1024


@dataclass(frozen=True, slots=True)
class StoredHead:
    """A head as found in the store."""

    version: Version
    metadata_hash: str
    n_sections: int
    n_tokens: int
    generation: int = 0


@dataclass(frozen=True, slots=True)
class StoredSections:
    """The sections found in the store of a version that is not complete.

    pooled: (dim,) float64, their part of the document's sum; None where there are none.
    metadata_hashes: of the facts that are shown with them.
    """

    ordinals: frozenset[int] = frozenset()
    pooled: NDArray[np.float64] | None = None
    metadata_hashes: frozenset[str] = frozenset()


class Sink(Protocol):
    """A store, as an ingest sees it. Every method may raise StoreError."""

    def heads(self, doc_ids: Sequence[str]) -> dict[str, StoredHead]:
        """The heads of those documents that have one."""
        ...

    def versions(self, doc_ids: Sequence[str]) -> dict[str, dict[Version, int]]:
        """The versions of these documents of which any section is stored, with the highest
        generation of these.
        """
        ...

    def sections(self, version: Version, generation: int | None = None) -> StoredSections:
        """The stored sections of one version; of one generation where given."""
        ...

    def count_sections(self, doc_ids: Sequence[str]) -> int:
        """How many sections of these documents are stored, of whatever version."""
        ...

    def write_sections(self, records: Sequence[SectionRecord]) -> None:
        """Store sections; returns when they are readable."""
        ...

    def write_heads(self, records: Sequence[HeadRecord]) -> list[HeadRecord]:
        """Store heads, then delete the sections of other versions where they may exist.

        Returns those that another ingest came before: they are not stored, nor their sections.
        """
        ...

    def update_facts(self, version: Version, facts: Facts, ordinals: Iterable[int]) -> None:
        """Replace what is shown with stored sections, and with the head if it is of this version.

        Vectors stay. Sections first, the head last: an interrupted update is done again.
        """
        ...

    def delete(self, doc_ids: Sequence[str]) -> int:
        """Delete documents with all their sections. Returns how many of them had a head."""
        ...

    def doc_ids(self, prefix: str = "", root: str | None = None) -> Iterator[str]:
        """The ids of stored documents that begin with a prefix; of one folder where given."""
        ...
