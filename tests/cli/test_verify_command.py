"""`lmk verify`, as a shell runs it."""

from __future__ import annotations

from pathlib import Path

import pytest
from lmk_commands import lmk, result
from qdrant_client import models

from lmk_integrations import connect


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of two documents and a store of them."""
    here = tmp_path_factory.mktemp("verified")
    (here / "docs").mkdir()
    (here / "docs" / "a.txt").write_text("The lamp was lit every evening. " * 40)
    (here / "docs" / "b.txt").write_text("Rye bread needs a sourdough.")
    done = lmk("ingest", "docs", "-c", "c", "--section-tokens", 64, "--json", cwd=here)
    assert result(done)["new"] == 2, done.stderr
    return here


def lose_a_section(place: Path) -> None:
    with connect(place / ".lmk") as client:
        kind = models.FieldCondition(key="lmk.ordinal", match=models.MatchValue(value=1))
        client.delete("c", models.FilterSelector(filter=models.Filter(must=[kind])))


def test_verify_tells_and_repairs(place: Path) -> None:
    """0 where all is well, 1 with a list of what is not, 0 once it is mended."""
    good = lmk("verify", "docs", "-c", "c", cwd=place)
    assert (good.returncode, good.stderr) == (0, "")
    assert "2 documents, 2 compared with their source, 6 sections" in good.stdout
    assert "all is as it should be" in good.stdout

    lose_a_section(place)
    bad = lmk("verify", "-c", "c", cwd=place)
    assert bad.returncode == 1
    assert "found: missing: docs/a.txt: 1 of 5 sections (1)" in bad.stdout
    assert "to mend it: lmk verify PATH... --repair" in bad.stdout

    (place / "docs" / "bad.pdf").write_bytes(b"%PDF-1.4 this is no PDF")
    mended = lmk("verify", "docs", "-c", "c", "--repair", "--json", cwd=place)
    (place / "docs" / "bad.pdf").unlink()
    assert mended.returncode == 3, mended.stderr
    report = result(mended)
    assert (report["command"], report["ok"], report["repaired"]) == ("verify", True, 1)
    assert report["counts"] == {
        "missing": 1,
        "stale": 0,
        "altered": 0,
        "duplicated": 0,
        "foreign": 0,
    }
    assert [item["name"] for item in report["unread"]] == ["docs/bad.pdf"]
    assert lmk("verify", "docs", "-c", "c", cwd=place).returncode == 0


def test_verify_is_told_what_it_cannot_do(place: Path) -> None:
    """2 for what cannot be meant, 1 for a store or collection that is not there."""
    done = lmk("verify", "nowhere", "-c", "c", cwd=place)
    assert (done.returncode, done.stdout) == (2, "")
    assert "nowhere: no such file or folder" in done.stderr
    done = lmk("verify", "-c", "c", "--delete-foreign", cwd=place)
    assert (done.returncode, done.stdout) == (2, "")
    for arguments, message in (
        (["-c", "absent"], "no collection 'absent'"),
        (["-c", "c", "--to", "typo"], "no store at typo"),
    ):
        done = lmk("verify", *arguments, cwd=place)
        assert (done.returncode, done.stdout) == (1, "")
        assert message in done.stderr
