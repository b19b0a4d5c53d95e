"""Which files are read is said in one place, and what is not read is said with the way out."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from lmk_integrations.file_types import FILE_TYPES
from lmk_integrations.ingest.readers import read_file
from lmk_integrations.ingest.sources import ReadOptions, Sources
from lmk_integrations.records import Failure


def test_help_names_the_types_that_are_read() -> None:
    """Every suffix of the readers' table, those that need the office extra behind it."""
    command = [sys.executable, "-m", "lmk_integrations.cli", "ingest", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    words = done.stdout.replace(";", " ").replace(").", " ").split()
    extra = next(place for place, word in enumerate(words) if "[office]" in word)
    for suffix, kind in FILE_TYPES.items():
        places = [place for place, word in enumerate(words) if word.rstrip(".") == suffix]
        assert len(places) == 1, suffix
        assert (places[0] > extra) == (kind == "office"), suffix


@pytest.mark.parametrize("suffix", FILE_TYPES)
def test_every_type_has_a_reader(tmp_path: Path, suffix: str) -> None:
    """An empty file of a type that is read is empty or damaged, not unknown."""
    path = tmp_path / f"a{suffix.upper()}"
    path.write_bytes(b"")
    items = list(read_file(path, root=tmp_path, options=ReadOptions()))
    assert all(isinstance(item, Failure) and item.reason == "empty" for item in items)


@pytest.mark.parametrize("name", ["table.csv", "TABLE.CSV", "Makefile", "it's.a'b"])
def test_the_way_to_leave_a_type_out_works(tmp_path: Path, name: str) -> None:
    """What the message says to pass makes the message go away."""
    (tmp_path / name).write_text("1,2,3", encoding="utf-8")
    (failure,) = Sources(tmp_path).documents()
    assert isinstance(failure, Failure)
    assert (failure.reason, failure.skipped) == ("unsupported", True)
    _, _, option = failure.message.partition("with --exclude ")
    (glob,) = shlex.split(option)
    assert list(Sources(tmp_path, ReadOptions(exclude=(glob,))).documents()) == []
