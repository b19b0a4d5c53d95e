"""Whether a rebuilt collection holds all that it should."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from qdrant_client import models

from lmk_integrations.errors import StoreError
from lmk_integrations.ingest.prune import gone
from lmk_integrations.ingest.report import IngestReport
from lmk_integrations.ingest.sources import ReadOptions, Sources
from lmk_integrations.qdrant.bm25 import Bm25Encoder
from lmk_integrations.qdrant.client import StoreClient, call
from lmk_integrations.qdrant.own_points import only
from lmk_integrations.qdrant.schema import CollectionIdentity, read_identity
from lmk_integrations.qdrant.store import QdrantSink
from lmk_integrations.records import Document, Failure

_PAGE = 256
_NAMED = 5  # documents that a message names


def own_identity(client: StoreClient, collection: str) -> CollectionIdentity:
    """The identity of a collection. Raises StoreError for one that is not ours."""
    identity = read_identity(client, collection)
    if identity is None:
        raise StoreError(
            f"collection {collection!r} was not made by lmk-integrations; rebuild under another "
            "name"
        )
    return identity


def open_sink(client: StoreClient, collection: str) -> QdrantSink:
    """What reads and writes the points of a collection that exists."""
    bm25 = Bm25Encoder.from_dict(dict(own_identity(client, collection).bm25))
    return QdrantSink(client, collection, bm25)


class Given:
    """The sources, and what came out of them."""

    def __init__(self, sources: Any, options: ReadOptions | None) -> None:
        self.reading = Sources(sources, options or ReadOptions())
        self.ids: list[str] = []

    def items(self) -> Iterator[Document | Failure]:
        """Everything in order; the ids of documents are kept."""
        self.ids.clear()
        for item in self.reading.documents():
            if isinstance(item, Document):
                doc_id = item.source if item.id is None else item.id
                if isinstance(doc_id, str):
                    self.ids.append(doc_id)
            yield item

    def gone(self, stored: Iterable[str], root: str) -> set[str]:
        """Those of a folder's stored documents whose file is no longer in it."""
        prefix = f"{root}/"
        mine = (doc_id for doc_id in stored if doc_id.startswith(prefix))
        return set(gone(mine, self.reading.seen_ids))

    def prune(self, sink: QdrantSink) -> list[str]:
        """Delete what is gone from the folders that were walked to their end. Returns its ids."""
        doomed = [
            doc_id
            for root, key in self.reading.complete_folders
            for doc_id in self.gone(sink.doc_ids(f"{root}/", key), root)
        ]
        for page in _pages(doomed):
            sink.delete(page)
        return doomed


class Check:
    """Whether a new collection can take the place of the old one."""

    def __init__(
        self,
        client: StoreClient,
        new: str,
        old: str | None,
        given: Given,
        ingest: IngestReport,
        recipe: str,
    ) -> None:
        self._client = client
        self._names = new, old
        self._given = given
        self._ingest = ingest
        self._recipe = recipe
        self._new = open_sink(client, new)
        self._failed = {item.name for item in ingest.failed}
        self._excused = self._failed | {item.name for item in ingest.skipped}

    def failures(self, *, allow: bool) -> Iterator[str]:
        """What could not be stored."""
        if self._failed and not allow:
            yield (
                f"{len(self._ingest.failed)} items failed ({_some(self._failed)}); mend "
                "them, or allow failures"
            )

    def stored(self, *, allow: bool) -> Iterator[str]:
        """Documents given that are not stored whole, under this recipe."""
        wrong: list[str] = []
        for page in _pages(self._given.ids):
            heads = self._new.heads(page)
            whole = {
                doc_id: head
                for doc_id, head in heads.items()
                if head.version.recipe == self._recipe
            }
            wrong += [name for name in page if name not in whole and name not in self._excused]
            expected = sum(head.n_sections for head in whole.values())
            if self._new.count_sections(list(whole)) != expected:
                wrong += [
                    name
                    for name, head in whole.items()
                    if self._new.count_sections([name]) != head.n_sections
                ]
        if wrong:
            yield f"{len(wrong)} documents are not stored whole ({_some(wrong)}); run again"

    def missing(self, *, allow_failures: bool, prune: bool) -> Iterator[str]:
        """What the old collection has and the new one has not."""
        new, old = self._names
        if old is None:
            return
        before = open_sink(self._client, old)
        excused = self._excused if allow_failures else set()
        lost = [
            doc_id
            for page in _pages(before.doc_ids())
            for doc_id in set(page) - self._new.heads(page).keys() - excused
        ]
        if lost and prune:
            roots = self._given.reading.complete_folders
            pruned = {
                doc_id
                for root, key in roots
                for doc_id in self._given.gone(before.doc_ids(f"{root}/", key), root)
            }
            lost = [doc_id for doc_id in lost if doc_id not in pruned]
        if lost:
            yield (
                f"{len(lost)} documents of {old!r} are not among those given ({_some(lost)}); "
                "give their sources too, prune those whose file is gone, or allow missing ones"
            )
        loose = self._loose(old) - self._loose(new)
        if loose > 0:
            yield (
                f"{loose} points of {old!r} were put there one by one, without a source to read "
                "again; put them into the new collection, or allow missing ones"
            )

    def _loose(self, collection: str) -> int:
        """Points that belong to no document."""
        others = models.Filter(must_not=[only("head"), only("section")])
        found = call(
            self._client,
            lambda: self._client.count(collection, count_filter=others, exact=True),
        )
        return int(found.count)


def _pages(ids: Iterable[str]) -> Iterator[list[str]]:
    source = iter(ids)
    while page := list(islice(source, _PAGE)):
        yield page


def _some(names: Iterable[str]) -> str:
    found = sorted(names)
    more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    return ", ".join(repr(name) for name in found[:_NAMED]) + more
