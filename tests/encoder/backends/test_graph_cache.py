"""The cache of exported graphs."""

import os
import threading
import time

import pytest

from lmk_integrations.encoder.backends.cache_folder import cache_folder
from lmk_integrations.encoder.backends.graph_cache import GraphCache
from lmk_integrations.errors import ModelError


class Maker:
    """Fills a folder, and counts how often."""

    def __init__(self, content=b"graph", *, seconds=0.0):
        self.calls = 0
        self._content = content
        self._seconds = seconds

    def __call__(self, folder):
        self.calls += 1
        (folder / "graph.bin").write_bytes(self._content)
        time.sleep(self._seconds)
        (folder / "graph.xml").write_text("<net/>")


def test_an_entry_is_made_once(tmp_path):
    """A second opening finds what the first one made; another key is another entry."""
    make = Maker()
    cache = GraphCache(tmp_path / "new" / "folder")
    entry = cache.get("a", make)
    assert (entry / "graph.bin").read_bytes() == b"graph"
    assert GraphCache(tmp_path / "new" / "folder").get("a", make) == entry
    assert make.calls == 1
    assert cache.get("b", make) != entry
    assert make.calls == 2


@pytest.mark.parametrize(
    "harm",
    [
        lambda entry: (entry / "graph.bin").write_bytes(b"grap"),
        lambda entry: (entry / "graph.bin").write_bytes(b"hpgra"),
        lambda entry: (entry / "graph.xml").unlink(),
        lambda entry: (entry / "checksums.json").write_text("{"),
        lambda entry: (entry / "checksums.json").write_text("[]"),
        lambda entry: (entry / "checksums.json").unlink(),
        lambda entry: (entry / "more.bin").write_bytes(b"put there by somebody"),
    ],
    ids=["cut", "changed", "file missing", "sums cut", "sums odd", "no sums", "file added"],
)
def test_a_damaged_entry_is_made_again(tmp_path, harm, caplog):
    """Whatever happened to the files: never is anything else read than what was written."""
    make, cache = Maker(), GraphCache(tmp_path)
    harm(cache.get("a", make))
    entry = cache.get("a", make)
    assert make.calls == 2
    assert sorted(path.name for path in entry.iterdir()) == [
        "checksums.json",
        "graph.bin",
        "graph.xml",
    ]
    assert (entry / "graph.bin").read_bytes() == b"graph"
    assert "damaged" in caplog.text


def test_a_failed_making_leaves_nothing(tmp_path):
    """The error passes, and the next one who asks begins anew."""

    def fail(folder):
        (folder / "graph.bin").write_bytes(b"half")
        raise ModelError("cannot")

    cache = GraphCache(tmp_path)
    with pytest.raises(ModelError, match="cannot"):
        cache.get("a", fail)
    assert [path for path in tmp_path.iterdir() if path.is_dir()] == []
    make = Maker()
    cache.get("a", make)
    assert make.calls == 1


def test_what_a_killed_process_left_is_no_obstacle(tmp_path):
    """A half-made entry is thrown away."""
    (tmp_path / "a.part").mkdir()
    (tmp_path / "a.part" / "rest.bin").write_bytes(b"half")
    entry = GraphCache(tmp_path).get("a", Maker())
    assert not (entry / "rest.bin").exists()
    assert not (tmp_path / "a.part").exists()


def test_only_one_of_many_makes_an_entry(tmp_path):
    """The others wait and find it ready. Threads lock each other out as processes do."""
    make, found = Maker(seconds=0.2), []

    def ask():
        entry = GraphCache(tmp_path).get("a", make)
        found.append((entry / "graph.xml").read_text())

    threads = [threading.Thread(target=ask) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == ["<net/>"] * 5
    assert make.calls == 1


def test_the_longest_unused_go_first(tmp_path):
    """The cache stays within its bound; an entry that is opened again counts as new."""
    cache = GraphCache(tmp_path, max_bytes=3000)
    make = Maker(b"x" * 1000)
    for age, key in ((30, "a"), (20, "b")):
        entry = cache.get(key, make)
        os.utime(entry, (time.time() - age, time.time() - age))
    cache.get("a", make)
    cache.get("c", make)
    kept = {path.name for path in tmp_path.iterdir() if path.is_dir()}
    assert kept == {"a", "c"}
    assert make.calls == 3


def test_one_entry_over_the_bound_is_kept(tmp_path):
    """What was just asked for is never dropped."""
    entry = GraphCache(tmp_path, max_bytes=10).get("a", Maker(b"x" * 1000))
    assert (entry / "graph.bin").exists()


def test_a_place_that_cannot_be_written_is_an_error_with_a_remedy(tmp_path):
    """Named are the place and the variable that moves it."""
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ModelError, match=r"file.*LMK_CACHE"):
        GraphCache(tmp_path / "file").get("a", Maker())


def test_the_place_follows_the_platform(monkeypatch, tmp_path):
    """LMK_CACHE, then XDG_CACHE_HOME, then the home directory's .cache; others' conventions."""
    home = tmp_path / "home"
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(home))
    monkeypatch.delenv("LMK_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("LOCALAPPDATA", raising=False)
    for platform, expected in {
        "linux": ".cache",
        "darwin": "Library/Caches",
        "win32": "AppData/Local",
    }.items():
        monkeypatch.setattr("sys.platform", platform)
        assert cache_folder() == home / expected / "lmk-integrations"
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "lmk-integrations"
    monkeypatch.setenv("LMK_CACHE", str(tmp_path / "own"))
    assert cache_folder() == tmp_path / "own"
