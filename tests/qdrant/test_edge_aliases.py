"""Names in an embedded store: aliases and renaming, in one step or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from qdrant_client import models as m
from store_backends import DIM, create, dense_query, points, sparse_query

from lmk_integrations.errors import StoreError
from lmk_integrations.qdrant.edge import EdgeClient
from lmk_integrations.qdrant.edge.manifest import load_manifest


@pytest.fixture
def edge(tmp_path: Path) -> Iterator[EdgeClient]:
    with EdgeClient(tmp_path / "store") as client:
        create(client, "old", metadata={"is": "old"})
        client.upsert("old", points(10))
        create(client, "new")
        yield client


def to(alias: str, collection: str) -> Any:
    return m.CreateAliasOperation(
        create_alias=m.CreateAlias(alias_name=alias, collection_name=collection)
    )


def named(client: EdgeClient) -> tuple[list[str], dict[str, str]]:
    collections = [item.name for item in client.get_collections().collections]
    return collections, {a.alias_name: a.collection_name for a in client.get_aliases().aliases}


def test_every_call_takes_an_alias(edge: EdgeClient) -> None:
    """Reading, writing, indexing, describing and searching, as on a server."""
    edge.update_collection_aliases([to("live", "old")])
    assert edge.collection_exists("live")
    edge.upsert("live", points(12)[10:])
    edge.update_vectors("live", [m.PointVectors(id=1, vector={"other": dense_query(1)})])
    edge.set_payload("live", {"mark": 1}, points=[1])
    edge.overwrite_payload("live", {"kind": "x"}, points=[2])
    edge.delete_payload("live", ["mark"], points=[1])
    edge.clear_payload("live", [4])
    edge.delete_vectors("live", ["plain"], [1])
    edge.delete("live", [5])
    edge.create_payload_index("live", "kind", m.PayloadSchemaType.KEYWORD)
    assert edge.facet("live", "kind").hits
    edge.delete_payload_index("live", "kind")
    edge.update_collection("live", metadata={"more": 1})
    edge.flush("live")
    edge.optimize("live")
    assert edge.count("live").count == edge.count("old").count == 11
    assert edge.get_collection("live").config.metadata == {"is": "old", "more": 1}
    assert edge.retrieve("live", [2])[0].payload == {"kind": "x"}
    assert len(edge.scroll("live", limit=100)[0]) == 11
    assert edge.query_points("live", dense_query(1), using="dense").points
    assert edge.query_points_groups("live", "uid", sparse_query(1), using="sparse").groups
    request = m.QueryRequest(query=[0.5] * DIM, using="dense")
    assert edge.query_batch_points("live", [request])[0].points


def test_a_name_is_one_thing(edge: EdgeClient) -> None:
    """A collection and an alias cannot share a name, whichever comes first."""
    edge.update_collection_aliases([to("live", "old")])
    before = named(edge)
    for refused in (
        lambda: edge.update_collection_aliases([to("new", "old")]),
        lambda: create(edge, "live"),
        lambda: edge.rename_collection("new", "live"),
        lambda: edge.rename_collection("new", "old"),
        lambda: edge.update_collection_aliases(
            [
                m.RenameAliasOperation(
                    rename_alias=m.RenameAlias(old_alias_name="live", new_alias_name="new")
                )
            ]
        ),
    ):
        with pytest.raises(StoreError, match="already exists"):
            refused()
        assert named(edge) == before
    with pytest.raises(StoreError, match="no such collection"):
        edge.update_collection_aliases([to("other", "live")])  # of an alias, as on a server
    with pytest.raises(StoreError, match="no collection 'nothing'"):
        edge.rename_collection("nothing", "something")


def test_deleting_goes_by_the_real_name(edge: EdgeClient) -> None:
    """As on a server: an alias does not let its collection be deleted, but goes with it."""
    edge.update_collection_aliases([to("live", "old")])
    assert not edge.delete_collection("live")
    assert edge.count("live").count == 10
    assert edge.delete_collection("old")
    assert not edge.collection_exists("live")
    assert named(edge) == (["new"], {})


def test_renaming_keeps_everything(edge: EdgeClient, tmp_path: Path) -> None:
    """Points, metadata and aliases; also when the store is opened again."""
    edge.update_collection_aliases([to("live", "old")])
    before = edge.scroll("old", limit=100, with_vectors=True)
    assert edge.rename_collection("old", "kept")
    edge.delete("kept", [1])  # writes its statistics down under the new name
    edge.close()
    with EdgeClient(tmp_path / "store") as again:
        assert named(again) == (["kept", "new"], {"live": "kept"})
        assert again.get_collection("live").config.metadata == {"is": "old"}
        after, _ = again.scroll("kept", limit=100, with_vectors=True)
        assert after == [record for record in before[0] if record.id != 1]
        assert load_manifest(again.path).collections["kept"].stale_statistics  # type: ignore[union-attr]


def test_a_name_changes_hands_in_one_step(edge: EdgeClient) -> None:
    """A collection is renamed and an alias takes its name: both, or neither."""
    with pytest.raises(StoreError, match="no such collection"):
        edge.rename_collection("old", "kept", [to("old", "nowhere")])
    assert named(edge) == (["new", "old"], {})
    edge.rename_collection("old", "kept", [to("old", "new")])
    assert named(edge) == (["kept", "new"], {"old": "new"})
    assert (edge.count("old").count, edge.count("kept").count) == (0, 10)


def test_a_crash_leaves_the_old_names(edge: EdgeClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """What could not be written down did not happen, here or on disk."""

    def full(*_: Any) -> None:
        raise OSError("no space left")

    before = named(edge)
    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", full)
        with pytest.raises(StoreError, match="no space left"):
            edge.rename_collection("old", "kept", [to("old", "new")])
    assert named(edge) == before
    assert edge.count("old").count == 10
    on_disk = load_manifest(edge.path)
    assert on_disk is not None
    assert sorted(on_disk.collections) == ["new", "old"]
    assert edge.rename_collection("old", "kept")
