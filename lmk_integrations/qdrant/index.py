"""LandmarkIndex: one collection of long documents, filled and searched."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from qdrant_client import models

from lmk_integrations.encoder import DocumentEncoder
from lmk_integrations.encoder.settings import check_range
from lmk_integrations.errors import (
    ConfigError,
    StoreError,
)
from lmk_integrations.ingest.pipeline import PipelineOptions, run_pipeline
from lmk_integrations.ingest.prune import gone
from lmk_integrations.ingest.records import Sink
from lmk_integrations.ingest.report import IngestReport
from lmk_integrations.ingest.sources import ReadOptions, Sources
from lmk_integrations.qdrant.aliases import aliases_of
from lmk_integrations.qdrant.client import StoreClient, call
from lmk_integrations.qdrant.connect import connect
from lmk_integrations.qdrant.edge import EdgeClient
from lmk_integrations.qdrant.filters import as_filter
from lmk_integrations.qdrant.hits import SearchHit
from lmk_integrations.qdrant.items import Item
from lmk_integrations.qdrant.opened import OpenCollection
from lmk_integrations.qdrant.own_points import only, sections_of
from lmk_integrations.qdrant.queries import (
    DEFAULT_PREFETCH,
    FUSIONS,
    MODES,
    Fusion,
    HybridWeights,
    Mode,
    QueryParts,
)
from lmk_integrations.qdrant.recheck import of_one_collection
from lmk_integrations.qdrant.schema import LandmarkDatatype
from lmk_integrations.qdrant.search import Searcher
from lmk_integrations.qdrant.texts import (
    DocumentFacts,
    StoredDocument,
    document_facts,
    parts_of,
    read_documents,
)

DEFAULT_PASSAGE_TOKENS = 128
MAX_LIMIT = 1_000_000


class LandmarkIndex:
    """Long documents in one Qdrant collection.

    client: a QdrantClient, an EdgeClient, or a location for `connect`.
    encoder: an `LMKEncoder`, or any embedding functions as a `PlainEncoder`; None for what needs
        none: `delete`, `get`, `count`, `info`, searches by a vector and in mode "bm25".
    section_tokens: the most tokens of a section; None takes what the collection was filled with,
        else the largest whole number of encoder windows up to 1,024.
    language: of BM25's stemming and stop words; fixed when the collection is created.
    landmark_datatype: what landmarks are stored as, fixed then too: "float16" (the default), or
        "turbo8", Qdrant's rotated 8-bit numbers, in half the space.
    weights: of the hybrid formula.

    The collection may be an alias. A search notices when it has come to stand for another one.

    Raises SpaceMismatchError where the collection was filled by an encoder of another space.
    """

    def __init__(
        self,
        client: StoreClient | str | os.PathLike[str],
        collection: str,
        encoder: DocumentEncoder | None = None,
        *,
        section_tokens: int | None = None,
        language: str | None = None,
        landmark_datatype: LandmarkDatatype | None = None,
        passage_tokens: int = DEFAULT_PASSAGE_TOKENS,
        weights: HybridWeights | None = None,
    ) -> None:
        if not isinstance(collection, str) or not collection:
            raise ConfigError(f"collection={collection!r} must be a name")
        check_range("passage_tokens", passage_tokens, 1, MAX_LIMIT)
        self._owns_client = isinstance(client, str | os.PathLike)
        self.client: StoreClient = (
            connect(client) if isinstance(client, str | os.PathLike) else client
        )
        self.collection = collection
        self.encoder = encoder
        self.passage_tokens = passage_tokens
        self.weights = weights or HybridWeights()
        try:
            self._opened = OpenCollection(
                self.client,
                collection,
                encoder,
                section_tokens=section_tokens,
                language=language,
                landmark_datatype=landmark_datatype,
            )
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        return f"LandmarkIndex(collection={self.collection!r}, encoder={self.encoder!r})"

    def __enter__(self) -> LandmarkIndex:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the client, if this index opened it."""
        if self._owns_client:
            self.client.close()

    @property
    def exists(self) -> bool:
        """Whether the collection has been created, here or by someone else meanwhile."""
        return self._opened.exists

    @property
    def section_tokens(self) -> int:
        """The most tokens of the sections that are stored now."""
        return self._opened.section_tokens

    @property
    def recipe(self) -> str:
        """Equal recipes store the same points for the same text (hex)."""
        return self._opened.recipe

    # -- filling ---------------------------------------------------------------------------

    def ingest(
        self,
        sources: Any,
        *,
        options: ReadOptions | None = None,
        prune: bool = False,
        dry_run: bool = False,
        fail_fast: bool = False,
        on_progress: Callable[[IngestReport], None] | None = None,
        stop: threading.Event | None = None,
    ) -> IngestReport:
        """Store documents, skipping those that are stored as they are; the same call resumes.

        sources: paths, `Document`s, LangChain or LlamaIndex documents, a LangChain loader, or any
            iterable of these.
        prune: delete documents of the given folders whose file is gone, after a complete walk.
            A file that include or exclude leaves out is not gone.
        dry_run: read, cut and count, but neither encode nor store nor delete.
        fail_fast: raise DocumentError at the first item that fails instead of going on.
        on_progress: called with the growing report. stop: set it to end after the batch in flight.

        Others may ingest into the same collection of a server at the same time. Of a document that
        two of them store in different versions one stands, whole: that of the first to be done
        with it. The other one reports the document as failed, with the reason "overtaken".

        Raises StoreError; everything stored until then is kept.
        """
        encoder = self._opened.needs_encoder("ingest")
        options = options or ReadOptions()
        if prune and options.only is not None:
            raise ConfigError("prune looks for what is gone, so it cannot go with only=")
        reading = Sources(sources, options)
        sink = self._opened.ensure(encoder, dry_run=dry_run)
        pipeline = PipelineOptions(
            section_tokens=self.section_tokens,
            recipe=self.recipe,
            dry_run=dry_run,
            fail_fast=fail_fast,
            on_progress=on_progress,
            stop=stop or threading.Event(),
        )
        report = run_pipeline(reading.documents(), encoder, sink, pipeline)
        if prune and not report.interrupted:
            report.pruned_ids = _gone(reading, sink)
            if not dry_run:
                _delete_all(sink, report.pruned_ids)
        if isinstance(self.client, EdgeClient) and not report.interrupted and not dry_run:
            self.client.optimize_apart(self.collection, only_if_worth_it=True)
        return report

    def delete(self, doc_ids: str | Sequence[str]) -> int:
        """Delete documents and items by id, and a document's items by the document's id.

        Returns how many documents and items there were.
        """
        wanted = [doc_ids] if isinstance(doc_ids, str) else list(doc_ids)
        if not wanted or not self.exists:
            return 0
        sink = self._opened.sink()
        parts = parts_of(sink, wanted)
        if parts:
            sink.delete_where(models.Filter(must=[models.HasIdCondition(has_id=parts)]))
        return len(parts) + sink.delete(wanted)

    def delete_where(self, filter: models.Filter | Mapping[str, Any]) -> None:  # noqa: A002
        """Delete all points that a filter chooses. Raises ConfigError for an empty one."""
        wanted = as_filter(filter)
        if wanted is None or wanted == models.Filter():
            raise ConfigError("an empty filter would delete everything; delete the collection")
        if self.exists:
            self._opened.sink().delete_where(wanted)

    def put(self, items: Sequence[Item]) -> None:
        """Store items, one point each; one of a known id takes the old one's place.

        Needs an encoder only to make the collection. Raises DocumentError, before anything is
        stored, naming an item that cannot be.
        """
        if not items:
            return
        if self.encoder is not None or not self.exists:
            encoder = self._opened.needs_encoder("put into a new collection")
            self._opened.ensure(encoder, dry_run=False)
        assert self._opened.identity is not None
        self._opened.sink().write_items(items, int(self._opened.identity.space["dim"]))

    # -- looking ---------------------------------------------------------------------------

    def search(
        self,
        query: str = "",
        limit: int = 10,
        *,
        vector: Sequence[float] | None = None,
        mode: Mode = "hybrid",
        filter: models.Filter | Mapping[str, Any] | None = None,  # noqa: A002 - Qdrant's word
        per_document: int | None = None,
        prefetch: int = DEFAULT_PREFETCH,
        fusion: Fusion = "formula",
        weights: HybridWeights | None = None,
        passage_tokens: int | None = None,
    ) -> list[SearchHit]:
        """The best sections for a query, each with its best passage.

        vector: (dim,) of the query, in place of encoding it.
        mode: "hybrid" (landmarks and BM25), "dense" (the pooled section vector), "landmark" (the
            best landmark), "bm25", or "document" (the whole document's vector).
        filter: a Qdrant filter, or a mapping over metadata such as
            ``{"source": "a.pdf", "page": {"gte": 3}}``.
            In mode "document" it chooses documents, by metadata that they have as a whole.
        per_document: the most hits of one document, its best sections; None: any number.
        prefetch: candidates that each arm brings before they are scored by landmarks.
        fusion: how "hybrid" combines its arms: "formula", "rrf" or "dbsf".
        weights: of the formula; None: the index's own.
        Raises SpaceMismatchError where another collection has come behind the name, and holds
        vectors of another model.
        """
        if not isinstance(query, str):
            raise ConfigError(f"query={query!r} must be a string")
        for name, value, choices in (("mode", mode, MODES), ("fusion", fusion, FUSIONS)):
            if value not in choices:
                raise ConfigError(f"{name}={value!r} is not one of {', '.join(choices)}")
        for name, number in (("limit", limit), ("prefetch", prefetch)):
            check_range(name, number, 1, MAX_LIMIT)
        for name, maybe in (("passage_tokens", passage_tokens), ("per_document", per_document)):
            if maybe is not None:
                check_range(name, maybe, 1, MAX_LIMIT)
        if not self.exists:
            raise StoreError(
                f"there is no collection {self.collection!r}; ingest documents into it first"
            )
        wanted = as_filter(filter)

        def ask() -> list[SearchHit]:
            sparse = self._opened.bm25().encode_query(query) if mode in ("bm25", "hybrid") else None
            if mode == "bm25" and (sparse is None or not sparse.indices):
                return []
            parts = QueryParts(
                vector=self._query_vector(query, vector, needed=mode != "bm25"),
                sparse=sparse,
                filter=wanted,
                prefetch=max(prefetch, limit),
                landmarks=self._opened.identity is None or self._opened.identity.landmarks,
            )
            return Searcher(self.client, self.collection).run(
                parts,
                limit=limit,
                mode=mode,
                fusion=fusion,
                weights=weights or self.weights,
                per_document=per_document,
                passage_tokens=self.passage_tokens if passage_tokens is None else passage_tokens,
            )

        return of_one_collection(
            ask, lambda: self._opened.recipes, lambda: self._opened.reread(mode != "bm25")
        )

    def _query_vector(
        self, query: str, vector: Sequence[float] | None, *, needed: bool
    ) -> list[float]:
        if vector is not None:
            assert self._opened.identity is not None
            given, dim = np.asarray(vector, np.float32), int(self._opened.identity.space["dim"])
            if given.shape != (dim,) or not np.isfinite(given).all():
                raise ConfigError(
                    f"vector must be {dim} finite numbers, as in collection {self.collection!r}; "
                    f"got shape {given.shape}"
                )
            found: list[float] = given.tolist()
            return found
        if self.encoder is None and not needed:
            return []
        encoder = self._opened.needs_encoder("this search mode")
        return [float(x) for x in encoder.encode_queries([query])[0]]

    def get(self, doc_ids: str | Sequence[str]) -> dict[str, StoredDocument]:
        """Documents and items by id: the whole text, and the metadata as it was given.

        Those that are not stored, or not completely, are left out.
        """
        wanted = [doc_ids] if isinstance(doc_ids, str) else list(doc_ids)
        return read_documents(self._opened.sink(), wanted) if self.exists else {}

    def points(
        self, point_ids: Sequence[str], *, with_vectors: bool = False
    ) -> dict[str, models.Record]:
        """Points by `SearchHit.id` with their payloads; ``vector["lmk"]`` too, if asked for."""
        return (
            self._opened.sink().points(point_ids, with_vectors=with_vectors) if self.exists else {}
        )

    def scan(
        self,
        filter: models.Filter | None = None,  # noqa: A002 - Qdrant's word
        keys: Sequence[str] | None = None,
    ) -> Iterator[models.Record]:
        """All points that a filter chooses but heads: sections, items, those of other stores.

        keys: of the payload; None: all of it.
        """
        if self.exists:
            chosen = models.Filter(must=filter, must_not=only("head"))
            yield from self._opened.sink().records(chosen, keys)

    def documents(self) -> Iterator[DocumentFacts]:
        """The documents stored, in no order, read as they are asked for."""
        if self.exists:
            yield from document_facts(self._opened.sink())

    def count(self, doc_id: str | None = None) -> int:
        """Documents stored, or the sections of one document."""
        if not self.exists:
            return 0
        wanted = only("head") if doc_id is None else sections_of([doc_id])
        return int(self._count(wanted))

    def info(self) -> dict[str, Any]:
        """Facts about the collection, as JSON values. Raises StoreError where there is none."""
        if not self.exists:
            raise StoreError(f"there is no collection {self.collection!r}")
        identity = self._opened.identity
        return {
            "collection": self.collection,
            "aliases": aliases_of(self.client, self.collection),
            "documents": self._count(only("head")),
            "sections": self._count(only("section")),
            "items": self._count(only("item")),
            "points": self._count(None),
            "model": identity.model if identity else None,
            "space": dict(identity.space) if identity else None,
            "recipe": dict(identity.recipe) if identity else None,
            "bm25": dict(identity.bm25) if identity else None,
            "landmark_datatype": (
                identity.landmark_datatype if identity and identity.landmarks else None
            ),
        }

    def _count(self, wanted: models.Filter | None) -> int:
        result = call(
            self.client, lambda: self.client.count(self.collection, count_filter=wanted, exact=True)
        )
        return int(result.count)


def _gone(reading: Sources, sink: Sink) -> list[str]:
    """The ids of stored documents whose file is gone from a folder that was walked to its end."""
    return [
        doc_id
        for name, root in reading.complete_folders
        for doc_id in gone(sink.doc_ids(f"{name}/", root), reading.seen_ids)
    ]


def _delete_all(sink: Sink, doc_ids: Sequence[str]) -> None:
    for first in range(0, len(doc_ids), 64):
        sink.delete(doc_ids[first : first + 64])
