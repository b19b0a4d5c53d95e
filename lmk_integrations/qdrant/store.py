"""The Qdrant side of an ingest: implements `ingest.records.Sink` over any client."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from qdrant_client import models

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
from lmk_integrations.qdrant.client import PAGE, StoreClient, call, scroll, write
from lmk_integrations.qdrant.heads import Heads
from lmk_integrations.qdrant.items import Item, item_point
from lmk_integrations.qdrant.own_points import (
    GENERATION,
    equals,
    generation_of,
    of_documents,
    of_generation,
    of_version,
    only,
    sections_of,
    version_of,
)
from lmk_integrations.qdrant.pieces import Pieces
from lmk_integrations.qdrant.points import (
    facts_of,
    head_payload,
    section_payload,
    section_point,
)
from lmk_integrations.qdrant.schema import LMK, RECORD
from lmk_integrations.qdrant.upsert import upsert

Result = TypeVar("Result")


class QdrantSink:
    """Reads and writes the points of one collection. Network calls are retried.

    Others may write into it at the same time, other versions of the same documents too: see
    `lmk_integrations.qdrant.heads`.
    """

    def __init__(self, client: StoreClient, collection: str, bm25: Bm25Encoder) -> None:
        self._client = client
        self._collection = collection
        self._bm25 = bm25
        self._pieces = Pieces(
            client, lambda batch, condition: upsert(client, collection, batch, condition)
        )
        self._heads = Heads(client, collection, self._pieces)

    def heads(self, doc_ids: Sequence[str]) -> dict[str, StoredHead]:
        """The heads of those documents that have one."""
        return self._heads.read(doc_ids)

    def versions(self, doc_ids: Sequence[str]) -> dict[str, dict[Version, int]]:
        """The versions of these documents of which any section is stored, with the highest
        generation of these.
        """
        if not doc_ids:
            return {}
        found: dict[str, dict[Version, int]] = {}
        wanted = self._scroll(
            sections_of(doc_ids),
            payload=[f"{RECORD}.{key}" for key in ("doc_id", "hash", "recipe", GENERATION)],
        )
        for record in wanted:
            own = (record.payload or {})[RECORD]
            version = version_of(own)
            known = found.setdefault(version.doc_id, {})
            known[version] = max(known.get(version, 0), generation_of(own))
        return found

    def sections(self, version: Version, generation: int | None = None) -> StoredSections:
        """The stored sections of one version; of one generation where given."""
        ordinals: set[int] = set()
        hashes: set[str] = set()
        pooled: Any = None
        wanted = self._scroll(
            sections_of([version.doc_id], version),
            payload=[
                f"{RECORD}.{key}" for key in ("ordinal", "pooled_norm", "metadata_hash", GENERATION)
            ],
            vectors=[LMK],
        )
        for record in wanted:
            own = (record.payload or {})[RECORD]
            if generation not in (None, generation_of(own)):
                continue
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

    def write_heads(self, records: Sequence[HeadRecord]) -> list[HeadRecord]:
        """Store heads, then delete the sections of other versions where they may exist.

        Returns those that another ingest came before: they are not stored, nor their sections.
        """
        overtaken = self._heads.write(records)
        for record in overtaken:
            self._show_as_stored(record)
        return overtaken

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
            self._overwrite(point_id, own, shown)
        for point_id, payload in self._retrieve([head_id(version.doc_id)]):
            if version_of(payload[RECORD]) == version:
                own = {**payload[RECORD], "metadata_hash": facts.metadata_hash}
                self._overwrite(point_id, own, head_payload(version, facts, own))

    def delete(self, doc_ids: Sequence[str]) -> int:
        """Delete documents and items. Returns how many of them there were."""
        if not doc_ids:
            return 0
        # A head or an item, one for each.
        whole = models.Filter(must=[of_documents(doc_ids)], must_not=[equals("kind", "section")])
        known = self._call(
            lambda: self._client.count(self._collection, count_filter=whole, exact=True)
        )
        # In one operation: nothing is left behind, whatever interrupts it.
        self.delete_where(models.Filter(must=[of_documents(doc_ids)]))
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

    def _show_as_stored(self, overtaken: HeadRecord) -> None:
        """Give sections the facts of the head that stands for them, if one does."""
        version = overtaken.version
        for _, payload in self._retrieve([head_id(version.doc_id)]):
            if version_of(payload[RECORD]) == version:
                self.update_facts(version, facts_of(payload), range(overtaken.n_sections))

    def _overwrite(self, point_id: str, own: Mapping[str, Any], payload: dict[str, Any]) -> None:
        """Replace a point's payload, if it is still the point of this record."""
        wanted = models.Filter(
            must=[
                models.HasIdCondition(has_id=[point_id]),
                of_version(version_of(own)),
                of_generation(generation_of(own)),
            ]
        )
        selector = models.FilterSelector(filter=wanted)
        write(
            self._client,
            lambda: self._client.overwrite_payload(
                self._collection, payload=payload, points=selector, wait=True
            ),
        )

    def _delete(self, selector: Any) -> None:
        write(
            self._client,
            lambda: self._client.delete(self._collection, points_selector=selector, wait=True),
        )


def _named(vectors: Any, name: str) -> Any:
    return vectors[name] if isinstance(vectors, dict) else vectors
