"""Memory does not grow with what is ingested: not with a text's length, nor with their number."""

from __future__ import annotations

import json
import subprocess
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ingest_data import story
from stand_in import stand_in

from lmk_integrations import Document, LandmarkIndex

MB, GB = 1 << 20, 1 << 30
MOST_ELEMENTS = 1 << 20  # of a multivector, in Qdrant
HOURS = 4 * 3600


def ingested(what: str, amount: int, place: Path, encoder: str = "stand-in") -> dict[str, Any]:
    driver = Path(__file__).with_name("ingest_much.py")
    command = [sys.executable, str(driver), what, str(amount), str(place), encoder]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HOURS)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout)
    report = found.pop("report")
    print(found, {key: report[key] for key in ("tokens_seen", "tokens_per_s")})
    assert (report["failed"], report["skipped"], report["tokens_dropped"]) == ([], [], 0)
    assert report["new"] == found["documents"]
    assert report["sections"] == found["sections"]
    assert 0 < found["most_landmarks"] * found["dim"] < MOST_ELEMENTS
    return found


@pytest.mark.parametrize(
    ("size", "most_mb"),
    [(10 * MB, 300), pytest.param(GB, 2048, marks=pytest.mark.slow)],
    ids=["10 MB", "1 GB"],
)
def test_a_long_text_is_never_whole_in_memory(size: int, most_mb: int, tmp_path: Path) -> None:
    """Whole, 10 MB would take over a gigabyte as tokens."""
    found = ingested("text", size, tmp_path)
    assert found["documents"] == 1
    assert found["sections"] > size / 10_000
    assert found["own_over_mb"] < most_mb
    assert found["over_mb"] < 2048


@pytest.mark.slow
def test_a_long_text_with_the_real_model(tmp_path: Path) -> None:
    """50 MB, for encoding a gigabyte would take hours."""
    assert ingested("text", 50 * MB, tmp_path, "real")["over_mb"] < 2048


@pytest.mark.parametrize(
    ("count", "most_mb"),
    [(1000, 150), pytest.param(100_000, 2048, marks=pytest.mark.slow)],
)
def test_many_files_are_not_in_memory_at_once(count: int, most_mb: int, tmp_path: Path) -> None:
    """A process reads, looks up, encodes and writes them a few at a time."""
    found = ingested("files", count, tmp_path)
    assert found["documents"] == found["sections"] == count
    assert found["own_over_mb"] < most_mb
    assert found["over_mb"] < 2048


class Text(str):
    """A text of which one can tell whether it is still there."""


def test_few_documents_are_held_at_once(tmp_path: Path) -> None:
    """However many a source gives: those read ahead, looked up together, and in the encoder."""
    alive: weakref.WeakSet[Text] = weakref.WeakSet()
    most = 0

    def documents() -> Iterator[Document]:
        nonlocal most
        for number in range(1500):
            text = Text(f"{number}. {story(number, 12)}")
            alive.add(text)
            most = max(most, len(alive))
            yield Document(text, id=str(number))

    with LandmarkIndex(tmp_path / "s", "c", stand_in(truncate_dim=32)) as index:
        report = index.ingest(documents())
    assert report.new == 1500
    assert most < 700
