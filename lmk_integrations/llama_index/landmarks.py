"""Landmarks of an embedded text -> landmarks of the node it was made from."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from llama_index.core.schema import BaseNode, MetadataMode
from numpy.typing import NDArray

from lmk_integrations.encoder import LandmarkEncoding

Ints = NDArray[np.int64]


def text_of(node: BaseNode) -> str:
    """The node's own text, which offsets refer to."""
    return node.get_content(metadata_mode=MetadataMode.NONE)


def embedded_text(node: BaseNode) -> str:
    """What LlamaIndex embeds of a node: its metadata as a header, then its text."""
    return node.get_content(metadata_mode=MetadataMode.EMBED)


def place_of(text: str, embedded: str) -> int | None:
    """Where a node's text begins in its embedded text; None where a template hides it.

    Negative where the template has cut white space off its beginning.
    """
    if embedded == text:
        return 0
    trimmed = text.rstrip()
    if trimmed and embedded.endswith(trimmed):
        return len(embedded) - len(trimmed)
    core = text.strip()
    if not core or embedded.count(core) != 1:
        return None
    return embedded.find(core) - (len(text) - len(text.lstrip()))


def landmarks_within(
    encoding: LandmarkEncoding, start: int, length: int
) -> LandmarkEncoding | None:
    """The landmarks that end inside a stretch of the encoded text, as landmarks of that stretch.

    Those of the header before it fall away; the first and the last span take in what is left at
    the edges, so that spans tile ``0:length``. None where no landmark is left.
    """
    inside = (encoding.spans[:, 1] > start) & (encoding.spans[:, 0] < start + length)
    if not length or not inside.any():
        return None
    spans = np.clip(encoding.spans[inside] - start, 0, length)
    spans[0, 0], spans[-1, 1] = 0, length
    return replace(
        encoding,
        landmarks=encoding.landmarks[inside],
        spans=spans,
        weights=encoding.weights[inside],
        chunk_tokens=encoding.chunk_tokens[inside],
    )


def at_most(encoding: LandmarkEncoding, rows: int) -> LandmarkEncoding:
    """The encoding in at most ``rows`` landmarks: where it has more, neighbours are averaged.

    A point cannot hold more; only a text of a whole book in one node has so many.
    """
    count = len(encoding.landmarks)
    if count <= rows:
        return encoding
    starts = np.linspace(0, count, rows, endpoint=False).astype(np.int64)
    weights = np.add.reduceat(encoding.weights, starts)
    sums = np.add.reduceat(encoding.landmarks * encoding.weights[:, None], starts)
    stops = np.append(starts[1:], count)
    return replace(
        encoding,
        landmarks=(sums / np.maximum(weights, 1e-12)[:, None]).astype(np.float32),
        spans=np.stack([encoding.spans[starts, 0], encoding.spans[stops - 1, 1]], axis=1),
        weights=weights,
        chunk_tokens=np.add.reduceat(encoding.chunk_tokens, starts),
    )
