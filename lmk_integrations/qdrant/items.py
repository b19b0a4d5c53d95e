"""Texts stored as one point each, encoded by someone else: a framework's nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from qdrant_client import models

from lmk_integrations.core.pooling import unit_rows
from lmk_integrations.encoder import LandmarkEncoding
from lmk_integrations.errors import DocumentError
from lmk_integrations.ingest.ids import content_hash, item_id
from lmk_integrations.ingest.metadata import json_metadata
from lmk_integrations.qdrant.bm25 import Bm25Encoder
from lmk_integrations.qdrant.points import share_values, with_given
from lmk_integrations.qdrant.schema import BM25, LANDMARKS, LMK, RECORD
from lmk_integrations.qdrant.upsert import array_point

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Item:
    """One text and its vectors.

    id: names it; a second item of this id takes its place. vector: (dim,). landmarks: of this
        text; None: it is found by `vector` alone.
    start: where the text lies in its document; document_id: that document, for grouping.
    metadata: JSON values, for filters. payload: further top-level payload, of the framework.
    """

    id: str
    text: str
    vector: Floats
    landmarks: LandmarkEncoding | None = None
    start: int = 0
    document_id: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    payload: Mapping[str, Any] = field(default_factory=dict)

    @property
    def n_bytes(self) -> int:
        """About what the item weighs on the wire as JSON: 21 bytes a float, texts thrice."""
        floats = self.vector.size + (0 if self.landmarks is None else self.landmarks.landmarks.size)
        shown = len(self.text) + sum(len(str(value)) for value in self.payload.values())
        return 21 * floats + 3 * shown + 2048


def item_point(item: Item, bm25: Bm25Encoder, dim: int) -> models.PointStruct:
    """An item as a point, for `upsert`.

    Raises DocumentError for a vector of another size or not finite.
    """
    vector = np.asarray(item.vector, np.float32)
    if vector.shape != (dim,) or not np.isfinite(vector).all():
        raise DocumentError(
            f"item {item.id!r}: its vector must be {dim} finite numbers, got shape {vector.shape}",
            "vector",
        )
    try:
        digest = content_hash([item.text])
    except UnicodeEncodeError as error:
        raise DocumentError(
            f"item {item.id!r}: its text holds a lone surrogate at character {error.start}; repair "
            "it first, for example with lmk_integrations.text.repair.repair(text)",
            "surrogate",
        ) from None
    vectors: dict[str, Any] = {LMK: vector}
    metadata, _ = json_metadata(item.metadata)
    own: dict[str, Any] = {
        "doc_id": item.id,
        "kind": "item",
        "start": item.start,
        "ends": [item.start + len(item.text)],
        "tokens": [1],
        "hash": digest,
    }
    if item.document_id is not None:
        own["of"] = item.document_id
    if item.landmarks is not None and len(item.landmarks.landmarks):
        own |= _landmark_facts(item, item.landmarks)
        vectors[LANDMARKS] = unit_rows(item.landmarks.landmarks, item.landmarks.weights)[0]
    sparse = bm25.encode_document(item.text)
    if sparse.indices:
        vectors[BM25] = sparse
    payload = {
        "page_content": item.text,
        "metadata": {key: value for key, value in metadata.items() if value is not None},
        **item.payload,
        RECORD: with_given(own, metadata),
    }
    return array_point(item_id(item.id), vectors, payload)


def _landmark_facts(item: Item, encoding: LandmarkEncoding) -> dict[str, Any]:
    _, shares = unit_rows(encoding.landmarks, encoding.weights)
    ends = encoding.spans[:, 1] + item.start
    ends[-1] = item.start + len(item.text)  # with white space that is behind the last token
    return {
        "ends": ends.tolist(),
        "tokens": encoding.chunk_tokens.tolist(),
        "shares": share_values(shares),
    }
