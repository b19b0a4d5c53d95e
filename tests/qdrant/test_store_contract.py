"""What every kind of store does, with values worked out by hand.

Runs on memory and on the embedded engine, and on a server when QDRANT_URL is set.
"""

from __future__ import annotations

import math
import uuid
from typing import Any

import numpy as np
import pytest
from qdrant_client import models as m
from store_backends import create

from lmk_integrations.qdrant.bm25 import Bm25Encoder

MAXSIM = m.MultiVectorConfig(comparator=m.MultiVectorComparator.MAX_SIM)
UUID = "00000000-0000-0000-0000-00000000002a"


def small(store: Any, name: str = "small") -> None:
    """Two dimensions, so that scores can be worked out in the head."""
    store.create_collection(
        name,
        vectors_config={
            "lmk": m.VectorParams(size=2, distance=m.Distance.COSINE),
            "landmarks": m.VectorParams(
                size=2,
                distance=m.Distance.DOT,
                multivector_config=MAXSIM,
                datatype=m.Datatype.FLOAT16,
                hnsw_config=m.HnswConfigDiff(m=0),
            ),
        },
        sparse_vectors_config={"bm25": m.SparseVectorParams(modifier=m.Modifier.IDF)},
        metadata={"space": "abc"},
    )


def fill_small(store: Any) -> None:
    small(store)
    store.upsert(
        "small",
        [
            m.PointStruct(
                id=1,
                vector={
                    "lmk": [3.0, 4.0],
                    "landmarks": [[1.0, 0.0], [0.0, 1.0]],
                    "bm25": m.SparseVector(indices=[7, 3], values=[2.0, 1.0]),
                },
                payload={"doc": "a", "n": 1},
            ),
            m.PointStruct(
                id=UUID,
                vector={
                    "lmk": [2.0, 0.0],
                    "landmarks": [[0.6, 0.8]],
                    "bm25": m.SparseVector(indices=[7], values=[1.0]),
                },
                payload={"doc": "b", "n": 2},
            ),
            m.PointStruct(id=3, vector={"lmk": [0.0, -5.0]}, payload={"doc": "b", "n": 3}),
        ],
    )


def ranking(response: Any) -> list[tuple[Any, float]]:
    return [(point.id, round(point.score, 4)) for point in response.points]


def test_a_collection_can_be_made_described_and_removed(store: Any) -> None:
    """get_collection gives back what create_collection was given, metadata included."""
    assert not store.collection_exists("small")
    small(store)
    assert store.collection_exists("small")
    assert "small" in [item.name for item in store.get_collections().collections]
    info = store.get_collection("small")
    assert info.status == m.CollectionStatus.GREEN
    assert info.points_count == 0
    vectors = info.config.params.vectors
    assert (vectors["lmk"].size, vectors["lmk"].distance) == (2, m.Distance.COSINE)
    assert vectors["landmarks"].multivector_config == MAXSIM
    assert vectors["landmarks"].datatype == m.Datatype.FLOAT16
    assert vectors["landmarks"].hnsw_config.m == 0
    assert info.config.params.sparse_vectors["bm25"].modifier == m.Modifier.IDF
    assert info.config.metadata == {"space": "abc"}
    store.update_collection("small", metadata={"recipe": [1, 2], "space": "xyz"})
    assert store.get_collection("small").config.metadata == {"recipe": [1, 2], "space": "xyz"}
    assert store.delete_collection("small")
    assert not store.collection_exists("small")
    assert not store.delete_collection("small")


def test_the_unnamed_vector(store: Any) -> None:
    """A collection with one unnamed vector takes and gives plain lists."""
    store.create_collection("plain", m.VectorParams(size=2, distance=m.Distance.DOT))
    store.upsert("plain", [m.PointStruct(id=5, vector=[1.0, 2.0], payload=None)])
    config = store.get_collection("plain").config.params
    assert isinstance(config.vectors, m.VectorParams)
    (record,) = store.retrieve("plain", [5], with_vectors=True)
    assert (record.vector, record.payload) == ([1.0, 2.0], {})
    assert ranking(store.query_points("plain", [3.0, 1.0])) == [(5, 5.0)]


def test_dense_search(store: Any) -> None:
    """Cosine of (1, 0) with (3, 4), (2, 0) and (0, -5) is 0.6, 1 and 0."""
    fill_small(store)
    assert ranking(store.query_points("small", [1.0, 0.0], using="lmk")) == [
        (UUID, 1.0),
        (1, 0.6),
        (3, 0.0),
    ]
    page = store.query_points("small", [1.0, 0.0], using="lmk", limit=1, offset=1)
    assert ranking(page) == [(1, 0.6)]
    high = store.query_points("small", [1.0, 0.0], using="lmk", score_threshold=0.7)
    assert ranking(high) == [(UUID, 1.0)]
    only_b = m.Filter(must=[m.FieldCondition(key="doc", match=m.MatchValue(value="b"))])
    assert ranking(store.query_points("small", [1.0, 0.0], using="lmk", query_filter=only_b)) == [
        (UUID, 1.0),
        (3, 0.0),
    ]


def test_maxsim_search(store: Any) -> None:
    """The score is the sum over query rows of the best landmark; points without rows are out."""
    fill_small(store)
    found = store.query_points("small", [[1.0, 0.0], [0.5, 0.5]], using="landmarks")
    # 1: max(1, 0) + max(.5, .5) = 1.5; UUID: .6 + .5 * (.6 + .8) = 1.3
    assert [point.id for point in found.points] == [1, UUID]
    assert [point.score for point in found.points] == pytest.approx([1.5, 1.3], abs=1e-3)


def test_sparse_search_with_idf(store: Any) -> None:
    """IDF counts the points that have the vector: two, not three."""
    fill_small(store)
    query = m.SparseVector(indices=[3, 7], values=[1.0, 1.0])
    rare, common = math.log(1.5 / 1.5 + 1), math.log(0.5 / 2.5 + 1)
    assert ranking(store.query_points("small", query, using="bm25")) == [
        (1, round(rare + 2 * common, 4)),
        (UUID, round(common, 4)),
    ]
    nothing = m.SparseVector(indices=[99], values=[1.0])
    assert store.query_points("small", nothing, using="bm25").points == []


def test_idf_follows_deletions_and_replacements(store: Any) -> None:
    """A deleted or replaced point no longer counts as a document."""
    fill_small(store)
    store.delete("small", [1])
    query = m.SparseVector(indices=[7], values=[1.0])
    alone = math.log(0.5 / 1.5 + 1)
    assert ranking(store.query_points("small", query, using="bm25")) == [(UUID, round(alone, 4))]
    other = m.SparseVector(indices=[8], values=[1.0])
    store.upsert("small", [m.PointStruct(id=UUID, vector={"bm25": other})])
    store.upsert("small", [m.PointStruct(id=9, vector={"bm25": query})])
    one_of_two = math.log(1.5 / 1.5 + 1)
    assert ranking(store.query_points("small", query, using="bm25")) == [(9, round(one_of_two, 4))]


def test_reciprocal_rank_fusion(store: Any) -> None:
    """With k = 2 the ranks 1, 2, 3 are worth 1/2, 1/3 and 1/4."""
    fill_small(store)
    prefetch = [
        m.Prefetch(query=[1.0, 0.0], using="lmk", limit=3),
        m.Prefetch(query=[[1.0, 0.0]], using="landmarks", limit=3),
    ]
    rrf = m.FusionQuery(fusion=m.Fusion.RRF)
    # lmk: UUID, 1, 3; landmarks: 1, UUID. So UUID and 1 tie at 5/6.
    fused = ranking(store.query_points("small", rrf, prefetch=prefetch))
    assert sorted(fused[:2], key=str) == sorted([(UUID, 0.8333), (1, 0.8333)], key=str)
    assert fused[2] == (3, 0.25)


def test_the_hybrid_formula(store: Any) -> None:
    """a * landmark + b * bm25 / (bm25 + c), with 0 for a candidate that one side lacks."""
    fill_small(store)
    query = m.SparseVector(indices=[3], values=[1.0])
    candidates = [
        m.Prefetch(query=[1.0, 0.0], using="lmk", limit=3),
        m.Prefetch(query=query, using="bm25", limit=3),
    ]
    share = m.DivExpression(
        div=m.DivParams(left="$score[1]", right=m.SumExpression(sum=["$score[1]", 2.0]))
    )
    found = store.query_points(
        "small",
        m.FormulaQuery(
            formula=m.SumExpression(
                sum=[
                    m.MultExpression(mult=[0.5, "$score[0]"]),
                    m.MultExpression(mult=[4.0, share]),
                ]
            ),
            defaults={"$score[0]": 0.0, "$score[1]": 0.0},
        ),
        prefetch=[
            m.Prefetch(query=[[0.0, 1.0]], using="landmarks", limit=5, prefetch=candidates),
            m.Prefetch(query=query, using="bm25", limit=5, prefetch=candidates),
        ],
    )
    bm25 = math.log(2.0)
    # Point 3 is a candidate of both, but has neither landmarks nor terms, so no stage keeps it.
    assert [point.id for point in found.points] == [1, UUID]
    assert [point.score for point in found.points] == pytest.approx(
        [0.5 + 4 * bm25 / (bm25 + 2), 0.4], abs=1e-3
    )


def test_upsert_replaces_the_whole_point(store: Any) -> None:
    """Vectors and payload that are not given again are gone."""
    fill_small(store)
    store.upsert("small", [m.PointStruct(id=1, vector={"lmk": [1.0, 0.0]}, payload={"x": 1})])
    (record,) = store.retrieve("small", [1], with_vectors=True)
    assert (record.payload, record.vector) == ({"x": 1}, {"lmk": [1.0, 0.0]})
    assert store.count("small").count == 3


def test_upsert_takes_batches(store: Any) -> None:
    """models.Batch, by column and by row, with UUIDs as text or objects."""
    small(store)
    store.upsert(
        "small",
        m.Batch(
            ids=[1, uuid.UUID(UUID)],
            vectors={
                "lmk": [[1.0, 0.0], [0.0, 1.0]],
                "bm25": [m.SparseVector(indices=[1], values=[1.0])] * 2,
            },
            payloads=[{"n": 1}, {"n": 2}],
        ),
    )
    records = store.retrieve("small", [UUID, 1])
    assert [(record.id, record.payload) for record in records] == [(UUID, {"n": 2}), (1, {"n": 1})]
    store.create_collection("plain", m.VectorParams(size=2, distance=m.Distance.DOT))
    store.upsert("plain", m.Batch(ids=[1, 2], vectors=[[1.0, 0.0], [0.0, 1.0]]))
    assert store.count("plain").count == 2


def test_upload_points_takes_any_iterable(store: Any) -> None:
    """A generator longer than a batch is stored whole."""
    small(store)
    store.upload_points(
        "small",
        (m.PointStruct(id=i, vector={"lmk": [1.0, float(i)]}, payload={}) for i in range(10)),
        batch_size=3,
        wait=True,
    )
    assert store.count("small").count == 10


@pytest.mark.parametrize(
    "selector",
    [
        [1, UUID],
        [1, uuid.UUID(UUID)],
        m.PointIdsList(points=[1, UUID]),
        m.Filter(must=[m.FieldCondition(key="n", range=m.Range(lte=2))]),
        m.FilterSelector(filter=m.Filter(must_not=[m.HasIdCondition(has_id=[3])])),
    ],
)
def test_points_are_deleted_by_every_selector(store: Any, selector: Any) -> None:
    """What the selector names is gone, the rest stays; deleting again is no error."""
    fill_small(store)
    for _ in range(2):
        assert store.delete("small", selector).status == m.UpdateStatus.COMPLETED
        assert [record.id for record in store.scroll("small")[0]] == [3]


def test_payloads_can_be_changed(store: Any) -> None:
    """set merges, overwrite replaces, delete removes keys, clear removes all."""
    fill_small(store)

    def payload(point: Any) -> Any:
        return store.retrieve("small", [point])[0].payload

    store.set_payload("small", {"extra": True}, points=[1])
    assert payload(1) == {"doc": "a", "n": 1, "extra": True}
    store.set_payload("small", {"b": 2}, points=[1], key="deep.er")
    assert payload(1)["deep"] == {"er": {"b": 2}}
    of_b = m.Filter(must=[m.FieldCondition(key="doc", match=m.MatchValue(value="b"))])
    store.overwrite_payload("small", {"z": 0}, points=of_b)
    assert payload(3) == payload(UUID) == {"z": 0}
    store.delete_payload("small", ["extra", "deep"], points=m.PointIdsList(points=[1]))
    assert payload(1) == {"doc": "a", "n": 1}
    store.clear_payload("small", [1])
    assert payload(1) == {}


def test_single_vectors_can_be_changed(store: Any) -> None:
    """update_vectors and delete_vectors leave the other vectors alone."""
    fill_small(store)
    store.update_vectors("small", [m.PointVectors(id=1, vector={"lmk": [1.0, 0.0]})])
    store.delete_vectors("small", ["bm25"], points=[1])
    (record,) = store.retrieve("small", [1], with_vectors=True)
    assert record.vector == {"lmk": [1.0, 0.0], "landmarks": [[1.0, 0.0], [0.0, 1.0]]}


@pytest.mark.parametrize(
    ("mode", "expected"), [("upsert", [9, 9]), ("insert_only", [1, 9]), ("update_only", [9])]
)
def test_update_modes(store: Any, mode: str, expected: list[int]) -> None:
    """insert_only leaves existing points alone, update_only adds none."""
    small(store)
    store.upsert("small", [m.PointStruct(id=1, vector={}, payload={"v": 1})])
    both = [m.PointStruct(id=i, vector={}, payload={"v": 9}) for i in (1, 2)]
    store.upsert("small", both, update_mode=m.UpdateMode(mode))
    assert [record.payload["v"] for record in store.scroll("small")[0]] == expected


def test_a_conditional_upsert(store: Any) -> None:
    """Only existing points that match the condition are replaced; new points are inserted."""
    fill_small(store)
    condition = m.Filter(must=[m.FieldCondition(key="n", match=m.MatchValue(value=1))])
    new = [m.PointStruct(id=i, vector={}, payload={"n": 100 + i}) for i in (1, 3, 4)]
    store.upsert("small", new, update_filter=condition)
    numbers = {record.id: record.payload["n"] for record in store.scroll("small")[0]}
    assert numbers == {1: 101, UUID: 2, 3: 3, 4: 104}


def test_count_and_paging(store: Any) -> None:
    """count honours the filter; scroll gives the id to go on with, then None."""
    fill_small(store)
    of_b = m.Filter(must=[m.FieldCondition(key="doc", match=m.MatchValue(value="b"))])
    assert store.count("small", of_b, exact=True).count == 2
    first, offset = store.scroll("small", limit=2)
    assert [record.id for record in first] == [1, 3]
    rest, end = store.scroll("small", limit=2, offset=offset)
    assert ([record.id for record in rest], end) == ([UUID], None)


def test_retrieve_keeps_the_order_asked_for(store: Any) -> None:
    """Ids that do not exist are left out; integers stay int and UUIDs are text."""
    fill_small(store)
    ids = [record.id for record in store.retrieve("small", [3, uuid.UUID(UUID), 77, 1])]
    assert ids == [3, UUID, 1]
    assert [type(point_id) for point_id in ids] == [int, str, int]


def test_aliases_stand_for_collections(store: Any) -> None:
    """An alias is read and written through, moved in one step, and gone with its collection."""
    fill_small(store)
    small(store, "next")

    def point_to(collection: str) -> list[Any]:
        return [
            m.CreateAliasOperation(
                create_alias=m.CreateAlias(alias_name="live", collection_name=collection)
            )
        ]

    store.update_collection_aliases(point_to("small"))
    assert store.collection_exists("live")
    assert store.count("live").count == 3
    assert store.get_collection("live").config.metadata == {"space": "abc"}
    assert [alias.alias_name for alias in store.get_collection_aliases("small").aliases] == ["live"]
    drop = m.DeleteAliasOperation(delete_alias=m.DeleteAlias(alias_name="live"))
    store.update_collection_aliases([drop, *point_to("next")])
    assert store.count("live").count == 0
    rename = m.RenameAlias(old_alias_name="live", new_alias_name="newest")
    store.update_collection_aliases([m.RenameAliasOperation(rename_alias=rename)])
    aliases = {alias.alias_name: alias.collection_name for alias in store.get_aliases().aliases}
    assert aliases == {"newest": "next"}
    store.delete_collection("next")
    assert not store.collection_exists("newest")


def test_batches_of_queries(store: Any) -> None:
    """Each request gets its own answer, in order."""
    fill_small(store)
    answers = store.query_batch_points(
        "small",
        [
            m.QueryRequest(query=[1.0, 0.0], using="lmk", limit=1, with_payload=["doc"]),
            m.QueryRequest(query=[[0.0, 1.0]], using="landmarks", limit=1, with_vector=["lmk"]),
        ],
    )
    assert [answer.points[0].id for answer in answers] == [UUID, 1]
    assert answers[0].points[0].payload == {"doc": "b"}
    assert answers[1].points[0].payload is None
    assert answers[1].points[0].vector["lmk"] == pytest.approx([0.6, 0.8])


def test_groups(store: Any) -> None:
    """The best points of each document."""
    fill_small(store)
    groups = store.query_points_groups(
        "small", "doc", [1.0, 0.0], using="lmk", limit=2, group_size=2
    ).groups
    assert [(group.id, [hit.id for hit in group.hits]) for group in groups] == [
        ("b", [UUID, 3]),
        ("a", [1]),
    ]


def test_random_sampling(store: Any) -> None:
    """Sampling gives distinct points that exist."""
    fill_small(store)
    sample = m.SampleQuery(sample=m.Sample.RANDOM)
    assert {p.id for p in store.query_points("small", sample).points} == {1, UUID, 3}


def test_an_empty_sparse_vector_can_be_stored(store: Any) -> None:
    """A text without terms finds nothing and is found by nothing."""
    small(store)
    encoder = Bm25Encoder()
    texts = {1: "the", 2: "a fox", 3: "two foxes and a dog"}
    store.upsert(
        "small",
        [
            m.PointStruct(id=i, vector={"bm25": encoder.encode_document(text)})
            for i, text in texts.items()
        ],
    )
    found = store.query_points("small", encoder.encode_query("foxes"), using="bm25").points
    assert {point.id for point in found} == {2, 3}
    assert store.query_points("small", encoder.encode_query("of the"), using="bm25").points == []


def test_large_numbers_of_points_are_written_and_found(store: Any) -> None:
    """A thousand points at once, each its own nearest neighbour."""
    create(store, "many")
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((1000, 6))
    store.upsert(
        "many",
        [
            m.PointStruct(id=i, vector={"dense": row.tolist()}, payload={"i": i})
            for i, row in enumerate(vectors)
        ],
    )
    assert store.count("many").count == 1000
    for index in (0, 500, 999):
        best = store.query_points("many", vectors[index].tolist(), using="dense", limit=1).points[0]
        assert (best.id, best.payload) == (index, {"i": index})
        assert best.score == pytest.approx(1.0, abs=1e-5)
