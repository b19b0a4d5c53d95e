"""Nodes -> items of an index, and points -> nodes, whoever wrote them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from llama_index.core.schema import (
    BaseNode,
    NodeRelationship,
    ObjectType,
    RelatedNodeInfo,
    TextNode,
)
from llama_index.core.vector_stores.utils import metadata_dict_to_node
from pydantic_core import PydanticSerializationError
from qdrant_client import models

from lmk_integrations.encoder import LandmarkEncoding
from lmk_integrations.errors import DocumentError
from lmk_integrations.ingest.metadata import json_metadata
from lmk_integrations.llama_index.filters import paths_of
from lmk_integrations.llama_index.landmarks import text_of
from lmk_integrations.qdrant import LandmarkIndex
from lmk_integrations.qdrant.items import Item
from lmk_integrations.qdrant.schema import RECORD

_RESERVED = {"page_content", "metadata", RECORD}


def to_item(node: BaseNode, vector: Any, landmarks: LandmarkEncoding | None) -> Item:
    """A node as the point that it becomes. Raises DocumentError where JSON cannot hold it."""
    return Item(
        id=node.node_id,
        text=text_of(node),
        vector=np.asarray(vector, np.float32),
        landmarks=landmarks,
        start=getattr(node, "start_char_idx", None) or 0,
        document_id=node.ref_doc_id,
        metadata=node.metadata,
        payload=_payload(node),
    )


def to_node(record: models.Record | models.ScoredPoint) -> BaseNode:
    """A point as a node: as LlamaIndex stored it, else what can be told of it."""
    payload = dict(record.payload or {})
    text = str(payload.get("page_content") or "")
    if payload.get("_node_content"):
        node = metadata_dict_to_node(payload)
        if text and not text_of(node):
            node.set_content(text)
        return node
    own = payload.get(RECORD) or {}
    source = own.get("of") or (own.get("doc_id") if own.get("kind") == "section" else None)
    known = TextNode(
        id_=str(own["doc_id"] if own.get("kind") == "item" else record.id),
        text=text,
        metadata=dict(payload.get("metadata") or {}),
    )
    if source is not None:
        known.relationships[NodeRelationship.SOURCE] = source_info(str(source))
        known.start_char_idx = int(own["start"])
        known.end_char_idx = known.start_char_idx + len(text)
    return known


def source_info(doc_id: str, digest: str | None = None) -> RelatedNodeInfo:
    """The document that a node comes from."""
    return RelatedNodeInfo(node_id=doc_id, node_type=ObjectType.DOCUMENT, hash=digest)


def stored_texts(index: LandmarkIndex, key: str) -> Iterator[str]:
    """Every string that stands under a metadata key, in all points."""
    paths = paths_of(key)
    steps = key.split(".") if paths[1] == key else [key]
    for record in index.scan(keys=paths):
        payload = record.payload or {}
        for place in (payload.get("metadata"), payload):
            value = _value_at(place, steps)
            values = value if isinstance(value, list) else [value]
            yield from (one for one in values if isinstance(one, str))


def _value_at(place: Any, steps: list[str]) -> Any:
    for step in steps:
        place = place.get(step) if isinstance(place, Mapping) else None
    return place


def _payload(node: BaseNode) -> dict[str, Any]:
    """What LlamaIndex's own Qdrant store reads: the node as JSON, its metadata and ids flat."""
    try:
        metadata, _ = json_metadata(node.metadata)
        content = node.model_dump(mode="json", exclude={"embedding", "metadata"})
        text = json.dumps({**content, "metadata": metadata, "embedding": None}, ensure_ascii=False)
        text.encode("utf-8")
    except (PydanticSerializationError, TypeError, ValueError) as error:
        raise DocumentError(f"node {node.node_id!r} cannot be kept as JSON: {error}") from error
    payload = {key: value for key, value in metadata.items() if key not in _RESERVED}
    payload |= {"_node_content": text, "_node_type": node.class_name()}
    if node.ref_doc_id is not None:
        payload |= dict.fromkeys(("document_id", "doc_id", "ref_doc_id"), node.ref_doc_id)
    return payload
