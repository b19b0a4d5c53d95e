"""Any embedding functions as an encoder for an index: one vector per text, no landmarks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmk_integrations.encoder.identity import digest_of
from lmk_integrations.encoder.records import (
    EncodingCancelled,
    SectionEncoding,
    TextDone,
    TextFailed,
)
from lmk_integrations.encoder.stream import Event, StreamItem
from lmk_integrations.errors import DocumentError, ModelError
from lmk_integrations.records import pieces_of

Floats = NDArray[np.float32]

_BATCH = 64  # texts given to the embedding function at once
_PROBE = "text"
_CHARACTERS_PER_TOKEN = 4
_USUAL_TOKENS = 256  # of a text as splitters make them; for BM25's length normalisation only


@dataclass(frozen=True, slots=True)
class PlainSpace:
    """The space of vectors whose maker is known by name only."""

    parts: Mapping[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """The parts by name."""
        return dict(self.parts)


class PlainEncoder:
    """Embedding functions as an index takes them: every text is one section with one vector.

    embed_documents: texts -> as many vectors; embed_query: a text -> its vector.
    name: of the model, for messages. identity: JSON values that tell this space from others.
    dim: of the vectors; None: found by embedding one word when it is first needed.

    What a text holds beyond the model's window is up to the functions: nothing here can see it.
    """

    has_landmarks = False

    def __init__(
        self,
        embed_documents: Callable[[list[str]], Sequence[Sequence[float]]],
        embed_query: Callable[[str], Sequence[float]],
        *,
        name: str,
        identity: Mapping[str, Any] | None = None,
        dim: int | None = None,
    ) -> None:
        self.model_name = name
        self._embed_documents = embed_documents
        self._embed_query = embed_query
        self._identity = dict(identity or {})
        self._dim = dim

    def __repr__(self) -> str:
        return f"PlainEncoder({self.model_name!r})"

    @property
    def dim(self) -> int:
        """Dimensions of the vectors."""
        if self._dim is None:
            self._dim = len(self._embed_query(_PROBE))
        return self._dim

    @property
    def space_parts(self) -> PlainSpace:
        """Name, identity and dimensions."""
        return PlainSpace({"model": self.model_name, **self._identity, "dim": self.dim})

    @property
    def fingerprint(self) -> str:
        """Digest of `fingerprint_parts` (hex)."""
        return digest_of(self.fingerprint_parts)

    @property
    def fingerprint_parts(self) -> dict[str, Any]:
        """The space: all that is known."""
        return {"space": self.space_parts.to_dict()}

    @property
    def default_section_tokens(self) -> int:
        """A usual text's length; texts are not cut."""
        return _USUAL_TOKENS

    @property
    def max_section_tokens(self) -> int:
        """No limit of ours."""
        return 1 << 20

    def encode_queries(self, texts: Sequence[str], /) -> Floats:
        """Vectors of queries, (n, dim) float32."""
        found = [self._embed_query(text) for text in texts]
        return self._checked(found, len(texts))

    def iter_sections(
        self,
        items: Iterable[StreamItem],
        section_tokens: int | None,
        *,
        cancelled: Callable[[], bool] | None = None,
    ) -> Iterator[Event]:
        """Each text as one section, then its TextDone or TextFailed. section_tokens: not used."""
        source = enumerate(items)
        while batch := list(islice(source, _BATCH)):
            if cancelled is not None and cancelled():
                raise EncodingCancelled("cancelled between two batches")
            yield from self._batch(batch)

    def _batch(self, batch: list[tuple[int, StreamItem]]) -> Iterator[Event]:
        texts: dict[int, str] = {}
        failed: dict[int, DocumentError] = {}
        for index, item in batch:
            try:
                texts[index] = "".join(pieces_of(item.text))
            except DocumentError as error:
                failed[index] = error
        wanted = [
            index for index, item in batch if index in texts and (not item.wanted or item.wanted(0))
        ]
        vectors = self._documents([texts[index] for index in wanted])
        of = dict(zip(wanted, vectors, strict=True))
        for index, item in batch:
            if index in failed:
                yield TextFailed(index, failed[index])
                continue
            section = _section(index, item, texts[index], of.get(index))
            yield section
            yield TextDone(index, 1, section.n_tokens, 0)

    def _documents(self, texts: list[str]) -> Floats:
        if not texts:
            return np.empty((0, 0), np.float32)
        return self._checked(self._embed_documents(texts), len(texts))

    def _checked(self, vectors: Sequence[Sequence[float]], count: int) -> Floats:
        found = np.asarray(vectors, np.float32).reshape(len(vectors), -1)
        if len(found) != count or (count and found.shape[1] != self.dim):
            raise ModelError(
                f"{self.model_name!r} gave {len(found)} vectors of {found.shape[-1]} dimensions "
                f"for {count} texts; {count} of {self.dim} were due"
            )
        if not np.isfinite(found).all():
            raise ModelError(f"{self.model_name!r} gave a vector with NaN or infinity")
        return found


def _section(index: int, item: StreamItem, text: str, vector: Floats | None) -> SectionEncoding:
    """A whole text as a section. Tokens are not known: about four characters make one."""
    n_tokens = max(1, len(text) // _CHARACTERS_PER_TOKEN)
    firsts = {mark.kind: mark.label for mark in reversed(item.marks) if mark.start == 0}
    dim = 0 if vector is None else len(vector)
    return SectionEncoding(
        index=index,
        ordinal=0,
        start=0,
        end=len(text),
        text=text,
        heading=firsts.get("heading"),
        page=firsts.get("page"),
        marks=tuple(item.marks),
        spans=np.array([[0, len(text)]], np.int64),
        chunk_tokens=np.array([n_tokens], np.int64),
        n_tokens=n_tokens,
        n_unk=0,
        n_windows=1,
        vector=vector,
        landmarks=None if vector is None else np.empty((0, dim), np.float32),
        weights=None if vector is None else np.empty(0, np.float32),
        pooled=None if vector is None else vector.astype(np.float64),
    )
