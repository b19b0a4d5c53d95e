"""What survives: closing, killing, forking, and a crash at the worst moment."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from qdrant_client import models as m

from lmk_integrations.errors import StoreError, StoreLockedError
from lmk_integrations.qdrant.edge import EdgeClient, shards
from lmk_integrations.qdrant.edge.manifest import (
    DELETING,
    MANIFEST_NAME,
    CollectionEntry,
    Manifest,
    load_manifest,
    save_manifest,
)

ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def start(code: str, directory: Path) -> subprocess.Popen[str]:
    """A second process that runs `code` with `directory` as its argument."""
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), str(directory)],
        stdout=subprocess.PIPE,
        stdin=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    )


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def make(client: EdgeClient) -> None:
    client.create_collection(
        "c",
        {"v": m.VectorParams(size=2, distance=m.Distance.COSINE)},
        {"s": m.SparseVectorParams(modifier=m.Modifier.IDF)},
        metadata={"space": "abc"},
    )


def put(client: EdgeClient, first: int, count: int) -> None:
    client.upsert(
        "c",
        [
            m.PointStruct(id=first + i, vector={"v": [1.0, float(i)]}, payload={"i": first + i})
            for i in range(count)
        ],
    )


HOLD = """
import sys
from lmk_integrations.qdrant.edge import EdgeClient
client = EdgeClient(sys.argv[1])
print("open", flush=True)
sys.stdin.readline()
client.close()
print("closed", flush=True)
"""


def test_a_second_process_is_refused_by_name(tmp_path: Path) -> None:
    """StoreLockedError names the holder; when it lets go, the store opens."""
    holder = start(HOLD, tmp_path / "s")
    assert line_of(holder) == "open"
    with pytest.raises(StoreLockedError) as refused:
        EdgeClient(tmp_path / "s")
    message = str(refused.value)
    assert f"process {holder.pid} (-c) on {os.uname().nodename}, since 2" in message
    assert holder.stdin is not None
    holder.stdin.write("\n")
    holder.stdin.flush()
    assert line_of(holder) == "closed"
    EdgeClient(tmp_path / "s").close()
    holder.wait(10)


def test_waiting_for_the_lock(tmp_path: Path) -> None:
    """lock_wait_s outlasts a holder that is about to close."""
    holder = start(HOLD, tmp_path / "s")
    assert line_of(holder) == "open"
    assert holder.stdin is not None
    holder.stdin.write("\n")
    holder.stdin.flush()
    with EdgeClient(tmp_path / "s", lock_wait_s=20) as client:
        assert client.get_collections().collections == []
    holder.wait(10)


WRITE_FOREVER = """
import sys
import numpy as np
from types import SimpleNamespace
from qdrant_client import models as m
from lmk_integrations.qdrant.edge import EdgeClient
client = EdgeClient(sys.argv[1])
client.create_collection(
    "c",
    {"v": m.VectorParams(size=8, distance=m.Distance.COSINE)},
    {"s": m.SparseVectorParams(modifier=m.Modifier.IDF)},
    metadata={"space": "abc"},
)
first = 0
while True:
    rng = np.random.default_rng(first)
    client.upsert(
        "c",
        [
            SimpleNamespace(id=first + i, vector={"v": rng.standard_normal(8)}, payload={"i": i})
            for i in range(50)
        ],
    )
    first += 50
    print(first, flush=True)
"""


def test_a_killed_writer_loses_no_acknowledged_point(tmp_path: Path) -> None:
    """After SIGKILL the lock is free and every acknowledged batch is there, whole."""
    writer = start(WRITE_FOREVER, tmp_path / "s")
    acknowledged = 0
    while acknowledged < 1000:
        acknowledged = int(line_of(writer))
    writer.send_signal(signal.SIGKILL)
    writer.wait(10)
    assert writer.stdout is not None
    acknowledged = max(
        [acknowledged, *(int(line) for line in writer.stdout if line.endswith("\n"))]
    )
    with EdgeClient(tmp_path / "s") as client:
        count = client.count("c").count
        # The batch in flight when the signal came may be there too.
        assert acknowledged <= count <= acknowledged + 50
        assert len(client.retrieve("c", list(range(acknowledged)))) == acknowledged
        assert client.get_collection("c").config.metadata == {"space": "abc"}
        put_one = {"v": [1.0] * 8}
        client.upsert("c", [m.PointStruct(id=10**6, vector=put_one, payload={})])


def test_everything_is_there_after_reopening(tmp_path: Path) -> None:
    """Points, payloads, metadata, aliases and indexes outlive the process's client."""
    with EdgeClient(tmp_path / "s") as client:
        make(client)
        put(client, 0, 20)
        client.create_payload_index("c", "i", m.PayloadSchemaType.INTEGER)
        alias = m.CreateAlias(alias_name="live", collection_name="c")
        client.update_collection_aliases([m.CreateAliasOperation(create_alias=alias)])
        client.update_collection("c", metadata={"recipe": "r"})
        before = client.scroll("c", limit=50, with_vectors=True)[0]
    with EdgeClient(tmp_path / "s") as client:
        assert client.scroll("live", limit=50, with_vectors=True)[0] == before
        info = client.get_collection("live")
        assert info.config.metadata == {"space": "abc", "recipe": "r"}
        assert list(info.payload_schema) == ["i"]


def test_a_store_may_be_moved(tmp_path: Path) -> None:
    """Nothing inside refers to where the directory was."""
    with EdgeClient(tmp_path / "s") as client:
        make(client)
        put(client, 0, 3)
    (tmp_path / "s").rename(tmp_path / "t")
    with EdgeClient(tmp_path / "t") as client:
        assert client.count("c").count == 3


def test_a_forked_child_is_refused_and_harms_nothing(tmp_path: Path) -> None:
    """The child gets an error, and neither its use nor its end frees the parent's lock."""
    client = EdgeClient(tmp_path / "s")
    make(client)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            client.count("c")
        except StoreError as error:
            code = 0 if "forked" in str(error) else 2
        client.close()
        os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    put(client, 0, 5)
    assert client.count("c").count == 5
    other = start(HOLD, tmp_path / "s")
    assert line_of(other) == ""
    assert other.wait(10) != 0
    client.close()


# -- the manifest


def entry(directory: str = "collections/x-0123456789ab") -> CollectionEntry:
    return CollectionEntry(directory=directory, state="ready", params={}, metadata={"a": [1]})


def test_the_manifest_comes_back_equal(tmp_path: Path) -> None:
    """What is saved is what is loaded; a directory without one gives None."""
    assert load_manifest(tmp_path) is None
    manifest = Manifest(collections={"ü": entry()}, aliases={"a": "ü"})
    save_manifest(tmp_path, manifest)
    assert load_manifest(tmp_path) == manifest


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failed_save_leaves_the_old_manifest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Whatever fails before the rename is done, the old manifest is there, and no litter."""
    old = Manifest(collections={"old": entry()})
    save_manifest(tmp_path, old)

    def fail(*_arguments: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(OSError, match="disk full"):
        save_manifest(tmp_path, Manifest())
    monkeypatch.undo()
    assert load_manifest(tmp_path) == old
    assert [path.name for path in tmp_path.iterdir()] == [MANIFEST_NAME]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"format": "lmk-edge-store", "vers', "cannot be read"),
        ('{"format": "other"}', "not the manifest"),
        ('{"format": "lmk-edge-store", "version": 99}', "version 99.*Upgrade"),
        ('{"format": "lmk-edge-store", "version": 1}', "damaged"),
    ],
)
def test_a_manifest_that_does_not_fit_is_refused(tmp_path: Path, text: str, message: str) -> None:
    """Damage and newer versions raise, and leave the file and the lock as they were."""
    with EdgeClient(tmp_path / "s"):
        pass
    (tmp_path / "s" / MANIFEST_NAME).write_text(text)
    for _ in range(2):
        with pytest.raises(StoreError, match=message):
            EdgeClient(tmp_path / "s")
    assert (tmp_path / "s" / MANIFEST_NAME).read_text() == text


def test_a_lost_manifest_is_not_replaced_by_an_empty_one(tmp_path: Path) -> None:
    """Collections without a manifest are data to rescue, not a new store."""
    with EdgeClient(tmp_path / "s") as client:
        make(client)
    (tmp_path / "s" / MANIFEST_NAME).unlink()
    with pytest.raises(StoreError, match="Restore that file"):
        EdgeClient(tmp_path / "s")


def test_an_interrupted_creation_is_undone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A crash between manifest and shard leaves no half collection behind."""
    client = EdgeClient(tmp_path / "s")

    def crash(*_arguments: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(shards.EdgeStore, "_wrap", crash)
    monkeypatch.setattr(shards.EdgeStore, "delete", lambda *_arguments: None)
    with pytest.raises(KeyboardInterrupt):
        make(client)
    client.close()
    monkeypatch.undo()
    assert list((tmp_path / "s" / "collections").iterdir()) != []
    with EdgeClient(tmp_path / "s") as client:
        assert not client.collection_exists("c")
        assert list((tmp_path / "s" / "collections").iterdir()) == []
        make(client)


def test_an_interrupted_deletion_is_finished(tmp_path: Path) -> None:
    """A collection marked for deletion is gone after the next start."""
    with EdgeClient(tmp_path / "s") as client:
        make(client)
    path = tmp_path / "s" / MANIFEST_NAME
    data = json.loads(path.read_text())
    data["collections"]["c"]["state"] = DELETING
    path.write_text(json.dumps(data))
    with EdgeClient(tmp_path / "s") as client:
        assert client.get_collections().collections == []
        assert list((tmp_path / "s" / "collections").iterdir()) == []


def test_a_manifest_cannot_make_us_delete_elsewhere(tmp_path: Path) -> None:
    """A directory outside the store is never followed, whatever the manifest says."""
    precious = tmp_path / "precious"
    precious.mkdir()
    with EdgeClient(tmp_path / "s") as client:
        make(client)
    path = tmp_path / "s" / MANIFEST_NAME
    data = json.loads(path.read_text())
    data["collections"]["c"].update(state=DELETING, directory="../precious")
    path.write_text(json.dumps(data))
    with pytest.raises(StoreError, match="outside the store"):
        EdgeClient(tmp_path / "s")
    assert precious.exists()


def test_a_shard_that_cannot_be_opened_names_the_remedy(tmp_path: Path) -> None:
    """A damaged shard raises StoreError, and the other collections stay usable."""
    with EdgeClient(tmp_path / "s") as client:
        make(client)
        client.create_collection("d", m.VectorParams(size=2, distance=m.Distance.DOT))
        names = {path.name[0]: path for path in (tmp_path / "s" / "collections").iterdir()}
    (names["c"] / "edge_config.json").write_text("{")
    with EdgeClient(tmp_path / "s") as client:
        with pytest.raises(StoreError, match="Opening collection 'c' failed"):
            client.count("c")
        assert client.count("d").count == 0
