"""LlamaIndex's MetadataFilters as Qdrant filters."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from llama_index.core.vector_stores.types import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
)
from qdrant_client import models

from lmk_integrations.errors import ConfigError
from lmk_integrations.ingest.ids import item_id
from lmk_integrations.qdrant.filters import as_filter, path_of
from lmk_integrations.qdrant.schema import RECORD

Texts = Callable[[str], Iterable[str]]

_PREFIX = "metadata."
_BOUNDS = {
    FilterOperator.GT: "gt",
    FilterOperator.GTE: "gte",
    FilterOperator.LT: "lt",
    FilterOperator.LTE: "lte",
}
_TEXT = (FilterOperator.TEXT_MATCH, FilterOperator.TEXT_MATCH_INSENSITIVE)
# At the top of a payload these are no metadata.
_NOT_METADATA = {"metadata", "page_content", "_node_content", "_node_type", RECORD}


def translate(filters: MetadataFilters | None, texts: Texts) -> models.Filter | None:
    """Filters as Qdrant's, with the meaning that they have in LlamaIndex's SimpleVectorStore.

    texts: gives the strings that are stored under a key; asked for TEXT_MATCH_INSENSITIVE only,
        which Qdrant has no condition for.
    Where a value is a list, EQ, IN and the bounds ask whether any of its elements is such a one.
    Bounds take numbers, and ISO 8601 dates as strings. A key ``a.b`` looks into the mapping ``a``.
    Raises ConfigError for a value that an operator cannot take.
    """
    if filters is None or not filters.filters:
        return None
    conditions: list[Any] = []
    for one in filters.filters:
        condition = (
            translate(one, texts) if isinstance(one, MetadataFilters) else _condition(one, texts)
        )
        if condition is not None:
            conditions.append(condition)
    if not conditions:
        return None
    if filters.condition == FilterCondition.OR:
        return models.Filter(should=conditions)
    if filters.condition == FilterCondition.NOT:
        return models.Filter(must_not=conditions)
    return models.Filter(must=conditions)


def of_documents(doc_ids: Sequence[str]) -> models.Filter:
    """Points of documents: nodes by their SOURCE, and nodes that are documents themselves."""
    inside = models.MatchAny(any=list(doc_ids))
    keys = ("doc_id", f"{RECORD}.doc_id")
    return models.Filter(should=[models.FieldCondition(key=key, match=inside) for key in keys])


def of_nodes(node_ids: Sequence[str]) -> models.Filter:
    """Points of nodes, whoever wrote them: ours by a digest of the id, others by the id itself."""
    ids: list[Any] = [item_id(node_id) for node_id in node_ids]
    ids += [node_id for node_id in node_ids if _is_uuid(node_id)]
    ids += [int(node_id) for node_id in node_ids if _is_number(node_id)]
    return models.Filter(must=[models.HasIdCondition(has_id=ids)])


def paths_of(key: str) -> list[str]:
    """Where a metadata key may lie in a payload: in its metadata, or at its top."""
    path = path_of(key)
    return [path, path.removeprefix(_PREFIX)]


def all_of(*wanted: models.Filter | None) -> models.Filter | None:
    """Points that every filter chooses."""
    given: list[Any] = [one for one in wanted if one is not None]
    return models.Filter(must=given) if given else None


def _condition(one: MetadataFilter, texts: Texts) -> models.Filter:
    operator, key = one.operator, one.key
    if operator in (FilterOperator.NE, FilterOperator.NIN):
        positive = FilterOperator.EQ if operator == FilterOperator.NE else FilterOperator.IN
        asked = MetadataFilter(key=key, value=one.value, operator=positive)
        return models.Filter(must_not=[_condition(asked, texts)])
    if operator == FilterOperator.IS_EMPTY or (operator == FilterOperator.EQ and one.value is None):
        return models.Filter(must_not=[_either(key, _has_content(key))])
    if operator in _TEXT:
        return _text(one, texts)
    if operator in _BOUNDS:
        return _either(key, _matching(key, {_BOUNDS[operator]: _single(one)}))
    if operator in (FilterOperator.EQ, FilterOperator.CONTAINS):
        return _either(key, _matching(key, _single(one)))
    values: list[Any] = [_either(key, _matching(key, value)) for value in _several(one)]
    if operator == FilterOperator.ALL:
        return models.Filter(must=[*values, _either(key, _is_there(key))])
    if operator in (FilterOperator.IN, FilterOperator.ANY):
        return models.Filter(should=values) if values else _nothing()
    raise ConfigError(f"filter on {key!r}: the operator {operator!r} is not known")


def _text(one: MetadataFilter, texts: Texts) -> models.Filter:
    wanted, exact = _single(one), one.operator == FilterOperator.TEXT_MATCH
    if not isinstance(wanted, str):
        raise ConfigError(f"filter on {one.key!r}: {one.operator.value} needs a string")
    substring = getattr(models, "MatchSubstring", None)  # qdrant-client 1.17 does not have it
    if exact and substring is not None:
        path = paths_of(one.key)[0]
        condition = models.FieldCondition(key=path, match=substring(substring=wanted))
        return _either(one.key, condition)
    fold = str if exact else str.lower
    found = sorted({text for text in texts(one.key) if fold(wanted) in fold(text)})
    return _either(one.key, _matching(one.key, found)) if found else _nothing()


def _matching(key: str, wanted: Any) -> Any:
    """The condition on ``metadata.<key>``."""
    found = as_filter({key: wanted})
    assert found is not None
    assert isinstance(found.must, list)
    return found.must[0]


def _either(key: str, condition: Any) -> models.Filter:
    """The condition on metadata, wherever it lies: LlamaIndex's own store keeps it at the top."""
    if key in _NOT_METADATA:
        return models.Filter(must=[condition])
    return models.Filter(should=[condition, _at_top(condition)])


def _at_top(condition: Any) -> Any:
    if isinstance(condition, models.IsEmptyCondition):
        path = condition.is_empty.key.removeprefix(_PREFIX)
        return models.IsEmptyCondition(is_empty=models.PayloadField(key=path))
    if isinstance(condition, models.FieldCondition):
        return condition.model_copy(update={"key": condition.key.removeprefix(_PREFIX)})
    moved: dict[str, Any] = {
        name: [_at_top(inner) for inner in getattr(condition, name)]
        for name in ("must", "should", "must_not")
        if getattr(condition, name)
    }
    return models.Filter(**moved)


def _has_content(key: str) -> models.Filter:
    return models.Filter(must_not=[_matching(key, None), _matching(key, "")])


def _is_there(key: str) -> models.Filter:
    return models.Filter(must_not=[_matching(key, None)])


def _nothing() -> models.Filter:
    return models.Filter(must=[models.HasIdCondition(has_id=[])])


def _single(one: MetadataFilter) -> Any:
    if one.value is None or isinstance(one.value, list):
        raise ConfigError(
            f"filter on {one.key!r}: {one.operator.value} needs one string or number, got "
            f"{one.value!r}; for several there are in, nin, any and all"
        )
    return one.value


def _several(one: MetadataFilter) -> list[Any]:
    if one.value is None:
        raise ConfigError(f"filter on {one.key!r}: {one.operator.value} needs a list, got None")
    return list(one.value) if isinstance(one.value, list) else [one.value]


def _is_uuid(node_id: str) -> bool:
    try:
        uuid.UUID(node_id)
    except ValueError:
        return False
    return True


def _is_number(node_id: str) -> bool:
    return node_id.isascii() and node_id.isdigit() and int(node_id) < 1 << 64
