"""MetadataFilters mean here what they mean in LlamaIndex's own SimpleVectorStore."""

from __future__ import annotations

import itertools

import pytest
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores.types import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
)
from llama_index.core.vector_stores.utils import build_metadata_filter_fn

from lmk_integrations.errors import ConfigError
from lmk_integrations.llama_index import LMKVectorStore
from lmk_integrations.qdrant import connect

SCALARS = [
    {"word": "Hello World", "number": 3, "nested": {"a": "x"}},
    {"word": "hello", "number": 3.0},
    {"word": "worldly", "number": -1.5},
    {"word": "", "number": 0},
    {"word": None, "number": None},
    {},
    {"word": "x,y", "number": 10, "a key": "quoted"},
]
LISTS = [
    {"tags": ["a", "b"]},
    {"tags": ["b"]},
    {"tags": ["A", "c"]},
    {"tags": []},
    {},
    {"tags": [1, 2]},
    {"tags": [2, 3.0]},
]
METADATA = {str(n): metadata for n, metadata in enumerate(SCALARS + LISTS)}
Op = FilterOperator


@pytest.fixture(scope="module", params=["edge", "memory"])
def store(request, tmp_path_factory):
    location = tmp_path_factory.mktemp("filters") / "store"
    client = connect(":memory:" if request.param == "memory" else location)
    made = LMKVectorStore(client, "docs")
    made.add(
        [
            TextNode(text="text", id_=name, metadata=metadata, embedding=[1.0, float(name)])
            for name, metadata in METADATA.items()
        ]
    )
    yield made
    client.close()


def chosen(store, filters):
    return {node.node_id for node in store.get_nodes(filters=filters)}


def expected(filters):
    """By LlamaIndex's own function; where it raises, as for 3 > "a", nothing matches."""
    matches = build_metadata_filter_fn(lambda name: METADATA[name], filters)
    found = set()
    for name in METADATA:
        try:
            if matches(name):
                found.add(name)
        except TypeError:
            pass
    return found


def one(key, value, operator, condition=FilterCondition.AND):
    filters = [MetadataFilter(key=key, value=value, operator=operator)]
    return MetadataFilters(filters=filters, condition=condition)


CASES = [
    *itertools.product(["word"], ["hello", "", "absent"], [Op.EQ, Op.NE]),
    *itertools.product(["number"], [3, 3.0, 0, -1.5], [Op.EQ, Op.NE, Op.GT, Op.GTE, Op.LT, Op.LTE]),
    *itertools.product(["word"], [["hello", "x,y"], ["absent"], []], [Op.IN, Op.NIN]),
    *itertools.product(["number"], [[3, 10], [0.0, 7.5]], [Op.IN, Op.NIN]),
    *itertools.product(["tags"], [["a", "c"], ["b"], ["absent"]], [Op.ANY, Op.ALL]),
    *itertools.product(["tags"], [[2, 1], [3]], [Op.ANY, Op.ALL]),
    *itertools.product(["tags"], ["a", "b", 2, 3, "absent"], [Op.CONTAINS]),
    *itertools.product(
        ["word"],
        ["World", "world", "lo W", "HELLO", "o w", "absent"],
        [Op.TEXT_MATCH, Op.TEXT_MATCH_INSENSITIVE],
    ),
    *itertools.product(["word", "number", "tags", "absent"], [None], [Op.IS_EMPTY]),
    ("a key", "quoted", Op.EQ),
]


@pytest.mark.parametrize(("key", "value", "operator"), CASES)
def test_an_operator_means_what_llama_index_means(store, key, value, operator):
    """Each operator and its negation choose what LlamaIndex's own filter function chooses."""
    filters = one(key, value, operator)
    assert chosen(store, filters) == expected(filters)
    negated = one(key, value, operator, FilterCondition.NOT)
    assert chosen(store, negated) == set(METADATA) - expected(filters)


def test_every_operator_is_tested():
    """A new operator of LlamaIndex needs a case here."""
    assert {operator for _, _, operator in CASES} == set(FilterOperator)


def test_conditions_and_nesting(store):
    """AND, OR and NOT combine, also within each other; an empty group restricts nothing."""
    hello = MetadataFilter(key="word", value="hello")
    three = MetadataFilter(key="number", value=3)
    tens = MetadataFilter(key="number", value=5, operator=Op.GT)
    both, either, neither = (
        MetadataFilters(filters=[hello, three], condition=condition)
        for condition in ("and", "or", "not")
    )
    assert chosen(store, both) == {"1"} == expected(both)
    assert chosen(store, either) == {"0", "1"} == expected(either)
    assert chosen(store, neither) == set(METADATA) - {"0", "1"} == expected(neither)
    nested = MetadataFilters(filters=[both, tens], condition="or")
    assert chosen(store, nested) == {"1", "6"}
    deep = MetadataFilters(
        filters=[MetadataFilters(filters=[nested, three], condition="not"), hello, tens],
        condition="or",
    )
    assert chosen(store, deep) == set(METADATA) - {"0"}
    empty = MetadataFilters(filters=[])
    assert chosen(store, empty) == set(METADATA)
    assert chosen(store, MetadataFilters(filters=[empty, hello])) == {"1"}


def test_keys_look_into_mappings(store):
    """``a.b`` is the key b of the mapping a."""
    assert chosen(store, one("nested.a", "x", Op.EQ)) == {"0"}
    assert chosen(store, one("nested.a", "X", Op.TEXT_MATCH_INSENSITIVE)) == {"0"}


def test_dates_are_ordered(store):
    """Bounds take ISO 8601 dates; other strings have no order that Qdrant knows."""
    store.add([TextNode(text="t", id_="d", metadata={"day": "2024-05-01"}, embedding=[1.0, 1.0])])
    assert chosen(store, one("day", "2024-04-30", Op.GT)) == {"d"}
    assert chosen(store, one("day", "2024-05-01T12:00:00Z", Op.GT)) == set()
    store.delete_nodes(["d"])
    with pytest.raises(ConfigError, match="ISO 8601"):
        chosen(store, one("word", "hello", Op.GT))


@pytest.mark.parametrize(
    ("value", "operator"),
    [
        (["a"], Op.EQ),
        (["a"], Op.GT),
        (None, Op.GT),
        (None, Op.IN),
        (None, Op.CONTAINS),
        (3, Op.TEXT_MATCH),
        (["a"], Op.TEXT_MATCH_INSENSITIVE),
    ],
)
def test_values_that_an_operator_cannot_take(store, value, operator):
    """They are refused, and the message names the key."""
    with pytest.raises(ConfigError, match="'word'"):
        chosen(store, one("word", value, operator))


def test_none_asks_for_absence(store):
    """EQ None chooses what has no value, NE None what has one."""
    empty = expected(one("word", None, Op.IS_EMPTY))
    assert chosen(store, one("word", None, Op.EQ)) == empty
    assert chosen(store, one("word", None, Op.NE)) == set(METADATA) - empty
