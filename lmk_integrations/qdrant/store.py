"""The Qdrant side of an ingest: implements `ingest.records.Sink` over any client."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
from qdrant_client import models

from lmk_integrations.errors import StoreUnreachableError
from lmk_integrations.ingest.ids import head_id, section_id
from lmk_integrations.ingest.records import (
    Facts,
    HeadRecord,
    SectionRecord,
    StoredHead,
    StoredSections,
    Version,
)
from lmk_integrations.ingest.writer import MAX_BATCH_BYTES
from lmk_integrations.qdrant.bm25 import Bm25Encoder
from lmk_integrations.qdrant.client import PAGE, StoreClient, call, is_remote, scroll, write
from lmk_integrations.qdrant.items import Item, item_point
from lmk_integrations.qdrant.pieces import Pieces
from lmk_integrations.qdrant.points import (
    head_payload,
    head_point,
    section_payload,
    section_point,
)
from lmk_integrations.qdrant.schema import LMK, RECORD
from lmk_integrations.qdrant.upsert import upsert

Result = TypeVar("Result")

# Replicas may be a moment behind what has been acknowledged.
_LOOKS = (0.0, 0.5, 2.0)


class QdrantSink:
    """Reads and writes the points of one collection. Network calls are retried."""

    def __init__(self, client: StoreClient, collection: str, bm25: Bm25Encoder) -> None:
        self._client = client
        self._collection = collection
        self._bm25 = bm25
        self._pieces = Pieces(client, lambda batch: upsert(client, collection, batch))

    def heads(self, doc_ids: Sequence[str]) -> dict[str, StoredHead]:
        """The heads of those documents that have one."""
        if not doc_ids:
            return {}
        records = self._call(
            lambda: self._client.retrieve(
                self._collection, [head_id(d) for d in doc_ids], with_payload=[RECORD]
            )
        )
        found = (stored_head((record.payload or {})[RECORD]) for record in records)
        return {head.version.doc_id: head for head in found}

    def versions(self, doc_ids: Sequence[str]) -> dict[str, set[Version]]:
        """The versions of these documents of which any section is stored."""
        if not doc_ids:
            return {}
        found: dict[str, set[Version]] = {}
        wanted = self._scroll(
            sections_of(doc_ids),
            payload=[f"{RECORD}.doc_id", f"{RECORD}.hash", f"{RECORD}.recipe"],
        )
        for record in wanted:
            version = _version((record.payload or {})[RECORD])
            found.setdefault(version.doc_id, set()).add(version)
        return found

    def sections(self, version: Version) -> StoredSections:
        """The stored sections of one version."""
        ordinals: set[int] = set()
        hashes: set[str] = set()
        pooled: Any = None
        wanted = self._scroll(
            sections_of([version.doc_id], version),
            payload=[f"{RECORD}.{key}" for key in ("ordinal", "pooled_norm", "metadata_hash")],
            vectors=[LMK],
        )
        for record in wanted:
            own = (record.payload or {})[RECORD]
            vector = np.asarray(_named(record.vector, LMK), np.float64)
            part = vector * float(own["pooled_norm"])
            pooled = part if pooled is None else pooled + part
            ordinals.add(int(own["ordinal"]))
            hashes.add(str(own["metadata_hash"]))
        return StoredSections(frozenset(ordinals), pooled, frozenset(hashes))

    def count_sections(self, doc_ids: Sequence[str]) -> int:
        """How many sections of these documents are stored, of whatever version."""
        if not doc_ids:
            return 0
        result = self._call(
            lambda: self._client.count(
                self._collection, count_filter=sections_of(doc_ids), exact=True
            )
        )
        return int(result.count)

    def records(
        self, wanted: models.Filter, keys: Sequence[str] | None = None
    ) -> Iterator[models.Record]:
        """All points that a filter chooses, with their payloads, or only some keys of them."""
        return self._scroll(wanted, payload=True if keys is None else list(keys))

    def points(self, ids: Sequence[str], *, with_vectors: bool) -> dict[str, models.Record]:
        """Points by id, with their payloads, and their own vectors where asked for."""
        vectors: Any = [LMK] if with_vectors else False
        found: dict[str, models.Record] = {}
        for first in range(0, len(ids), PAGE):
            # Another store's ids may be numbers.
            page = [int(one) if one.isdecimal() else one for one in ids[first : first + PAGE]]
            records = self._call(
                lambda page=page: self._client.retrieve(  # type: ignore[misc]
                    self._collection, page, with_payload=True, with_vectors=vectors
                )
            )
            found |= {str(record.id): record for record in records}
        return found

    def write_items(self, items: Sequence[Item], dim: int) -> None:
        """Store items, in batches bounded in points and bytes; returns when they are readable."""
        points = [item_point(item, self._bm25, dim) for item in items]
        batch: list[models.PointStruct] = []
        size = 0
        for item, point in zip(items, points, strict=True):
            if batch and (len(batch) >= PAGE or size + item.n_bytes > MAX_BATCH_BYTES):
                self._upsert(batch)
                batch, size = [], 0
            batch.append(point)
            size += item.n_bytes
        if batch:
            self._upsert(batch)

    def write_sections(self, records: Sequence[SectionRecord]) -> None:
        """Store sections; returns when they are readable."""
        self._upsert([section_point(record, self._bm25) for record in records])

    def write_heads(self, records: Sequence[HeadRecord]) -> None:
        """Store heads, then delete the sections of other versions where they may exist.

        A server's word is checked: a head is written when the server counts the sections that it
        stands for, and an old version goes when the head is there.
        """
        self._check_kept(records, "section", sum(record.n_sections for record in records))
        self._upsert([head_point(record) for record in records])
        self._check_kept(records, "head", len(records))
        for record in records:
            if record.stale:
                self._delete(_stale_sections(record.version))

    def update_facts(self, version: Version, facts: Facts, ordinals: Iterable[int]) -> None:
        """Replace what is shown with stored sections, and with the head if it is of this version.

        Vectors stay. Sections first, the head last: an interrupted update is done again.
        """
        ids = [
            section_id(version.doc_id, version.content_hash, version.recipe, ordinal)
            for ordinal in ordinals
        ]
        for point_id, payload in self._retrieve(ids):
            own = {**payload[RECORD], "metadata_hash": facts.metadata_hash}
            shown = section_payload(point_id, version, facts, own, payload["page_content"])
            self._overwrite(point_id, shown)
        for point_id, payload in self._retrieve([head_id(version.doc_id)]):
            if _version(payload[RECORD]) == version:
                own = {**payload[RECORD], "metadata_hash": facts.metadata_hash}
                self._overwrite(point_id, head_payload(version, facts, own))

    def delete(self, doc_ids: Sequence[str]) -> int:
        """Delete documents and items. Returns how many of them there were."""
        if not doc_ids:
            return 0
        # A head or an item, one for each.
        whole = models.Filter(must=[_of(doc_ids)], must_not=[_equals("kind", "section")])
        known = self._call(
            lambda: self._client.count(self._collection, count_filter=whole, exact=True)
        )
        # In one operation: nothing is left behind, whatever interrupts it.
        self.delete_where(models.Filter(must=[_of(doc_ids)]))
        return int(known.count)

    def delete_where(self, wanted: models.Filter) -> None:
        """Delete all points that a filter chooses."""
        self._delete(models.FilterSelector(filter=wanted))

    def doc_ids(self, prefix: str = "", root: str | None = None) -> Iterator[str]:
        """The ids of stored documents that begin with a prefix; of one folder where given."""
        for record in self._scroll(only("head"), payload=[f"{RECORD}.doc_id", f"{RECORD}.root"]):
            own = (record.payload or {})[RECORD]
            if own["doc_id"].startswith(prefix) and root in (None, own.get("root")):
                yield str(own["doc_id"])

    # -- inside ----------------------------------------------------------------------------

    def _retrieve(self, ids: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
        """Ids and payloads of the points that exist."""
        for first in range(0, len(ids), PAGE):
            page = ids[first : first + PAGE]
            records = self._call(
                lambda page=page: self._client.retrieve(  # type: ignore[misc]
                    self._collection, page, with_payload=True
                )
            )
            yield from ((str(record.id), dict(record.payload or {})) for record in records)

    def _call(self, request: Callable[[], Result]) -> Result:
        return call(self._client, request)

    def _scroll(
        self, wanted: models.Filter, *, payload: Any, vectors: Any = False
    ) -> Iterator[models.Record]:
        return scroll(self._client, self._collection, wanted, payload=payload, vectors=vectors)

    def _upsert(self, points: list[models.PointStruct]) -> None:
        self._pieces.write(points)

    def _check_kept(self, heads: Sequence[HeadRecord], kind: str, expected: int) -> None:
        """Raise StoreUnreachableError where a server lost points that it has acknowledged."""
        if not is_remote(self._client):
            return
        versions = models.Filter(
            must=[_equals("kind", kind)], should=[_of_version(head.version) for head in heads]
        )
        found = 0
        for pause in _LOOKS:
            time.sleep(pause)
            count = self._call(
                lambda: self._client.count(self._collection, count_filter=versions, exact=True)
            )
            found = int(count.count)
            if found >= expected:
                return
        raise StoreUnreachableError(
            f"Qdrant acknowledged {expected} {kind}s of {heads[0].version.doc_id!r} and "
            f"{len(heads) - 1} other documents, but has {found} of them. Check the server's disk, "
            "memory and replicas, and run again to store what was lost"
        )

    def _overwrite(self, point_id: Any, payload: dict[str, Any]) -> None:
        write(
            self._client,
            lambda: self._client.overwrite_payload(
                self._collection, payload=payload, points=[point_id], wait=True
            ),
        )

    def _delete(self, selector: Any) -> None:
        write(
            self._client,
            lambda: self._client.delete(self._collection, points_selector=selector, wait=True),
        )


def only(kind: str) -> models.Filter:
    """Points of one kind: "section" or "head"."""
    return models.Filter(must=[_equals("kind", kind)])


def sections_of(doc_ids: Sequence[str], version: Version | None = None) -> models.Filter:
    """The sections of documents; of one version of them where given."""
    must: list[Any] = [_equals("kind", "section"), _of(doc_ids)]
    if version is not None:
        must.append(_of_version(version))
    return models.Filter(must=must)


def stored_head(own: dict[str, Any]) -> StoredHead:
    """A head's payload record, read."""
    return StoredHead(
        _version(own), str(own["metadata_hash"]), int(own["sections"]), int(own["n_tokens"])
    )


def _stale_sections(current: Version) -> models.FilterSelector:
    return models.FilterSelector(
        filter=models.Filter(
            must=[_equals("kind", "section"), _equals("doc_id", current.doc_id)],
            must_not=[_of_version(current)],
        )
    )


def _of_version(version: Version) -> models.Filter:
    return models.Filter(
        must=[
            _equals("doc_id", version.doc_id),
            _equals("hash", version.content_hash),
            _equals("recipe", version.recipe),
        ]
    )


def _of(doc_ids: Sequence[str]) -> models.FieldCondition:
    return models.FieldCondition(key=f"{RECORD}.doc_id", match=models.MatchAny(any=list(doc_ids)))


def _equals(key: str, value: str) -> models.FieldCondition:
    return models.FieldCondition(key=f"{RECORD}.{key}", match=models.MatchValue(value=value))


def _version(own: dict[str, Any]) -> Version:
    return Version(str(own["doc_id"]), str(own["hash"]), str(own["recipe"]))


def _named(vectors: Any, name: str) -> Any:
    return vectors[name] if isinstance(vectors, dict) else vectors
