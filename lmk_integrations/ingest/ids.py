"""Identities: which document, which version of it, which section. Pure and deterministic."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

_NAMESPACE = uuid.UUID("6f0c2f9e-5d0f-5f4b-9a55-1f1c6e2b7d10")


def head_id(doc_id: str) -> str:
    """The id of a document's head point: one per document, whatever its content."""
    return str(uuid.uuid5(_NAMESPACE, json.dumps(["head", doc_id])))


def section_id(doc_id: str, content_hash: str, recipe: str, ordinal: int) -> str:
    """The id of a section point. Writing the same section twice is one point."""
    return str(uuid.uuid5(_NAMESPACE, json.dumps([doc_id, content_hash, recipe, ordinal])))


def item_id(name: str) -> str:
    """The id of the point of a text that is stored as it is, by its name."""
    return str(uuid.uuid5(_NAMESPACE, json.dumps(["item", name])))


def content_hash(pieces: Iterable[str], structure: Any = None) -> str:
    """Digest of a text, independent of how it is cut in pieces, and of its marks.

    structure: JSON-able facts that change how the text is cut (headings and pages of its file).
    """
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece.encode("utf-8"))
    if structure:
        digest.update(b"\0" + _canonical(structure))
    return digest.hexdigest()[:32]


def metadata_hash(
    metadata: Mapping[str, Any], title: str | None, source: str | None, root: str | None = None
) -> str:
    """Digest of what is kept with a document but does not change its vectors."""
    facts = [dict(metadata), title, source, root]
    return hashlib.sha256(_canonical(facts)).hexdigest()[:32]


def recipe_id(fingerprint: str, section_tokens: int, reader: str, bm25: Mapping[str, Any]) -> str:
    """Digest of everything that decides what is stored for a given text."""
    return hashlib.sha256(
        _canonical([fingerprint, section_tokens, reader, dict(bm25)])
    ).hexdigest()[:32]


def _canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=str).encode()
