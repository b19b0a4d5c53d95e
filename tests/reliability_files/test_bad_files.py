"""One bad file never stops the rest, and of each it is said what became of it, and why."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from bad_files import ENDLESS, FILES, FOLLOWED, BadFile

from lmk_integrations import LandmarkIndex
from lmk_integrations.text.graphemes import cluster_starts

TABLE = set(range(1, 29))  # rows of the table; 26 and 27 have tests of their own below
_DROP_FROM_BOUNDS, _OVERRIDE, _READ_SEARCH = 24, 1, 2  # of linux/prctl.h and capability.h


def without_the_rights_of_root() -> None:
    """In the child: what is closed to its owner is closed to root as well."""
    if sys.platform == "linux" and os.geteuid() == 0:
        for capability in (_OVERRIDE, _READ_SEARCH):
            ctypes.CDLL(None).prctl(_DROP_FROM_BOUNDS, capability, 0, 0, 0)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that everything is in, deep enough for ../../.. to stay in it."""
    here = tmp_path_factory.mktemp("bad")
    for folder in ("a/b/c/docs", "a/b/endless/docs"):
        (here / folder).mkdir(parents=True)
    for file in FILES:
        file.write(here / "a/b/c/docs")
    ENDLESS.write(here / "a/b/endless/docs")
    return here


@pytest.fixture(scope="module")
def reports(place: Path) -> dict[str, Any]:
    """Every run's report."""
    driver = Path(__file__).with_name("ingest_them.py")
    folders = [place / "a/b/c/docs", place / "a/b/endless/docs", place / "store"]
    done = subprocess.run(
        [sys.executable, str(driver), *map(str, folders)],
        capture_output=True,
        text=True,
        timeout=3600,
        preexec_fn=without_the_rights_of_root,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def index(place: Path, reports: dict[str, Any]) -> Any:
    with LandmarkIndex(place / "store", "c") as opened:
        yield opened


def check(file: BadFile, report: dict[str, Any]) -> None:
    """It is reported once, with the status, the reason and the words that are expected."""
    found = [
        (status, item["reason"], item["message"])
        for status in ("skipped", "failed")
        for item in report[status]
        if item["name"] == file.doc_id
    ]
    if file.status == "stored":
        assert found == []
        return
    ((status, reason, message),) = found
    assert (status, reason) == (file.status, file.reason), message
    assert file.says in message


@pytest.mark.parametrize("file", FILES, ids=lambda file: ascii(file.name))
def test_what_becomes_of_a_file(
    file: BadFile, reports: dict[str, Any], index: LandmarkIndex
) -> None:
    """Stored as it reads, or skipped, or failed, with a reason and a remedy."""
    check(file, reports["first"])
    stored = index.get(file.doc_id)
    assert (file.doc_id in stored) == (file.status == "stored")
    if file.status != "stored":
        return
    document = stored[file.doc_id]
    if file.text is not None:
        assert document.text == file.text
    assert {**dict(document.metadata), **dict(file.metadata)} == dict(document.metadata)
    warnings = [text for text in reports["first"]["warnings"] if text.startswith(file.doc_id)]
    assert any(file.says in text for text in warnings) == bool(file.says), warnings


def test_an_endless_pdf_ends(reports: dict[str, Any]) -> None:
    """By the clock."""
    check(ENDLESS, reports["endless"])


@pytest.mark.parametrize("file", FOLLOWED, ids=lambda file: file.name)
def test_links_that_are_followed_stay_inside(file: BadFile, reports: dict[str, Any]) -> None:
    """With --follow-symlinks, too."""
    check(file, reports["followed"])


def test_every_row_of_the_table_has_a_file() -> None:
    """No row is forgotten."""
    assert {file.row for file in (*FILES, ENDLESS)} - {0} == TABLE - {26, 27}


def test_every_item_is_counted_once(reports: dict[str, Any]) -> None:
    """Stored, skipped and failed together are all there is."""
    first = reports["first"]
    counts = {
        status: sum(file.status == status for file in FILES)
        for status in ("stored", "skipped", "failed")
    }
    assert first["new"] == counts["stored"]
    assert len(first["skipped"]) == counts["skipped"]
    assert len(first["failed"]) == counts["failed"]
    assert first["documents"] == len(FILES)


def test_the_same_again_stores_nothing(reports: dict[str, Any]) -> None:
    """Row 28: no duplicates, whatever is in the folder. What vanished is not there to fail."""
    first, again = reports["first"], reports["again"]
    assert (again["new"], again["updated"], again["sections"]) == (0, 0, 0)
    assert again["unchanged"] == first["new"]
    assert len(again["failed"]) == len(first["failed"]) - 1


def test_repairs_are_counted(reports: dict[str, Any]) -> None:
    """What reading did to the texts, in all files together."""
    notes = reports["first"]["notes"]
    assert notes["nul_removed"] == 2 + 3
    # The pair in JSON is one that its parser makes.
    assert (notes["surrogates_paired"], notes["surrogates_dropped"]) == (1, 2)
    assert notes["encoding_guessed"] == 3
    # The twins, and the French text in its five encodings: once each is the first.
    assert notes["same_text"] == 1 + 4
    assert notes["unbroken_chars"] == 60_000 + 40_000


def test_nothing_is_cut_off_in_silence(reports: dict[str, Any]) -> None:
    """Row 26: every token is embedded, or counted as dropped."""
    for report in reports.values():
        assert report["tokens_seen"] == report["tokens_embedded"] + report["tokens_dropped"]
        assert report["tokens_dropped"] == 0


def test_no_stored_text_begins_within_a_character(index: LandmarkIndex) -> None:
    """Row 12: neither a section nor a landmark is cut within an emoji or before an accent."""
    seen = 0
    for record in index.scan():
        facts = record.payload["lmk"]
        if facts["doc_id"] != "docs/families.txt":
            continue
        whole = index.get("docs/families.txt")["docs/families.txt"].text
        starts = cluster_starts(whole)
        assert starts[[facts["start"], *facts["ends"]]].all()
        seen += 1
    assert seen > 1


def test_a_section_of_any_text_is_bounded(index: LandmarkIndex) -> None:
    """Rows 13 and 16: neither punctuation nor spaces are needed to cut one."""
    for name in ("docs/cjk.txt", "docs/line.txt", "docs/one-word.txt", "docs/base64.txt"):
        assert index.count(name) > 3, name


def test_nothing_from_outside_is_stored(index: LandmarkIndex, place: Path) -> None:
    """Row 19: not a line of what a link pointed to."""
    first_line = Path("/etc/passwd").read_text().splitlines()[0]
    assert not any(first_line in str(record.payload) for record in index.scan())


def test_no_attachment_is_written(reports: dict[str, Any], place: Path) -> None:
    """Row 25: a file in a file stays there."""
    assert list(place.rglob("escaped*")) == []
