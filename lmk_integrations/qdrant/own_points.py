"""This package's own points, chosen by what their records say of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from qdrant_client import models

from lmk_integrations.ingest.records import StoredHead, Version
from lmk_integrations.qdrant.schema import RECORD

GENERATION = "generation"
"""A record's key, see `lmk_integrations.qdrant.heads`. Absent for 0, which is never updated."""


def only(kind: str) -> models.Filter:
    """Points of one kind: "section" or "head"."""
    return models.Filter(must=[equals("kind", kind)])


def sections_of(doc_ids: Sequence[str], version: Version | None = None) -> models.Filter:
    """The sections of documents; of one version of them where given."""
    must: list[Any] = [equals("kind", "section"), of_documents(doc_ids)]
    if version is not None:
        must.append(of_version(version))
    return models.Filter(must=must)


def of_documents(doc_ids: Sequence[str]) -> models.FieldCondition:
    """Points of these documents, of whatever kind."""
    return models.FieldCondition(key=f"{RECORD}.doc_id", match=models.MatchAny(any=list(doc_ids)))


def of_version(version: Version) -> models.Filter:
    """Points of one version of one document."""
    return models.Filter(
        must=[
            equals("doc_id", version.doc_id),
            equals("hash", version.content_hash),
            equals("recipe", version.recipe),
        ]
    )


def of_generation(generation: int) -> models.Filter:
    """Points of one generation."""
    if generation == 0:
        return models.Filter(must_not=[of_later(0)])
    match = models.MatchValue(value=generation)
    return models.Filter(must=[models.FieldCondition(key=f"{RECORD}.{GENERATION}", match=match)])


def of_later(generation: int) -> models.FieldCondition:
    """Points of generations after this one."""
    later = models.Range(gt=float(generation))
    return models.FieldCondition(key=f"{RECORD}.{GENERATION}", range=later)


def equals(key: str, value: str) -> models.FieldCondition:
    """Points of whose record a key has this value."""
    return models.FieldCondition(key=f"{RECORD}.{key}", match=models.MatchValue(value=value))


def version_of(own: Mapping[str, Any]) -> Version:
    """The version that a point's record is of."""
    return Version(str(own["doc_id"]), str(own["hash"]), str(own["recipe"]))


def generation_of(own: Mapping[str, Any]) -> int:
    """The generation that a point's record is of."""
    return int(own.get(GENERATION, 0))


def stored_head(own: Mapping[str, Any]) -> StoredHead:
    """A head's record, read."""
    return StoredHead(
        version_of(own),
        str(own["metadata_hash"]),
        int(own["sections"]),
        int(own["n_tokens"]),
        generation_of(own),
    )
