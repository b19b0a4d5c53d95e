"""What is particular to the embedded store: refusals, sharing, and clear messages."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from qdrant_client import QdrantClient
from qdrant_client import models as m
from store_backends import DIM, create, dense_query, payload

from lmk_integrations.errors import ConfigError, StoreError
from lmk_integrations.qdrant.edge import EdgeClient


@pytest.fixture
def edge(tmp_path: Path) -> Iterator[EdgeClient]:
    with EdgeClient(tmp_path / "store") as client:
        create(client, "c")
        yield client


def upsert_one(edge: EdgeClient, **vectors: Any) -> None:
    edge.upsert("c", [m.PointStruct(id=1, vector=vectors, payload={"a": 1})])


def test_numpy_vectors_are_stored_as_they_are(edge: EdgeClient) -> None:
    """Arrays of any float type go in, without lists of Python floats in between."""
    dense = np.arange(1, DIM + 1, dtype=np.float64)
    rows = np.eye(DIM, dtype=np.float32)[:3]
    point = SimpleNamespace(id=np.int64(4), vector={"other": dense, "rows": rows}, payload=None)
    edge.upsert("c", [point])
    (record,) = edge.retrieve("c", [4], with_vectors=True)
    assert record.vector == {"other": dense.tolist(), "rows": rows.tolist()}
    best = edge.query_points("c", dense.astype(np.float32), using="other").points[0]
    assert best.score == pytest.approx(91.0)
    assert edge.query_points("c", rows, using="rows").points[0].score == pytest.approx(3.0)


def test_one_bad_point_stops_the_whole_call(edge: EdgeClient) -> None:
    """Nothing of a batch is written when its last point does not fit."""
    good = [m.PointStruct(id=i, vector={"dense": dense_query(i)}) for i in range(5)]
    bad = m.PointStruct.model_construct(id=77, vector={"dense": [1.0, 2.0]}, payload={})
    for write in (
        lambda: edge.upsert("c", [*good, bad]),
        lambda: edge.upload_points("c", [*good, bad], batch_size=2),
    ):
        with pytest.raises(StoreError, match=r"Point 77.*'dense'.*2 dimensions.*expects 6"):
            write()
        assert edge.count("c").count == 0


@pytest.mark.parametrize(
    "options",
    [
        {"shard_number": 2},
        {"replication_factor": 3},
        {"sharding_method": m.ShardingMethod.CUSTOM},
        {"strict_mode_config": m.StrictModeConfig(enabled=True)},
        {"wal_config": m.WalConfigDiff(wal_capacity_mb=1)},
        {"init_from": "c"},
        {"optimizers_config": m.OptimizersConfigDiff(memmap_threshold=1)},
    ],
)
def test_what_cannot_be_honoured_is_refused(edge: EdgeClient, options: dict[str, Any]) -> None:
    """create_collection names the setting, and makes nothing."""
    name = next(iter(options))
    wanted = "memmap_threshold" if name == "optimizers_config" else name
    with pytest.raises(StoreError, match=wanted):
        edge.create_collection("new", m.VectorParams(size=2, distance=m.Distance.DOT), **options)
    assert not edge.collection_exists("new")


def test_settings_that_are_honoured_come_back(edge: EdgeClient) -> None:
    """HNSW, optimizer and quantization settings reach the engine and get_collection."""
    scalar = m.ScalarQuantization(scalar=m.ScalarQuantizationConfig(type=m.ScalarType.INT8))
    edge.create_collection(
        "tuned",
        {"v": m.VectorParams(size=4, distance=m.Distance.COSINE, on_disk=True)},
        hnsw_config=m.HnswConfigDiff(m=8, ef_construct=50),
        optimizers_config=m.OptimizersConfigDiff(indexing_threshold=10),
        quantization_config=scalar,
        on_disk_payload=True,
        shard_number=1,
        replication_factor=1,
        write_consistency_factor=1,
        timeout=10,
    )
    rng = np.random.default_rng(0)
    edge.upload_points(
        "tuned",
        [SimpleNamespace(id=i, vector={"v": rng.standard_normal(4)}) for i in range(2000)],
        batch_size=500,
    )
    assert edge.optimize("tuned")
    info = edge.get_collection("tuned")
    assert info.indexed_vectors_count == info.points_count == 2000
    assert (info.config.hnsw_config.m, info.config.hnsw_config.ef_construct) == (8, 50)
    assert info.config.optimizer_config.indexing_threshold == 10
    assert info.config.quantization_config == scalar


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda c: c.count("nowhere"), r"no collection 'nowhere' \(it has 'c'\)"),
        (lambda c: c.query_points("c", [1.0] * DIM), r"no vector named ''.*'dense'"),
        (lambda c: c.query_points("c", [1.0] * DIM, using="nope"), "no vector named 'nope'"),
        (lambda c: c.query_points("c", [1.0], using="dense"), "1 dimensions.*expects 6"),
        (lambda c: c.query_points("c", [[1.0] * DIM], using="dense"), "does not fit a dense"),
        (lambda c: c.query_points("c", [float("nan")] * DIM, using="dense"), "NaN"),
        (lambda c: c.query_points("c", [1.0] * DIM, using="sparse"), "is a sparse vector"),
        (lambda c: c.query_points("c", 5, using="dense"), "Point 5 .* does not exist"),
        (lambda c: c.query_points("c", "not-an-id", using="dense"), "neither .* nor a UUID"),
        (lambda c: c.query_points("c", m.FusionQuery(fusion=m.Fusion.RRF)), "without prefetches"),
        (lambda c: c.query_points("c", [1.0] * DIM, using="dense", limit=0), "limit must be"),
        (
            lambda c: c.query_points("c", m.Document(text="hello", model="m"), using="dense"),
            "does not offer Document",
        ),
        (lambda c: c.query_points("c", shard_key_selector="a"), "shard_key_selector='a'"),
        (lambda c: c.upsert("c", []), "no points"),
        (lambda c: c.upsert("c", [[1.0]]), "must be a models.PointStruct"),
        (lambda c: c.delete("c", []), "list of ids is empty"),
        (lambda c: c.delete("c", "abc"), "selected by"),
        (lambda c: c.set_payload("c", {"a": 1}, points=[404]), "404"),
        (lambda c: c.retrieve("c", ["abc"]), "neither .* nor a UUID"),
        (lambda c: c.retrieve("c", [1], with_vectors=["nope"]), "no vector named 'nope'"),
        (lambda c: c.scroll("c", order_by="unindexed"), "(?i)index"),
        (lambda c: c.scroll("c", scroll_filter={"must": []}), "must be a models.Filter, got dict"),
        (
            lambda c: c.count("c", m.Filter(must=[m.FieldCondition(key="a")])),
            "exactly one test, it has: none",
        ),
        (
            lambda c: c.count(
                "c",
                m.Filter(
                    must=[
                        m.FieldCondition(key="a", match=m.MatchValue(value=1), range=m.Range(gt=0))
                    ]
                ),
            ),
            "exactly one test, it has: match, range",
        ),
        (
            lambda c: c.count(
                "c", m.Filter(must=[m.FieldCondition(key="a..b", match=m.MatchValue(value=1))])
            ),
            "Reading the filter.*JSON path",
        ),
        (
            lambda c: c.create_collection("c", m.VectorParams(size=2, distance=m.Distance.DOT)),
            "'c' already exists",
        ),
        (lambda c: c.create_collection("a/b"), "forbidden '/'"),
        (lambda c: c.create_payload_index("c", "a", "nonsense"), "no payload schema"),
        (lambda c: c.update_collection("c", hnsw_config=m.HnswConfigDiff(m=1)), "hnsw_config"),
    ],
)
def test_errors_name_the_thing_and_the_remedy(edge: EdgeClient, call: Any, message: str) -> None:
    """Every refusal is a StoreError that says what was wrong."""
    with pytest.raises(StoreError, match=message):
        call(edge)


def test_a_method_that_is_not_offered_says_so(edge: EdgeClient) -> None:
    """AttributeError, so that hasattr works, with a sentence on what to do."""
    assert not hasattr(edge, "create_snapshot")
    with pytest.raises(AttributeError, match="Use a Qdrant server"):
        edge.create_snapshot("c")  # type: ignore[attr-defined]


def test_a_failing_alias_operation_changes_nothing(edge: EdgeClient) -> None:
    """The operations of one call stand or fall together."""
    good = m.CreateAlias(alias_name="live", collection_name="c")
    bad = m.CreateAlias(alias_name="other", collection_name="nowhere")
    with pytest.raises(StoreError, match="no such collection"):
        edge.update_collection_aliases(
            [m.CreateAliasOperation(create_alias=item) for item in (good, bad)]
        )
    assert edge.get_aliases().aliases == []


def test_payload_indexes_of_every_type(edge: EdgeClient) -> None:
    """Indexes can be made from types, names and parameters, are reported, and removed."""
    edge.upsert("c", [m.PointStruct(id=i, vector={}, payload=payload(i)) for i in range(20)])
    schemas: dict[str, Any] = {
        "kind": m.PayloadSchemaType.KEYWORD,
        "number": "integer",
        "price": m.FloatIndexParams(type=m.FloatIndexType.FLOAT, is_principal=True),
        "flag": m.PayloadSchemaType.BOOL,
        "place": m.PayloadSchemaType.GEO,
        "time": m.DatetimeIndexParams(type=m.DatetimeIndexType.DATETIME),
        "uid": m.UuidIndexParams(type=m.UuidIndexType.UUID, is_tenant=True),
        "text": m.TextIndexParams(
            type=m.TextIndexType.TEXT,
            tokenizer=m.TokenizerType.WORD,
            lowercase=True,
            stopwords=m.StopwordsSet(languages=[m.Language.ENGLISH], custom=["holds"]),
            stemmer=m.SnowballParams(type=m.Snowball.SNOWBALL, language=m.SnowballLanguage.ENGLISH),
            scoring=True,
        ),
        "deep.a.b": m.KeywordIndexParams(type=m.KeywordIndexType.KEYWORD, is_tenant=True),
    }
    for field, schema in schemas.items():
        edge.create_payload_index("c", field, schema)
    reported = edge.get_collection("c").payload_schema
    assert {field: index.data_type.value for field, index in reported.items()} == {
        "kind": "keyword",
        "number": "integer",
        "price": "float",
        "flag": "bool",
        "place": "geo",
        "time": "datetime",
        "uid": "uuid",
        "text": "text",
        "deep.a.b": "keyword",
    }
    assert reported["price"].points == 20
    found = edge.query_points("c", m.TextQuery(text="lazy word"), using="text", limit=20).points
    lazy = {point.id for point in found if point.score > found[-1].score}
    assert lazy == {i for i in range(20) if i % 4 == 0}
    edge.delete_payload_index("c", "kind")
    assert "kind" not in edge.get_collection("c").payload_schema


def test_groups_get_candidates_enough(edge: EdgeClient) -> None:
    """As on a server: prefetch limits grow by group_size, and ungrouped points take no place."""
    axis = np.eye(DIM)[0]
    edge.upsert(
        "c",
        [
            SimpleNamespace(
                id=i,
                vector={"dense": axis + i / 100},
                payload={} if i < 5 else {"doc": "a" if i < 8 else "b"},
            )
            for i in range(12)
        ],
    )
    (first, second) = edge.query_points_groups(
        "c",
        "doc",
        axis,
        using="dense",
        prefetch=m.Prefetch(query=axis.tolist(), using="dense", limit=2),
        limit=2,
        group_size=3,
    ).groups
    assert (first.id, [hit.id for hit in first.hits]) == ("a", [5, 6, 7])
    assert (second.id, [hit.id for hit in second.hits]) == ("b", [8, 9, 10])


def test_idf_after_optimizing_and_deleting(tmp_path: Path) -> None:
    """An index goes on counting deleted points; scores count the living, also after reopening."""
    rng = np.random.default_rng(0)
    indices = [sorted(set(rng.integers(0, 30, 8).tolist())) for _ in range(3000)]
    stored = [
        m.PointStruct(
            id=i, vector={"s": m.SparseVector(indices=row, values=[1.0] * len(row))}, payload={}
        )
        for i, row in enumerate(indices)
    ]
    query = m.SparseVector(indices=[1, 2], values=[1.0, 1.0])

    def fill(client: Any, **options: Any) -> None:
        sparse = {"s": m.SparseVectorParams(modifier=m.Modifier.IDF)}
        client.create_collection("i", {}, sparse, **options)
        client.upsert("i", stored)

    def best(client: Any, **options: Any) -> float:
        return client.query_points("i", query, using="s", limit=1, **options).points[0].score

    memory = QdrantClient(":memory:")
    fill(memory)
    memory.delete("i", list(range(500)))
    edge = EdgeClient(tmp_path / "i")
    fill(edge, optimizers_config=m.OptimizersConfigDiff(indexing_threshold=1))
    assert edge.optimize("i")
    edge.delete("i", list(range(500)))
    for _ in range(2):
        assert best(edge) == pytest.approx(best(memory), rel=1e-6)
        from_index = best(edge, search_params=m.SearchParams(idf=m.IdfScope.GLOBAL))
        assert from_index != pytest.approx(best(memory), rel=1e-6)
        edge.close()
        edge = EdgeClient(tmp_path / "i")
    edge.close()


def test_clients_of_one_process_share_the_store(tmp_path: Path) -> None:
    """A second client sees the first one's writes; the last to close frees the directory."""
    first, second = EdgeClient(tmp_path / "s"), EdgeClient(tmp_path / "." / "s")
    create(first, "c")
    upsert_one(first, dense=dense_query(1))
    assert second.count("c").count == 1
    first.close()
    first.close()
    with pytest.raises(StoreError, match=r"client .* is closed"):
        first.count("c")
    assert second.count("c").count == 1
    second.close()
    with EdgeClient(tmp_path / "s") as third:
        assert third.count("c").count == 1


def test_a_dropped_client_frees_the_store(tmp_path: Path) -> None:
    """Garbage collection closes, as when a notebook cell runs again."""
    client = EdgeClient(tmp_path / "s")
    holder = tmp_path / "s" / "store.holder.json"
    assert holder.exists()
    del client
    assert not holder.exists()


def test_foreign_directories_are_left_alone(tmp_path: Path) -> None:
    """A directory with other files is refused, and nothing is written into it."""
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ConfigError, match=r"not empty.*notes.txt"):
        EdgeClient(tmp_path)
    assert [path.name for path in tmp_path.glob("*.json")] == []
    with pytest.raises(ConfigError, match="cannot be used"):
        EdgeClient(tmp_path / "notes.txt")


def test_threads_write_and_read_at_once(edge: EdgeClient) -> None:
    """No call is lost or fails under eight threads."""
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for round_ in range(10):
                ids = [number * 1000 + round_ * 10 + i for i in range(10)]
                edge.upsert(
                    "c",
                    [
                        m.PointStruct(id=i, vector={"dense": dense_query(i)}, payload={})
                        for i in ids
                    ],
                )
                assert len(edge.retrieve("c", ids)) == 10
                best = edge.query_points("c", dense_query(ids[0]), using="dense", limit=1)
                assert best.points[0].id == ids[0]
                edge.delete("c", ids[:1])
                edge.update_collection("c", metadata={f"t{number}": round_})
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert edge.count("c").count == 8 * 10 * 9
    assert edge.get_collection("c").config.metadata == {f"t{n}": 9 for n in range(8)}


def test_deleting_a_collection_frees_its_disk_space(edge: EdgeClient) -> None:
    """The shard's directory goes with it, and the name is free again."""
    upsert_one(edge, dense=dense_query(1))
    (shard,) = (edge.path / "collections").iterdir()
    edge.delete_collection("c")
    assert not shard.exists()
    create(edge, "c")
    assert edge.count("c").count == 0


def test_ids_are_normalised(edge: EdgeClient) -> None:
    """However a UUID is written, it is one point, and comes back in canonical form."""
    number = uuid.uuid4()
    for written in (number, str(number).upper(), number.hex):
        edge.upsert("c", [m.PointStruct(id=written, vector={}, payload={"w": str(written)})])
    assert [record.id for record in edge.scroll("c")[0]] == [str(number)]
