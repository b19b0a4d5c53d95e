"""Searches for sections, as LangChain's vector stores make them, over a LandmarkIndex."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.documents import Document
from qdrant_client import models

from lmk_integrations.encoder.settings import check_range
from lmk_integrations.errors import ConfigError
from lmk_integrations.langchain.diversity import diverse
from lmk_integrations.qdrant import LandmarkIndex, SearchHit
from lmk_integrations.qdrant.index import MAX_LIMIT
from lmk_integrations.qdrant.queries import MODES, Mode

Filter = models.Filter | Mapping[str, Any]

_COSINES = ("dense", "landmark")


class SectionSearch:
    """Hits of one index. mode: of the searches that do not name another."""

    def __init__(self, index: LandmarkIndex, mode: Mode) -> None:
        if mode not in MODES:
            raise ConfigError(f"mode={mode!r} is not one of {', '.join(MODES)}")
        self._index = index
        self._mode = mode

    def by_text(
        self,
        query: str,
        k: int,
        wanted: Filter | None,
        mode: Mode | None,
        *,
        vector: Sequence[float] | None = None,
    ) -> list[SearchHit]:
        """The best ``k`` sections; none where nothing has been added yet."""
        if not self._index.exists:
            return []
        used = mode or self._mode
        return self._index.search(query, k, mode=used, filter=wanted, vector=vector)

    def by_vector(
        self, vector: Sequence[float], k: int, wanted: Filter | None, mode: Mode | None
    ) -> list[SearchHit]:
        """The best ``k`` sections for a vector (dim,); without a text there is no BM25."""
        used: Mode = mode or (self._mode if self._mode in _COSINES else "dense")
        if used not in _COSINES:
            raise ConfigError(f"mode={used!r} needs a text; by vector: {', '.join(_COSINES)}")
        return self.by_text("", k, wanted, used, vector=vector)

    def diverse_by_text(
        self,
        query: str,
        k: int,
        wanted: Filter | None,
        mode: Mode | None,
        *,
        fetch_k: int,
        lambda_mult: float,
    ) -> list[SearchHit]:
        """``k`` of the best ``fetch_k`` sections, see `diverse`."""
        check_range("k", k, 1, MAX_LIMIT)
        if not self._index.exists:
            return []
        vector = query_vector(self._index, query)
        hits = self.by_text(query, max(k, fetch_k), wanted, mode, vector=vector)
        return diverse(self._index, hits, vector, k, lambda_mult)

    def diverse_by_vector(
        self,
        vector: Sequence[float],
        k: int,
        wanted: Filter | None,
        mode: Mode | None,
        *,
        fetch_k: int,
        lambda_mult: float,
    ) -> list[SearchHit]:
        """``k`` of the best ``fetch_k`` sections, see `diverse`."""
        check_range("k", k, 1, MAX_LIMIT)
        hits = self.by_vector(vector, max(k, fetch_k), wanted, mode)
        return diverse(self._index, hits, vector, k, lambda_mult)

    def cosine_mode(self, mode: Mode | None) -> Mode:
        """The mode used, whose scores are cosines. Raises ConfigError for those without a scale."""
        used = mode or self._mode
        if used not in _COSINES:
            raise ConfigError(
                f"scores of mode {used!r} have no fixed scale, so there is no relevance from 0 to "
                f"1; pass mode={_COSINES[0]!r} or mode={_COSINES[1]!r}"
            )
        return used


def query_vector(index: LandmarkIndex, query: str) -> list[float]:
    """(dim,) by the index's encoder."""
    if index.encoder is None:
        raise ConfigError("this search needs an encoder: LandmarkIndex(client, name, encoder)")
    found: list[float] = index.encoder.encode_queries([query])[0].tolist()
    return found


def to_document(hit: SearchHit) -> Document:
    """A section's text with the id of its document, and the metadata that were given with it.

    Nobody gave any with what was read from files: there source, title, heading and page are told.
    """
    return Document(id=hit.doc_id, page_content=hit.text, metadata=hit.known)


def relevance(cosine: float) -> float:
    """A cosine as relevance from 0 (opposite) to 1 (same direction)."""
    return min(1.0, max(0.0, (cosine + 1) / 2))
