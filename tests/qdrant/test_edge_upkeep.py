"""Upkeep of an embedded store: optimizing beside the work, backing up, restoring."""

from __future__ import annotations

import errno
import logging
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from qdrant_client import models as m

from lmk_integrations import LandmarkIndex
from lmk_integrations.encoder.plain import PlainEncoder
from lmk_integrations.errors import StoreError, StoreLockedError
from lmk_integrations.qdrant.edge import EdgeClient, collection, optimize, shards
from lmk_integrations.records import Document

DIM = 16


def make(client: EdgeClient, n_points: int = 3000) -> None:
    """A collection that the engine finds worth an index from 100 KB on."""
    client.create_collection(
        "c",
        {"v": m.VectorParams(size=DIM, distance=m.Distance.COSINE)},
        optimizers_config=m.OptimizersConfigDiff(indexing_threshold=100),
        metadata={"space": "abc"},
    )
    put(client, 0, n_points)


def put(client: EdgeClient, first: int, count: int) -> None:
    rng = np.random.default_rng(first)
    client.upsert(
        "c",
        [
            SimpleNamespace(id=first + i, vector={"v": rng.standard_normal(DIM)}, payload={"i": i})
            for i in range(count)
        ],
    )


def everything(client: EdgeClient) -> Any:
    return client.scroll("c", limit=10_000, with_vectors=True)[0]


# -- optimizing ------------------------------------------------------------------------------


def test_a_child_does_the_optimizing(tmp_path: Path) -> None:
    """Afterwards nothing is left to do, all points are there, and the store takes more."""
    with EdgeClient(tmp_path / "s") as client:
        make(client)
        before = everything(client)
        assert client.optimize_apart("c")
        assert everything(client) == before
        assert not client.optimize("c"), "the child left work"
        with pytest.raises(StoreLockedError):  # another process gets no chance in between
            _open_elsewhere(tmp_path / "s")
        put(client, 3000, 10)
    with EdgeClient(tmp_path / "s") as client:
        assert client.count("c").count == 3010


def test_without_a_child_there_is_work(tmp_path: Path) -> None:
    """Or the test above would say nothing."""
    with EdgeClient(tmp_path / "s") as client:
        make(client)
        assert client.optimize("c")


def _open_elsewhere(path: Path) -> None:
    code = f"from lmk_integrations.qdrant.edge import EdgeClient; EdgeClient({str(path)!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    if "StoreLockedError" in done.stderr:
        raise StoreLockedError(done.stderr)


def test_searches_wait_and_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A search that comes meanwhile gets its answer when the shard is back; others go on."""
    begun, go_on = threading.Event(), threading.Event()
    really = collection.optimize_in_child

    def slowly(directory: Path) -> bool:
        begun.set()
        assert go_on.wait(600)
        return really(directory)

    monkeypatch.setattr(collection, "optimize_in_child", slowly)
    answers: list[Any] = []
    with EdgeClient(tmp_path / "s") as client:
        make(client, 200)
        client.create_collection("d", m.VectorParams(size=2, distance=m.Distance.DOT))

        def search() -> None:
            answers.append(client.query_points("c", [1.0] * DIM, using="v", limit=3).points)

        with caplog.at_level(logging.WARNING):
            optimizing = threading.Thread(target=client.optimize_apart, args=("c",))
            optimizing.start()
            assert begun.wait(600)
            searching = threading.Thread(target=search)
            searching.start()
            assert client.count("d").count == 0  # another collection is free
            searching.join(0.3)
            assert searching.is_alive()
            assert answers == []
            go_on.set()
            searching.join(600)
            optimizing.join(600)
        assert len(answers[0]) == 3
    assert "collection 'c' is being optimized; this call waits for it" in caplog.text


@pytest.mark.parametrize("fault", ["no program", "killed"])
def test_an_optimizing_that_fails_costs_nothing(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged, all points are there, and the collection takes more."""
    killed = "import os, signal, time; os.kill(os.getpid(), signal.SIGKILL)"
    broken = "raise SystemExit('no engine here')" if fault == "no program" else killed
    monkeypatch.setattr(optimize, "_CHILD", optimize._CHILD.replace("shard.optimize()", broken))
    with EdgeClient(tmp_path / "s") as client:
        make(client)
        before = everything(client)
        assert not client.optimize_apart("c")
        assert everything(client) == before
        put(client, 3000, 10)
    assert "was not optimized" in caplog.text
    with EdgeClient(tmp_path / "s") as client:
        assert client.count("c").count == 3010


OPTIMIZE = """
import sys
sys.path[:0] = [{tests!r}]
from pathlib import Path
from lmk_integrations.qdrant.edge import EdgeClient, optimize
optimize._CHILD = optimize._CHILD.replace("shard.optimize()", "import time; time.sleep(600)")
import test_edge_upkeep
client = EdgeClient(sys.argv[1])
test_edge_upkeep.make(client)
client.optimize_apart("c")
"""


def test_a_killed_process_takes_its_child_along(tmp_path: Path) -> None:
    """The next process need not wait for it, and finds every point."""
    code = textwrap.dedent(OPTIMIZE).format(tests=str(Path(__file__).parent))
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "s")], stderr=subprocess.PIPE
    )
    deadline = time.monotonic() + 600
    child = None
    while child is None and time.monotonic() < deadline:
        child = _child_of(process.pid)
        time.sleep(0.05)
    assert child is not None, process.communicate()
    process.send_signal(signal.SIGKILL)
    process.wait(300)
    while _runs(child) and time.monotonic() < deadline:
        time.sleep(0.05)
    with EdgeClient(tmp_path / "s", lock_wait_s=300) as client:
        assert client.count("c").count == 3000


def _child_of(pid: int) -> int | None:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(children[0]) if children else None


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def vectors(texts: list[str]) -> Any:
    return np.random.default_rng(len(texts[0])).standard_normal((len(texts), DIM), np.float32)


@pytest.mark.parametrize("worth", [True, False])
def test_an_ingest_ends_with_it_where_it_is_worth_it(
    worth: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After 8 MiB of vectors; a few documents are not worth a process."""
    if worth:
        monkeypatch.setattr(collection, "_OPTIMIZE_AFTER_BYTES", 1)
    optimized: list[Path] = []
    monkeypatch.setattr(collection, "optimize_in_child", lambda path: optimized.append(path))
    encoder = PlainEncoder(vectors, lambda text: vectors([text])[0], dim=DIM, name="plain")
    with LandmarkIndex(tmp_path / "s", "c", encoder) as index:
        index.ingest([Document("The mill stood by the river.", id="a")], dry_run=True)
        assert optimized == []
        index.ingest([Document("The mill stood by the river.", id="a")])
        index.ingest([Document("The mill stood by the river.", id="a")])  # nothing was written
        assert len(optimized) == worth
        assert index.count() == 1


# -- backing up ------------------------------------------------------------------------------


def test_a_backup_taken_while_writing_is_whole(tmp_path: Path) -> None:
    """It holds every batch that was acknowledged before it, and no part of another."""
    with EdgeClient(tmp_path / "s") as client:
        make(client, 100)
        stop = threading.Event()
        written = [100]

        def write() -> None:
            while not stop.is_set():
                put(client, written[0], 100)
                written.append(written[-1] + 100) or written.pop(0)

        writing = threading.Thread(target=write)
        writing.start()
        try:
            counts = []
            for number in range(3):
                before = written[-1]
                client.backup(tmp_path / f"backup-{number}")
                counts.append((before, written[-1] + 100))
        finally:
            stop.set()
            writing.join(600)
    for number, (least, most) in enumerate(counts):
        with EdgeClient(tmp_path / f"backup-{number}") as copy:
            count = copy.count("c").count
            assert least <= count <= most
            assert count % 100 == 0
            assert len(copy.retrieve("c", list(range(count)))) == count


def test_writing_waits_for_a_backup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes meanwhile is written afterwards, and is not in the copy."""
    begun, go_on = threading.Event(), threading.Event()
    really = shutil.copytree

    def slowly(*arguments: Any, **options: Any) -> Any:
        begun.set()
        assert go_on.wait(600)
        return really(*arguments, **options)

    monkeypatch.setattr(shards.shutil, "copytree", slowly)
    with EdgeClient(tmp_path / "s") as client:
        make(client, 10)
        backing = threading.Thread(target=client.backup, args=(tmp_path / "backup",))
        backing.start()
        assert begun.wait(600)
        writing = threading.Thread(target=put, args=(client, 10, 10))
        writing.start()
        writing.join(0.3)
        assert writing.is_alive()
        go_on.set()
        backing.join(600)
        writing.join(600)
        assert client.count("c").count == 20
    with EdgeClient(tmp_path / "backup") as copy:
        assert copy.count("c").count == 10


def test_a_backup_restores(tmp_path: Path) -> None:
    """Put in the place of a lost store it is that store: points, aliases, metadata."""
    store, backup = tmp_path / "s", tmp_path / "backup"
    with EdgeClient(store) as client:
        make(client, 50)
        alias = m.CreateAlias(alias_name="live", collection_name="c")
        client.update_collection_aliases([m.CreateAliasOperation(create_alias=alias)])
        before = everything(client)
        client.backup(backup)
        put(client, 50, 50)  # the backup is not touched by what comes later
    shutil.rmtree(store)
    shutil.copytree(backup, store)
    with EdgeClient(store) as client:
        assert client.scroll("live", limit=1000, with_vectors=True)[0] == before
        assert client.get_collection("c").config.metadata == {"space": "abc"}
        put(client, 50, 50)
        assert client.count("c").count == 100


def test_a_backup_is_new_and_complete_or_not_there(tmp_path: Path) -> None:
    """It takes no other directory's place, and leaves nothing where it fails."""
    with EdgeClient(tmp_path / "s") as client:
        make(client, 10)
        client.backup(tmp_path / "backup")
        with pytest.raises(StoreError, match="exists already"):
            client.backup(tmp_path / "backup")
        with pytest.raises(StoreError, match="in the store itself"):
            client.backup(tmp_path / "s" / "backup")
        (tmp_path / "file").write_text("")
        with pytest.raises(StoreError, match="cannot be copied"):
            client.backup(tmp_path / "file" / "backup")
        assert sorted(os.listdir(tmp_path)) == ["backup", "file", "s"]
        assert client.count("c").count == 10


def test_a_backup_that_breaks_off_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under its own name a backup is complete, or it is not there."""
    really = shutil.copytree

    def breaking(*arguments: Any, **options: Any) -> Any:
        really(*arguments, **options)
        assert not (tmp_path / "backup").exists()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(shards.shutil, "copytree", breaking)
    with EdgeClient(tmp_path / "s") as client:
        make(client, 10)
        with pytest.raises(StoreError, match=r"cannot be copied.*No space left"):
            client.backup(tmp_path / "backup")
        assert os.listdir(tmp_path) == ["s"]
        put(client, 10, 10)  # and writing goes on
        assert client.count("c").count == 20


@pytest.mark.parametrize("ending", ["delete", "close"])
def test_an_ending_waits_for_who_writes(ending: str, tmp_path: Path) -> None:
    """A writer that has to note something in the manifest meanwhile does not wait for ever."""
    client = EdgeClient(tmp_path / "s")
    client.create_collection("c", None, {"s": m.SparseVectorParams(modifier=m.Modifier.IDF)})
    opened = client._collection("c")
    sparse = SimpleNamespace(indices=[1], values=[1.0])
    client.upsert("c", [SimpleNamespace(id=1, vector={"s": sparse}, payload={})])
    inside, go_on = threading.Event(), threading.Event()
    really = opened._on_stale

    def slowly() -> None:
        inside.set()
        go_on.wait(5)
        really()

    opened._on_stale = slowly

    def write() -> None:
        with pytest.raises(StoreError) if ending == "close" else _nothing():
            client.upsert("c", [SimpleNamespace(id=1, vector={"s": sparse}, payload={})])

    def end() -> None:
        client.delete_collection("c") if ending == "delete" else client.close()

    threads = [threading.Thread(target=write, daemon=True)]
    threads[0].start()
    assert inside.wait(300)
    threads.append(threading.Thread(target=end, daemon=True))
    threads[1].start()
    time.sleep(0.2)  # it waits for the collection now
    go_on.set()
    for thread in threads:
        thread.join(300)
        assert not thread.is_alive()
    client.close()


def _nothing() -> Any:
    from contextlib import nullcontext

    return nullcontext()
