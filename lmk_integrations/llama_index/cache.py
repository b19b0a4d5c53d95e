"""Keys for an embeddings cache that queries, documents and models can share."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Literal

from lmk_integrations.encoder import LMKEncoder

Kind = Literal["query", "document"]
Vector = list[float]

COLLECTION = "embeddings"  # as the base class names it


def vector_keys(encoder: LMKEncoder, kind: Kind, texts: Sequence[str]) -> list[str]:
    """One key per text: equal only where the encoder would give the same vector.

    The fingerprint holds everything that the vector of a document depends on; that of a query
    depends on the query prompt besides. Texts are hashed, as whole books make poor keys.
    """
    digest = hashlib.sha256(encoder.fingerprint.encode())
    if kind == "query":
        digest.update(encoder.query_prompt.encode("utf-8", "surrogatepass"))
    model = digest.hexdigest()[:32]
    hashes = (hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest() for text in texts)
    return [f"lmk-{kind}-{model}-{text_hash}" for text_hash in hashes]


class CachedVectors:
    """What a cache gave for some texts, and the places still to be filled.

    hits: one value per key, None where the cache had none.
    """

    def __init__(self, keys: Sequence[str], hits: Sequence[dict[str, Any] | None]) -> None:
        self._keys = keys
        # The base class stores {random id: vector}; only the value matters.
        self._vectors = [None if hit is None else next(iter(hit.values())) for hit in hits]
        self._gaps = [place for place, vector in enumerate(self._vectors) if vector is None]

    def missing(self, texts: Sequence[str]) -> list[str]:
        """The texts whose vectors the cache did not have."""
        return [texts[place] for place in self._gaps]

    def fill(self, fresh: Sequence[Vector]) -> list[tuple[str, dict[str, Vector]]]:
        """Put the vectors of the missing texts in. Returns what is to be written to the cache."""
        written = []
        for place, vector in zip(self._gaps, fresh, strict=True):
            self._vectors[place] = vector
            written.append((self._keys[place], {"vector": vector}))
        return written

    def vectors(self) -> list[Vector]:
        """All vectors in the order of the texts; every gap must be filled."""
        return [vector for vector in self._vectors if vector is not None]
