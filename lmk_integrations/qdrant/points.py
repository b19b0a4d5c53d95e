"""Records -> points. The payload opens in LangChain's and in LlamaIndex's own Qdrant stores."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from qdrant_client import models

from lmk_integrations.core.pooling import unit_rows
from lmk_integrations.ingest.ids import head_id, section_id
from lmk_integrations.ingest.records import Facts, HeadRecord, SectionRecord, Version
from lmk_integrations.qdrant.bm25 import Bm25Encoder
from lmk_integrations.qdrant.own_points import GENERATION
from lmk_integrations.qdrant.schema import BM25, DOCUMENT, LANDMARKS, LMK, RECORD
from lmk_integrations.qdrant.upsert import array_point

Floats = NDArray[np.float32]

# Keys that have a meaning at the top of a payload; user metadata is not copied over them.
_RESERVED = {
    "page_content",
    "metadata",
    RECORD,
    "_node_content",
    "_node_type",
    "document_id",
    "doc_id",
    "ref_doc_id",
}
# Keys of `metadata` that we set: a user's value under them is kept in the record as well.
_OURS = {"source", "title", "doc_id", "section", "start", "end", "heading", "page"}
_GIVEN = "given"
_UNCOVERED = "uncovered"
_SHARE_DIGITS = 7


def section_point(record: SectionRecord, bm25: Bm25Encoder) -> models.PointStruct:
    """A section as a point with vectors lmk, landmarks and bm25, for `upsert`."""
    version = record.version
    point_id = section_id(version.doc_id, version.content_hash, version.recipe, record.ordinal)
    unit, shares = unit_rows(record.landmarks, record.weights)
    vectors: dict[str, Any] = {LMK: record.vector}
    if len(unit):
        vectors[LANDMARKS] = unit
    sparse = bm25.encode_document(record.text)
    if sparse.indices:
        vectors[BM25] = sparse
    own = {
        **_version_facts(version, record.facts, record.generation),
        "kind": "section",
        "ordinal": record.ordinal,
        "heading": record.heading,
        "page": record.page,
        "marks": [[mark.start, mark.kind, mark.label] for mark in record.marks],
        "start": record.start,
        "ends": record.spans[:, 1].tolist(),
        "tokens": record.chunk_tokens.tolist(),
        "shares": share_values(shares),
        "pooled_norm": record.pooled_norm,
        "n_tokens": record.n_tokens,
    }
    payload = section_payload(point_id, version, record.facts, own, record.text)
    return array_point(point_id, vectors, payload)


def section_payload(
    point_id: str, version: Version, facts: Facts, own: Mapping[str, Any], text: str
) -> dict[str, Any]:
    """A section's payload: what the two frameworks read, and this package's own record."""
    start, end = own["start"], own["ends"][-1]
    known = {
        **shown_metadata(version.doc_id, facts),
        "section": own["ordinal"],
        "start": start,
        "end": end,
    }
    if own["heading"] is not None:
        known["heading"] = own["heading"]
    if own["page"] is not None:
        known["page"] = _page_value(own["page"])
    flat = {key: value for key, value in known.items() if key not in _RESERVED}
    return {
        **flat,
        "page_content": text,
        "metadata": known,
        **_node(point_id, version, known, text, (start, end)),
        "document_id": version.doc_id,
        "doc_id": version.doc_id,
        "ref_doc_id": version.doc_id,
        RECORD: with_given(own, facts.metadata),
    }


def share_values(shares: Floats) -> list[float]:
    """Landmarks' shares of the pooled vector, rounded to what a float32 holds."""
    return [round(share, _SHARE_DIGITS) for share in shares.tolist()]


def with_given(own: Mapping[str, Any], metadata: Mapping[str, Any]) -> dict[str, Any]:
    """A record with those of the user's metadata that `shown_metadata` changes or leaves out."""
    hidden = {key: value for key, value in metadata.items() if key in _OURS or value is None}
    kept = {key: value for key, value in own.items() if key != _GIVEN}
    return {**kept, _GIVEN: hidden} if hidden else kept


def given_metadata(payload: Mapping[str, Any]) -> dict[str, Any]:
    """A document's metadata as it was given, read from one of its points."""
    shown = payload.get("metadata") or {}
    own = payload.get(RECORD)
    if not own:  # another store wrote it
        return dict(shown)
    given = {key: value for key, value in shown.items() if key not in _OURS}
    return {**given, **own.get(_GIVEN, {})}


def facts_of(head: Mapping[str, Any]) -> Facts:
    """What is shown with a document, from its head's payload."""
    own = head[RECORD]
    return Facts(
        own["title"],
        own["source"],
        given_metadata(head),
        str(own["metadata_hash"]),
        root=own.get("root"),
    )


def uncovered_text(head: Mapping[str, Any]) -> tuple[str, str]:
    """The text before the first section and behind the last, from a head's record."""
    before, after = head.get(_UNCOVERED, ("", ""))
    return str(before), str(after)


def shown_metadata(doc_id: str, facts: Facts) -> dict[str, Any]:
    """A document's metadata as shown: the user's, with what is known of the document itself."""
    known = {key: value for key, value in facts.metadata.items() if value is not None}
    own = {"source": facts.source, "title": facts.title, "doc_id": doc_id}
    return {**known, **{key: value for key, value in own.items() if value is not None}}


def head_point(record: HeadRecord) -> models.PointStruct:
    """A document's head: the vector `document` only, so no section search can return it."""
    own = {
        **_version_facts(record.version, record.facts, record.generation),
        "kind": "head",
        "sections": record.n_sections,
        "n_tokens": record.n_tokens,
        "n_unk": record.n_unk,
    }
    if any(record.uncovered):
        own[_UNCOVERED] = list(record.uncovered)
    return array_point(
        head_id(record.version.doc_id),
        {DOCUMENT: record.vector},
        head_payload(record.version, record.facts, own),
    )


def head_payload(version: Version, facts: Facts, own: Mapping[str, Any]) -> dict[str, Any]:
    """A head's payload. Its doc_id lets LlamaIndex's delete(ref_doc_id) take the head along.

    The empty node is for LlamaIndex's get_nodes(), which reads every point there is.
    """
    known = shown_metadata(version.doc_id, facts)
    return {
        "metadata": known,
        "doc_id": version.doc_id,
        **_node(head_id(version.doc_id), version, known, "", (None, None)),
        RECORD: {
            **with_given(own, facts.metadata),
            "title": facts.title,
            "source": facts.source,
            "root": facts.root,
        },
    }


def _node(
    point_id: str,
    version: Version,
    metadata: Mapping[str, Any],
    text: str,
    span: tuple[int | None, int | None],
) -> dict[str, Any]:
    """A point as LlamaIndex keeps its nodes."""
    node = {
        "id_": point_id,
        "embedding": None,
        "metadata": metadata,
        "excluded_embed_metadata_keys": sorted(metadata),
        "excluded_llm_metadata_keys": ["doc_id", "section", "start", "end"],
        "relationships": {
            "1": {  # NodeRelationship.SOURCE
                "node_id": version.doc_id,
                "node_type": "4",  # ObjectType.DOCUMENT
                "metadata": {},
                "hash": version.content_hash,
                "class_name": "RelatedNodeInfo",
            }
        },
        "text": text,
        "start_char_idx": span[0],
        "end_char_idx": span[1],
        "class_name": "TextNode",
    }
    return {"_node_content": json.dumps(node, ensure_ascii=False), "_node_type": "TextNode"}


def _page_value(label: str) -> int | str:
    """A page as filters want it: numbers can be compared, "iv" cannot."""
    return int(label) if label.isascii() and label.isdigit() and len(label) < 10 else label


def _version_facts(version: Version, facts: Facts, generation: int) -> dict[str, Any]:
    own = {
        "doc_id": version.doc_id,
        "hash": version.content_hash,
        "recipe": version.recipe,
        "metadata_hash": facts.metadata_hash,
    }
    return {**own, GENERATION: generation} if generation else own
