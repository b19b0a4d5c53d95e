"""What an index needs of an encoder: LMKEncoder is one, any embedding function can be another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from lmk_integrations.encoder.stream import Event, StreamItem


class SpaceParts(Protocol):
    """The parts of a vector space's identity."""

    def to_dict(self) -> dict[str, Any]:
        """The parts by name, as JSON values; ``dim`` is one of them."""
        ...


class DocumentEncoder(Protocol):
    """Texts in, sections with vectors out. See `LMKEncoder` for what each member means."""

    @property
    def model_name(self) -> str:
        """For messages only."""
        ...

    @property
    def dim(self) -> int:
        """Dimensions of every vector."""
        ...

    @property
    def has_landmarks(self) -> bool:
        """Whether sections come with landmarks; else with their own vector alone."""
        ...

    @property
    def space_parts(self) -> SpaceParts:
        """Vectors are comparable exactly when these are equal."""
        ...

    @property
    def fingerprint(self) -> str:
        """Equal fingerprints mean the same document vectors."""
        ...

    @property
    def fingerprint_parts(self) -> Mapping[str, Any]:
        """What the fingerprint is made of."""
        ...

    @property
    def default_section_tokens(self) -> int:
        """Tokens of a section where nothing else is asked for."""
        ...

    @property
    def max_section_tokens(self) -> int:
        """The most tokens of a section that a store takes."""
        ...

    def iter_sections(
        self,
        items: Iterable[StreamItem],
        section_tokens: int | None,
        *,
        cancelled: Callable[[], bool] | None = None,
    ) -> Iterator[Event]:
        """The sections of each text, then its TextDone or TextFailed."""
        ...

    def encode_queries(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        """Vectors of queries, (n, dim)."""
        ...
