"""No room on the disk: a clear message, nothing torn, and the same call goes on afterwards."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from processes import Child
from stored_points import dump
from word_encoder import WordEncoder, assert_same, corpus

from lmk_integrations import LandmarkIndex, StoreError, connect
from lmk_integrations.qdrant.edge import space

SHAPE = {"small": 200, "long": 2, "sections": 150}
MIB = 1 << 20


def can_mount() -> bool:
    """Whether this user may make a small file system."""
    with tempfile.TemporaryDirectory() as place:
        made = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", place], capture_output=True
        )
        if made.returncode == 0:
            subprocess.run(["umount", place], check=True)
        return made.returncode == 0


# Where it may not, the reserve is raised above what there is instead.
SMALL_DISKS = ["tmpfs"] if os.name == "posix" and os.geteuid() == 0 and can_mount() else []


@pytest.fixture(params=SMALL_DISKS)
def disk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A file system of 300 MiB."""
    place = tmp_path / "disk"
    place.mkdir()
    subprocess.run(["mount", "-t", request.param, "-o", "size=300m", "tmpfs", place], check=True)
    yield place
    subprocess.run(["umount", "--lazy", place], check=True)


def fill_up(place: Path, leave: int) -> Path:
    """A file that takes all but so many MiB."""
    filler = place / "filler"
    free = os.statvfs(place).f_bavail * os.statvfs(place).f_frsize
    with filler.open("wb") as file:
        for _ in range(max(0, free // MIB - leave)):
            file.write(bytes(MIB))
    return filler


def test_a_disk_that_is_nearly_full_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the engine is asked to write; reading and deleting go on."""
    documents = corpus(small=10, long=0)
    with LandmarkIndex(tmp_path / "s", "c", WordEncoder()) as index:
        index.ingest(documents[:5])
        with monkeypatch.context() as patch:
            patch.setattr(space, "RESERVE_BYTES", 1 << 60)
            with pytest.raises(StoreError, match=r"nearly full: .* MiB are free.*run again"):
                index.ingest(documents)
            assert index.count() == 5
            assert index.search("amber river")
            assert index.delete("small/0") == 1
            with pytest.raises(StoreError, match="nearly full"):
                LandmarkIndex(index.client, "other", WordEncoder()).ingest(documents)
            assert not index.client.collection_exists("other")
        assert index.ingest(documents).new == 6


@pytest.mark.parametrize("leave", [100, 0], ids=["nearly full", "full to the last byte"])
def test_a_disk_that_fills_up_meanwhile(disk: Path, tmp_path: Path, leave: int) -> None:
    """Whatever becomes of the process, what was acknowledged is there, and the rest follows."""
    child = Child(str(disk / "s"), 0.02, tell_stored=True, **SHAPE)
    child.begun()
    child.stored()
    filler = fill_up(disk, leave)
    if leave:
        assert "nearly full" in child.result()["error"]
    else:
        child.ends_within(60)  # the engine's mapped memory may have met the end of the disk
    filler.unlink()
    again = Child(str(disk / "s"), **SHAPE)
    again.begun()
    report = again.result()
    assert report["new"] + report["unchanged"] == len(corpus(**SHAPE))
    with LandmarkIndex(tmp_path / "whole", "c", WordEncoder()) as index:
        index.ingest(corpus(**SHAPE))
        expected, sections = dump(index.client), index.info()["sections"]
    assert report["encoded"] < sections, "what was stored before is kept"
    with connect(disk / "s") as client:
        assert_same(dump(client), expected)
