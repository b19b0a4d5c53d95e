"""Reading points with an EdgeClient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import qdrant_edge as qe
from qdrant_client.http import models

from lmk_integrations.errors import StoreError
from lmk_integrations.qdrant.edge.arguments import check_limit, check_options
from lmk_integrations.qdrant.edge.client_base import (
    ClientBase,
    edge_filter,
    payload_selector,
    vector_selector,
)
from lmk_integrations.qdrant.edge.collection import EdgeCollection
from lmk_integrations.qdrant.edge.convert_point import to_client_id, to_record, to_scored_point
from lmk_integrations.qdrant.edge.convert_query import (
    DEFAULT_LIMIT,
    QueryContext,
    to_edge_order_by,
    to_edge_query,
)
from lmk_integrations.qdrant.edge.engine import engine_call
from lmk_integrations.qdrant.edge.groups import collect_groups, widen_prefetches
from lmk_integrations.qdrant.edge.validate import prepare_id


class QueryMethods(ClientBase):
    """Searching, listing and counting points."""

    def query_points(
        self,
        collection_name: str,
        query: Any = None,
        using: str | None = None,
        prefetch: Any = None,
        query_filter: models.Filter | None = None,
        search_params: models.SearchParams | None = None,
        limit: int = DEFAULT_LIMIT,
        offset: int | None = None,
        with_payload: Any = True,
        with_vectors: Any = False,
        score_threshold: float | None = None,
        lookup_from: models.LookupLocation | None = None,
        **options: Any,
    ) -> models.QueryResponse:
        """Search; see QdrantClient.query_points. Scores are those of the server's engine.

        Raises StoreError for a query, filter or formula that the engine cannot compute.
        """
        check_options("query_points", options)
        collection = self._collection(collection_name)
        context = QueryContext(
            fields=collection.fields,
            fetch=lambda lookup, name, point_id: self._fetch_vector(
                collection if lookup is None else self._collection(lookup.collection),
                name,
                point_id,
            ),
            live_statistics=collection.stale_statistics,
        )
        with engine_call("Reading the query"):
            request = to_edge_query(
                context,
                query=query,
                using=using,
                prefetch=prefetch,
                query_filter=query_filter,
                params=search_params,
                limit=check_limit("limit", limit, 1),
                offset=check_limit("offset", offset or 0, 0),
                score_threshold=score_threshold,
                with_payload=payload_selector(with_payload),
                with_vector=vector_selector(with_vectors, collection),
                lookup_from=lookup_from,
            )
        points = [to_scored_point(point) for point in collection.query(request)]
        return models.QueryResponse.model_construct(points=points)

    def query_batch_points(
        self, collection_name: str, requests: Sequence[models.QueryRequest], **options: Any
    ) -> list[models.QueryResponse]:
        """One response per request, in the same order."""
        check_options("query_batch_points", options)
        return [
            self.query_points(
                collection_name,
                query=request.query,
                using=request.using,
                prefetch=request.prefetch,
                query_filter=request.filter,
                search_params=request.params,
                limit=DEFAULT_LIMIT if request.limit is None else request.limit,
                offset=request.offset,
                with_payload=request.with_payload,
                with_vectors=request.with_vector,
                score_threshold=request.score_threshold,
                lookup_from=request.lookup_from,
                shard_key_selector=request.shard_key,
            )
            for request in requests
        ]

    def query_points_groups(
        self,
        collection_name: str,
        group_by: str,
        query: Any = None,
        using: str | None = None,
        prefetch: Any = None,
        query_filter: models.Filter | None = None,
        limit: int = DEFAULT_LIMIT,
        group_size: int = 3,
        with_payload: Any = True,
        with_vectors: Any = False,
        with_lookup: Any = None,
        **query_arguments: Any,
    ) -> models.GroupsResult:
        """The best `limit` values of the payload field `group_by`, with `group_size` points each.

        As on a server, points without the field are left out from the start, and prefetch limits
        are multiplied by `group_size`, so that candidates last.
        Further arguments are those of query_points.
        """
        check_limit("limit", limit, 1)
        check_limit("group_size", group_size, 1)
        if with_lookup is not None:
            raise StoreError("EdgeClient.query_points_groups: with_lookup is not offered.")
        missing = models.IsEmptyCondition(is_empty=models.PayloadField(key=group_by))
        grouped = models.Filter(
            must=None if query_filter is None else [query_filter], must_not=[missing]
        )

        def fetch(count: int) -> list[models.ScoredPoint]:
            return self.query_points(
                collection_name,
                query=query,
                using=using,
                prefetch=widen_prefetches(prefetch, group_size),
                query_filter=grouped,
                limit=count,
                with_payload=[group_by],
                with_vectors=False,
                **query_arguments,
            ).points

        groups = collect_groups(fetch, group_by, limit, group_size)
        wanted = [hit.id for group in groups for hit in group.hits]
        full = {
            record.id: record
            for record in self.retrieve(
                collection_name, wanted, with_payload=with_payload, with_vectors=with_vectors
            )
        }
        for group in groups:
            for hit in group.hits:
                record = full.get(hit.id)
                hit.payload = None if record is None else record.payload
                hit.vector = None if record is None else record.vector
        return models.GroupsResult.model_construct(groups=groups)

    def retrieve(
        self,
        collection_name: str,
        ids: Sequence[Any],
        with_payload: Any = True,
        with_vectors: Any = False,
        **options: Any,
    ) -> list[models.Record]:
        """The points with these ids that exist, in the order asked for."""
        check_options("retrieve", options)
        collection = self._collection(collection_name)
        wanted = [prepare_id(value) for value in ids]
        unique: list[Any] = list(dict.fromkeys(wanted))
        found = collection.retrieve(
            unique, payload_selector(with_payload), vector_selector(with_vectors, collection)
        )
        records = {to_client_id(record.id): record for record in found}
        return [to_record(records[point_id]) for point_id in wanted if point_id in records]

    def scroll(
        self,
        collection_name: str,
        scroll_filter: models.Filter | None = None,
        limit: int = DEFAULT_LIMIT,
        order_by: Any = None,
        offset: Any = None,
        with_payload: Any = True,
        with_vectors: Any = False,
        **options: Any,
    ) -> tuple[list[models.Record], int | str | None]:
        """One page of points by id, or by an indexed payload field, and the next page's offset."""
        check_options("scroll", options)
        collection = self._collection(collection_name)
        if order_by is not None and offset is not None:
            raise StoreError("scroll takes no offset together with order_by. Use start_from.")
        with engine_call("Reading the scroll request"):
            request = qe.ScrollRequest(
                offset=None if offset is None else prepare_id(offset),
                limit=check_limit("limit", limit, 1),
                filter=edge_filter(scroll_filter),
                with_payload=payload_selector(with_payload),
                with_vector=vector_selector(with_vectors, collection),
                order_by=None if order_by is None else to_edge_order_by(order_by),
            )
        records, following = collection.scroll(request)
        return (
            [to_record(record) for record in records],
            None if following is None else to_client_id(following),
        )

    def count(
        self,
        collection_name: str,
        count_filter: models.Filter | None = None,
        exact: bool = True,
        **options: Any,
    ) -> models.CountResult:
        """Number of points that match."""
        check_options("count", options)
        count = self._collection(collection_name).count(edge_filter(count_filter), exact)
        return models.CountResult(count=count)

    def facet(
        self,
        collection_name: str,
        key: str,
        facet_filter: models.Filter | None = None,
        limit: int = DEFAULT_LIMIT,
        exact: bool = False,
        **options: Any,
    ) -> models.FacetResponse:
        """Values of a payload field and their numbers of points. The field needs an index."""
        check_options("facet", options)
        condition = edge_filter(facet_filter)
        with engine_call("Reading the facet request"):
            request = qe.FacetRequest(key, check_limit("limit", limit, 1), exact, condition)
        hits = self._collection(collection_name).facet(request).hits
        return models.FacetResponse(
            hits=[models.FacetValueHit(value=hit.value, count=hit.count) for hit in hits]
        )

    def _fetch_vector(self, collection: EdgeCollection, name: str, point_id: int | str) -> Any:
        selector = vector_selector([name], collection)
        for record in collection.retrieve([point_id], False, selector):
            vectors = to_record(record).vector
            found = vectors.get(name) if isinstance(vectors, dict) else vectors
            if found is not None:
                return found
        raise StoreError(
            f"Point {point_id} of collection {collection.name!r} does not exist or has no vector "
            f"{name!r}, so it cannot be searched by."
        )
