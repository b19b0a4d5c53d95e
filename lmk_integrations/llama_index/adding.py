"""Nodes on their way into an index: each gets its vector, and its landmarks where it can."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from llama_index.core.schema import BaseNode

from lmk_integrations._adapters import Cancelled
from lmk_integrations.core.sections import max_section_rows
from lmk_integrations.encoder import LandmarkEncoding, LMKEncoder
from lmk_integrations.errors import DocumentError
from lmk_integrations.llama_index.handover import HANDOVER
from lmk_integrations.llama_index.landmarks import (
    at_most,
    embedded_text,
    landmarks_within,
    place_of,
    text_of,
)
from lmk_integrations.llama_index.nodes import to_item
from lmk_integrations.qdrant.items import Item

# A text that was encoded, and what came of it.
Found = tuple[str, LandmarkEncoding]


class Adding:
    """Finds the landmarks of nodes, and counts where they came from.

    encoder: None where nodes come with vectors of a model that has no landmarks.
    """

    def __init__(self, encoder: LMKEncoder | None) -> None:
        self._encoder = encoder
        self._lock = threading.Lock()
        self._counts = {"handed_over": 0, "encoded_again": 0}
        if encoder is not None:
            HANDOVER.expect(self, encoder.space)

    def counts(self) -> dict[str, int]:
        """Nodes with embeddings: those whose landmarks were handed over, those encoded again."""
        with self._lock:
            return dict(self._counts)

    def items(self, nodes: Sequence[BaseNode], cancelled: Cancelled | None = None) -> list[Item]:
        """The nodes as items. Raises DocumentError naming a node that cannot be stored."""
        if self._encoder is None:
            return [to_item(node, _embedding(node), None) for node in nodes]
        found: list[Found | None] = [self._handed_over(self._encoder, node) for node in nodes]
        missing = [place for place, encoding in enumerate(found) if encoding is None]
        again = _encode(self._encoder, [nodes[place] for place in missing], cancelled)
        for place, encoding in zip(missing, again, strict=True):
            found[place] = encoding
        with self._lock:
            self._counts["handed_over"] += len(nodes) - len(missing)
            self._counts["encoded_again"] += sum(
                nodes[place].embedding is not None for place in missing
            )
        return [
            self._item(self._encoder, node, encoding)
            for node, encoding in zip(nodes, found, strict=True)
            if encoding is not None
        ]

    def _handed_over(self, encoder: LMKEncoder, node: BaseNode) -> Found | None:
        if node.embedding is None:
            return None
        for text in dict.fromkeys((text_of(node), embedded_text(node))):
            encoding = HANDOVER.take(encoder.space, text, node.embedding)
            if encoding is not None:
                return text, encoding
        return None

    def _item(self, encoder: LMKEncoder, node: BaseNode, found: Found) -> Item:
        embedded, encoding = found
        text = text_of(node)
        start = place_of(text, embedded)
        own = None if start is None else landmarks_within(encoding, start, len(text))
        if own is not None:
            own = at_most(own, max_section_rows(encoder.dim))
        return to_item(node, encoding.vector if node.embedding is None else node.embedding, own)


def _encode(
    encoder: LMKEncoder, nodes: Sequence[BaseNode], cancelled: Cancelled | None
) -> list[Found]:
    """What LMKEmbedding would have encoded, or the text alone where a template hides it in that."""
    texts = []
    for node in nodes:
        text, embedded = text_of(node), embedded_text(node)
        texts.append(text if place_of(text, embedded) is None else embedded)
    encodings = encoder.encode_landmarks(texts, cancelled=cancelled)
    return list(zip(texts, encodings, strict=True))


def _embedding(node: BaseNode) -> list[float]:
    if node.embedding is None:
        raise DocumentError(
            f"node {node.node_id!r} has no embedding: let the pipeline or the index embed it, or "
            "give the store an LMKEmbedding",
            "no_embedding",
        )
    return node.embedding
