"""Documents given back as they came: whole text, metadata, whatever sections they lie in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from qdrant_client import models

from lmk_integrations.qdrant.own_points import only
from lmk_integrations.qdrant.points import given_metadata, uncovered_text
from lmk_integrations.qdrant.schema import RECORD
from lmk_integrations.qdrant.store import QdrantSink

_AT_ONCE = 64  # documents


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """A document or item of a collection.

    text: whole, as it was given (of a text that was streamed in: from its first to its last
        token). metadata: as it was given, as JSON values.
    """

    doc_id: str
    text: str
    metadata: Mapping[str, Any]
    title: str | None = None
    source: str | None = None

    @property
    def known(self) -> dict[str, Any]:
        """`metadata`, with the source and title that it does not name itself."""
        told = {"source": self.source, "title": self.title}
        return {**{k: v for k, v in told.items() if v is not None}, **self.metadata}


@dataclass(frozen=True, slots=True)
class DocumentFacts:
    """What is known of a document without reading its text."""

    doc_id: str
    title: str | None
    source: str | None
    n_sections: int
    n_tokens: int

    def to_dict(self) -> dict[str, Any]:
        """The facts as JSON values."""
        return {
            "doc_id": self.doc_id,
            "title": self.title,
            "source": self.source,
            "sections": self.n_sections,
            "tokens": self.n_tokens,
        }


def document_facts(sink: QdrantSink) -> Iterator[DocumentFacts]:
    """All documents that are stored; items are none."""
    keys = ("doc_id", "title", "source", "sections", "n_tokens")
    for record in sink.records(only("head"), [f"{RECORD}.{key}" for key in keys]):
        own = (record.payload or {})[RECORD]
        yield DocumentFacts(
            str(own["doc_id"]),
            own.get("title"),
            own.get("source"),
            int(own["sections"]),
            int(own["n_tokens"]),
        )


def read_documents(sink: QdrantSink, doc_ids: Sequence[str]) -> dict[str, StoredDocument]:
    """Those of the documents and items that are stored completely, in the order asked for."""
    found: dict[str, StoredDocument] = {}
    wanted = list(dict.fromkeys(doc_ids))
    for first in range(0, len(wanted), _AT_ONCE):
        batch = wanted[first : first + _AT_ONCE]
        found |= {one.doc_id: one for one in _read(sink, batch)}
    return {doc_id: found[doc_id] for doc_id in wanted if doc_id in found}


def parts_of(sink: QdrantSink, doc_ids: Sequence[str]) -> list[Any]:
    """The ids of the points of items that are parts of documents, as a framework's nodes are."""
    inside = models.MatchAny(any=list(doc_ids))
    # This key has an index. Metadata may be called so, too: the record decides.
    wanted = models.Filter(
        must=[models.FieldCondition(key="doc_id", match=inside)],
        must_not=[only("head"), only("section")],
    )
    documents = set(doc_ids)
    return [
        record.id
        for record in sink.records(wanted, [f"{RECORD}.of"])
        if ((record.payload or {}).get(RECORD) or {}).get("of") in documents
    ]


def _read(sink: QdrantSink, doc_ids: Sequence[str]) -> Iterator[StoredDocument]:
    heads: dict[str, dict[str, Any]] = {}
    sections: dict[str, list[dict[str, Any]]] = {}
    for record in sink.records(_all_of(doc_ids)):
        payload = dict(record.payload or {})
        own = payload[RECORD]
        if own["kind"] == "head":
            heads[own["doc_id"]] = payload
        elif own["kind"] == "item":
            yield StoredDocument(
                own["doc_id"], str(payload["page_content"]), given_metadata(payload)
            )
        else:
            sections.setdefault(own["doc_id"], []).append(payload)
    for doc_id, head in heads.items():
        own = head[RECORD]
        parts = {
            part[RECORD]["ordinal"]: str(part["page_content"])
            for part in sections.get(doc_id, ())
            if (part[RECORD]["hash"], part[RECORD]["recipe"]) == (own["hash"], own["recipe"])
        }
        if len(parts) != own["sections"]:
            continue  # damaged: the next ingest mends it
        before, after = uncovered_text(own)
        text = before + "".join(parts[ordinal] for ordinal in sorted(parts)) + after
        yield StoredDocument(doc_id, text, given_metadata(head), own["title"], own["source"])


def _all_of(doc_ids: Sequence[str]) -> models.Filter:
    inside = models.MatchAny(any=list(doc_ids))
    return models.Filter(must=[models.FieldCondition(key=f"{RECORD}.doc_id", match=inside)])
