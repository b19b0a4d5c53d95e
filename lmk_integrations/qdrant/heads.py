"""Heads: which version of a document is the stored one, whoever else writes at the same time.

A head takes the place of the head that was there when its ingest began with the document, or of
none, and it has a generation: one more. The sections that it stands for have the same one.

- A head is written on the condition that the one it replaces still stands there. Of two ingests
  that began with the same one the server lets one through; the other one is overtaken.
- Who wrote a head then deletes other versions' sections up to the head's own generation. Those
  belong to versions that were replaced, or whose heads can no more be written. What an ingest
  stores that began after it has a later generation, and is not touched, however late the
  deletion comes.
- Who was overtaken deletes the sections of its own version up to its own generation.

So at every moment the sections that a head stands for are all there, and when both have ended no
others are. No clock is compared, no lock is held, and a killed process leaves nothing to wait for:
sections of its that are left over go with the next ingest of the document.

It takes a server of Qdrant 1.16 or later. Older ones ignore the condition: the head that comes last
stands, and if its sections are gone, `verify` tells of it and the next ingest stores them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Literal

from qdrant_client import models

from lmk_integrations.errors import StoreUnreachableError
from lmk_integrations.ingest.ids import head_id
from lmk_integrations.ingest.records import HeadRecord, StoredHead
from lmk_integrations.qdrant.client import StoreClient, call, is_remote, write
from lmk_integrations.qdrant.own_points import (
    equals,
    of_generation,
    of_later,
    of_version,
    stored_head,
)
from lmk_integrations.qdrant.pieces import Pieces
from lmk_integrations.qdrant.points import head_point
from lmk_integrations.qdrant.schema import RECORD

State = Literal["there", "absent", "overtaken"]

# Replicas may be a moment behind what has been acknowledged.
_LOOKS = (0.0, 0.5, 2.0)


class Heads:
    """Reads and writes the heads of one collection. pieces: how points are written."""

    def __init__(self, client: StoreClient, collection: str, pieces: Pieces) -> None:
        self._client = client
        self._collection = collection
        self._pieces = pieces

    def read(self, doc_ids: Sequence[str]) -> dict[str, StoredHead]:
        """The heads of those documents that have one."""
        if not doc_ids:
            return {}
        ids = [head_id(doc_id) for doc_id in doc_ids]
        records = call(
            self._client,
            lambda: self._client.retrieve(self._collection, ids, with_payload=[RECORD]),
        )
        found = (stored_head((record.payload or {})[RECORD]) for record in records)
        return {head.version.doc_id: head for head in found}

    def write(self, heads: Sequence[HeadRecord]) -> list[HeadRecord]:
        """Write heads, then delete sections that none stands for. Returns the overtaken ones.

        A server's word is checked: a head is written when the server counts the sections that it
        stands for, and an old version goes when the head is there. Raises
        StoreUnreachableError where the server lost what it has acknowledged.
        """
        ready = self._with_sections(heads)
        if ready:
            condition = models.Filter(should=[_replaced_by(head) for head in ready])
            self._pieces.write([head_point(head) for head in ready], condition)
        written = self._written(ready)
        for head in written:
            if head.stale:
                self._delete(_others_up_to(head))
        there = {head.version.doc_id for head in written}
        overtaken = [head for head in heads if head.version.doc_id not in there]
        standing = self.read([head.version.doc_id for head in overtaken])
        for head in overtaken:
            other = standing.get(head.version.doc_id)
            if other is not None and other.version != head.version:
                self._delete(_own_up_to(head))
        return overtaken

    def _with_sections(self, heads: Sequence[HeadRecord]) -> list[HeadRecord]:
        """Those whose sections are stored; overtaken ones may be left out."""
        left = list(heads)
        if not is_remote(self._client):
            return left
        expected = found = 0
        for pause in _LOOKS:
            if pause:
                time.sleep(pause)
                left = [head for head, state in self._states(left) if state != "overtaken"]
            expected, found = sum(head.n_sections for head in left), self._count_sections(left)
            if found >= expected:
                return left
        raise _lost(left, "section", expected, found)

    def _count_sections(self, heads: Sequence[HeadRecord]) -> int:
        """How many sections of these versions are stored."""
        if not heads:
            return 0
        wanted = models.Filter(
            must=[equals("kind", "section")], should=[of_version(head.version) for head in heads]
        )
        result = call(
            self._client,
            lambda: self._client.count(self._collection, count_filter=wanted, exact=True),
        )
        return int(result.count)

    def _written(self, heads: Sequence[HeadRecord]) -> list[HeadRecord]:
        """Those that stand, of heads that have been sent."""
        absent: list[HeadRecord] = []
        for pause in _LOOKS if is_remote(self._client) else (0.0,):
            time.sleep(pause)
            states = self._states(heads)
            absent = [head for head, state in states if state == "absent"]
            if not absent:
                return [head for head, state in states if state == "there"]
        raise _lost(heads, "head", len(heads), len(heads) - len(absent))

    def _states(self, heads: Sequence[HeadRecord]) -> list[tuple[HeadRecord, State]]:
        found = self.read([head.version.doc_id for head in heads])
        return [(head, _state(head, found.get(head.version.doc_id))) for head in heads]

    def _delete(self, wanted: models.Filter) -> None:
        selector = models.FilterSelector(filter=wanted)
        write(
            self._client,
            lambda: self._client.delete(self._collection, points_selector=selector, wait=True),
        )


def _state(head: HeadRecord, found: StoredHead | None) -> State:
    """Whether a head stands, or what it is to replace still does, or another ingest's."""
    if found is None:
        return "absent"
    if found.version == head.version and found.generation >= head.generation:
        # Of the same text with other metadata those stand that came first.
        return "there" if found.metadata_hash == head.facts.metadata_hash else "overtaken"
    return "absent" if found.generation == head.base else "overtaken"


def _replaced_by(head: HeadRecord) -> models.Filter:
    """The point that this head may be written over. Where there is none it is written anyway."""
    document = equals("doc_id", head.version.doc_id)
    # One that was not there at the start is another ingest's.
    which = equals("kind", "") if head.base is None else of_generation(head.base)
    return models.Filter(must=[document, which])


def _others_up_to(head: HeadRecord) -> models.Filter:
    """The sections of a document's other versions, up to the head's generation."""
    return models.Filter(
        must=[equals("kind", "section"), equals("doc_id", head.version.doc_id)],
        must_not=[of_version(head.version), of_later(head.generation)],
    )


def _own_up_to(head: HeadRecord) -> models.Filter:
    """The sections of the head's version, up to its generation."""
    return models.Filter(
        must=[equals("kind", "section"), of_version(head.version)],
        must_not=[of_later(head.generation)],
    )


def _lost(
    heads: Sequence[HeadRecord], kind: str, expected: int, found: int
) -> StoreUnreachableError:
    return StoreUnreachableError(
        f"Qdrant acknowledged {expected} {kind}s of {heads[0].version.doc_id!r} and "
        f"{len(heads) - 1} other documents, but has {found} of them. Check the server's disk, "
        "memory and replicas, and run again to store what was lost"
    )
