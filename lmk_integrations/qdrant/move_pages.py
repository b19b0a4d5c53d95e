"""Points in groups that are small enough, whatever they weigh."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from qdrant_client import models

from lmk_integrations.qdrant.client import StoreClient, call, scroll_pages
from lmk_integrations.qdrant.schema import RECORD

MAX_POINTS = 128
# Of a request's body. A server takes 32 MiB; proxies before it often less than it.
MAX_BYTES = 12 << 20

# As JSON: a sign, 17 digits, a point, leading zeros or an exponent, a comma.
_FLOAT_BYTES = 24
# A text is in a payload twice, in up to four bytes per character.
_CHARACTER_BYTES = 8
_LANDMARK_BYTES = 40  # end, tokens and share of one
_POINT_BYTES = 4096
_UNKNOWN_BYTES = MAX_BYTES // 8
_PEEKED = ("kind", "doc_id", "hash", "recipe", "start", "ends")

KINDS = ("section", "head", "item")
OTHER = "other"  # what another program stored

PointId = models.ExtendedPointId
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Peek:
    """What is known of a point before it is read.

    kind: of KINDS, or OTHER. settled: its id and its payload decide its vectors. n_bytes: about
    what it weighs as JSON.
    """

    id: PointId
    kind: str
    doc_id: str | None
    settled: bool
    n_bytes: int


def peeks(
    client: StoreClient, name: str, dim: int, wanted: models.Filter | None = None
) -> Iterator[list[Peek]]:
    """All points by pages, in the order of their ids."""
    fields = [f"{RECORD}.{key}" for key in _PEEKED]
    for records in scroll_pages(client, name, wanted, payload=fields):
        yield [_peek(record, dim) for record in records]


def _peek(record: models.Record, dim: int) -> Peek:
    own = (record.payload or {}).get(RECORD)
    if not isinstance(own, Mapping) or own.get("kind") not in KINDS:
        return Peek(record.id, OTHER, None, False, _UNKNOWN_BYTES)
    rows, characters = 0, 0
    if ends := own.get("ends"):
        rows, characters = len(ends), ends[-1] - own.get("start", 0)
    weight = (rows + 2) * dim * _FLOAT_BYTES + rows * _LANDMARK_BYTES
    weight += characters * _CHARACTER_BYTES + _POINT_BYTES
    settled = "hash" in own and "recipe" in own
    return Peek(record.id, str(own["kind"]), own.get("doc_id"), settled, weight)


def groups(
    items: Iterable[Item], weight: Callable[[Item], int], max_bytes: int = MAX_BYTES
) -> Iterator[list[Item]]:
    """Runs of at most MAX_POINTS items and `max_bytes`; a heavier one goes alone."""
    group: list[Item] = []
    total = 0
    for item in items:
        n_bytes = weight(item)
        if group and (len(group) >= MAX_POINTS or total + n_bytes > max_bytes):
            yield group
            group, total = [], 0
        group.append(item)
        total += n_bytes
    if group:
        yield group


def read(
    client: StoreClient, name: str, ids: Sequence[PointId], *, payload: Any, vectors: bool
) -> dict[PointId, models.Record]:
    """The points that exist, by id."""
    if not ids:
        return {}
    records = call(
        client,
        lambda: client.retrieve(name, ids, with_payload=payload, with_vectors=vectors),
    )
    return {record.id: record for record in records}


def json_bytes(record: models.Record) -> int:
    """The most that a point weighs as JSON."""
    named = record.vector if isinstance(record.vector, dict) else {"": record.vector or []}
    numbers = sum(_count(vector) for vector in named.values())
    text = json.dumps(record.payload, ensure_ascii=False, default=str)
    return numbers * _FLOAT_BYTES + len(text.encode("utf-8", "surrogatepass")) + 512


def _count(vector: Any) -> int:
    if isinstance(vector, models.SparseVector):
        return 2 * len(vector.indices)
    if len(vector) and isinstance(vector[0], list | tuple):
        return sum(map(len, vector))
    return len(vector)
