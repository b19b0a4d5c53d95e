"""What answers: qdrant-client's own store in memory, asked by operation, with errors as codes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel
from qdrant_client import QdrantClient
from qdrant_client import models as m


class RefusedError(Exception):
    """An operation refused, as an HTTP status and the server's words."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Behind:
    """Each method is an operation; all arguments are the REST interface's own models.

    strict: refuse filters by keys that have no fitting index, as Qdrant's cloud does.
    """

    def __init__(self, *, strict: bool = False) -> None:
        self.strict = strict
        self.client = QdrantClient(":memory:")
        self._mutex = threading.RLock()
        self._indexes: dict[str, dict[str, m.PayloadIndexInfo]] = {}

    def do(self, op: str, *arguments: Any) -> Any:
        """Perform one operation. Raises RefusedError."""
        with self._mutex:
            if self.strict and op not in ("list_collections", "get_aliases", "change_aliases"):
                self._check_indexes(*arguments)
            try:
                return getattr(self, op)(*arguments)
            # What qdrant_client's own store raises for requests that a server refuses.
            except (ValueError, KeyError, AssertionError, NotImplementedError) as error:
                text = str(error)
                missing = "not found" in text
                exists = "already exists" in text
                raise RefusedError(404 if missing else 409 if exists else 400, text) from error

    # -- collections

    def list_collections(self) -> m.CollectionsResponse:
        return self.client.get_collections()

    def collection_exists(self, name: str) -> bool:
        return self.client.collection_exists(name)

    def get_collection(self, name: str) -> m.CollectionInfo:
        info = self.client.get_collection(name)
        return info.model_copy(update={"payload_schema": self._indexes.get(self._real(name), {})})

    def create_collection(self, name: str, given: m.CreateCollection) -> bool:
        return self.client.create_collection(
            name, given.vectors or {}, given.sparse_vectors, metadata=given.metadata
        )

    def update_collection(self, name: str, given: m.UpdateCollection) -> bool:
        return self.client.update_collection(name, metadata=given.metadata)

    def delete_collection(self, name: str) -> bool:
        self._indexes.pop(name, None)
        return self.client.delete_collection(name)

    def get_aliases(self) -> m.CollectionsAliasesResponse:
        return self.client.get_aliases()

    def collection_aliases(self, name: str) -> m.CollectionsAliasesResponse:
        return self.client.get_collection_aliases(name)

    def change_aliases(self, actions: list[Any]) -> bool:
        return self.client.update_collection_aliases(actions)

    def create_index(self, name: str, field: str, schema: m.PayloadSchemaType) -> m.UpdateResult:
        made = m.PayloadIndexInfo(data_type=schema, points=0)
        self._indexes.setdefault(self._real(name), {})[field] = made
        return _DONE

    def delete_index(self, name: str, field: str) -> m.UpdateResult:
        self._indexes.get(self._real(name), {}).pop(field, None)
        return _DONE

    def _check_indexes(self, name: str, *arguments: Any) -> None:
        """Every condition's key has an index of a type that the condition can use."""
        there = self._indexes.get(self._real(name), {})
        for key, types in _filtered(arguments):
            if key not in there or (types and there[key].data_type not in types):
                wanted = ", ".join(sorted(types)) or "any"
                raise RefusedError(
                    400,
                    f'Bad request: Index required but not found for "{key}" of one of the '
                    f"following types: [{wanted}]. Help: Create an index for this key or use a "
                    "different filter.",
                )

    def _real(self, name: str) -> str:
        aliases = {item.alias_name: item.collection_name for item in self.get_aliases().aliases}
        return aliases.get(name, name)

    # -- writing

    def upsert(
        self, name: str, points: list[Any], update_filter: Any = None, update_mode: Any = None
    ) -> m.UpdateResult:
        return self.client.upsert(
            name, points, update_filter=update_filter, update_mode=update_mode
        )

    def delete(self, name: str, selector: Any) -> m.UpdateResult:
        return self.client.delete(name, selector)

    def set_payload(self, name: str, payload: Any, where: Any, key: Any) -> m.UpdateResult:
        return self.client.set_payload(name, payload, where, key=key)

    def overwrite_payload(self, name: str, payload: Any, where: Any) -> m.UpdateResult:
        return self.client.overwrite_payload(name, payload, where)

    def delete_payload(self, name: str, keys: list[str], where: Any) -> m.UpdateResult:
        return self.client.delete_payload(name, keys, where)

    def clear_payload(self, name: str, where: Any) -> m.UpdateResult:
        return self.client.clear_payload(name, where)

    def update_vectors(self, name: str, points: list[Any], condition: Any) -> m.UpdateResult:
        return self.client.update_vectors(name, points, update_filter=condition)

    def delete_vectors(self, name: str, vectors: list[str], where: Any) -> m.UpdateResult:
        return self.client.delete_vectors(name, vectors, where)

    # -- reading

    def retrieve(self, name: str, ids: list[Any], payload: Any, vectors: Any) -> list[m.Record]:
        return self.client.retrieve(name, ids, payload, vectors)

    def scroll(self, name: str, given: m.ScrollRequest) -> tuple[list[m.Record], Any]:
        return self.client.scroll(
            name,
            given.filter,
            given.limit or 10,
            given.order_by,
            given.offset,
            True if given.with_payload is None else given.with_payload,
            given.with_vector or False,
        )

    def count(self, name: str, condition: Any, exact: bool) -> m.CountResult:
        return self.client.count(name, condition, exact=exact)

    def query(self, name: str, given: m.QueryRequest) -> m.QueryResponse:
        return self.client.query_points(
            name,
            query=given.query,
            using=given.using,
            prefetch=given.prefetch,
            query_filter=given.filter,
            search_params=given.params,
            limit=10 if given.limit is None else given.limit,
            offset=given.offset,
            with_payload=given.with_payload or False,
            with_vectors=given.with_vector or False,
            score_threshold=given.score_threshold,
            lookup_from=given.lookup_from,
        )

    def query_batch(self, name: str, searches: list[m.QueryRequest]) -> list[m.QueryResponse]:
        return [self.query(name, given) for given in searches]

    def query_groups(self, name: str, given: m.QueryGroupsRequest) -> m.GroupsResult:
        return self.client.query_points_groups(
            name,
            group_by=given.group_by,
            query=given.query,
            using=given.using,
            prefetch=given.prefetch,
            query_filter=given.filter,
            search_params=given.params,
            limit=given.limit or 10,
            group_size=given.group_size or 3,
            with_payload=given.with_payload or False,
            with_vectors=given.with_vector or False,
            score_threshold=given.score_threshold,
            with_lookup=given.with_lookup,
            lookup_from=given.lookup_from,
        )

    def facet(self, name: str, given: m.FacetRequest) -> m.FacetResponse:
        return self.client.facet(
            name, given.key, given.filter, given.limit or 10, exact=bool(given.exact)
        )


_DONE = m.UpdateResult(status=m.UpdateStatus.COMPLETED, operation_id=0)


def _filtered(given: Any) -> Iterator[tuple[str, set[str]]]:
    """The keys of all conditions in the arguments of an operation, with the types they need."""
    if isinstance(given, m.FieldCondition):
        yield given.key, _types(given)
    elif isinstance(given, m.IsEmptyCondition):
        yield given.is_empty.key, set()
    elif isinstance(given, m.IsNullCondition):
        yield given.is_null.key, set()
    elif isinstance(given, list | tuple):
        for one in given:
            yield from _filtered(one)
    elif isinstance(given, BaseModel):
        for name in type(given).model_fields:
            yield from _filtered(getattr(given, name))


def _types(condition: m.FieldCondition) -> set[str]:
    match = condition.match
    if match is None:
        numbers = isinstance(condition.range, m.Range)
        return {"integer", "float"} if numbers else {"datetime"}
    if isinstance(match, m.MatchText | m.MatchTextAny | m.MatchPhrase):
        return {"text"}
    values = match.value if isinstance(match, m.MatchValue) else next(iter(vars(match).values()))
    one = values[0] if isinstance(values, list) and values else values
    kinds = {bool: {"bool"}, int: {"integer"}, str: {"keyword", "uuid"}}
    return kinds.get(type(one), {"keyword", "integer", "uuid"})
