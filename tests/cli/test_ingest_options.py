"""Which files `lmk ingest` takes, and how it goes on with what failed before."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import file_makers as make
import pytest
from lmk_commands import lmk, result

from lmk_integrations import ConfigError
from lmk_integrations.cli.ingest_options import n_bytes, paths_and_options
from lmk_integrations.cli.render import safe


def arguments(**given: Any) -> argparse.Namespace:
    """What the parser leaves where nothing else is said."""
    names = ("include", "exclude", "encoding", "pdf_password", "max_bytes", "retry_failed")
    flags = ("follow_symlinks", "prune", "rebuild")
    values = {**dict.fromkeys(names), **dict.fromkeys(flags, False), "paths": []}
    return argparse.Namespace(**{**values, **given})


@pytest.fixture
def report(tmp_path: Path) -> Path:
    """What an earlier run printed."""
    failed = [{"name": name, "reason": "x", "message": "y"} for name in ("docs/a.pdf", "docs/b#2")]
    path = tmp_path / "report.json"
    line = {"type": "result", "paths": [str(tmp_path)], "failed": failed}
    path.write_text('{"type": "progress"}\n' + json.dumps(line) + "\n")
    return path


@pytest.mark.parametrize(
    ("size", "expected"),
    [("0", 0), ("90000", 90_000), ("500K", 512_000), ("2g", 2 << 30), ("10MB", 10 << 20)],
)
def test_a_size(size: str, expected: int) -> None:
    """A number of bytes, or of 1,024, 1,024² or 1,024³ of them."""
    assert n_bytes(size) == expected


@pytest.mark.parametrize("size", ["", "-1", "1.5M", "many", "1T", "9" * 30])
def test_what_is_no_size(size: str) -> None:
    """It is named, with what to write."""
    with pytest.raises(ConfigError, match=r"--max-bytes .*500K"):
        n_bytes(size)


def test_a_report_says_what_to_read_and_where(report: Path, tmp_path: Path) -> None:
    """Its failed items, below the paths of that run unless others are given."""
    paths, options = paths_and_options(arguments(retry_failed=str(report)))
    assert (paths, options.only) == ([tmp_path], ("docs/a.pdf", "docs/b#2"))
    paths, _ = paths_and_options(arguments(retry_failed=str(report), paths=[str(report)]))
    assert paths == [report]


@pytest.mark.parametrize(
    "content", ["", "not json", "[]", "{}", '{"failed": 7}', '{"failed": [1]}']
)
def test_what_is_no_report(content: str, tmp_path: Path) -> None:
    """It is said how to keep one."""
    path = tmp_path / "r.json"
    path.write_text(content)
    with pytest.raises(ConfigError, match=r"is no report; keep one with: lmk ingest .* --json >"):
        paths_and_options(arguments(retry_failed=str(path)))
    with pytest.raises(ConfigError, match="No such file"):
        paths_and_options(arguments(retry_failed=str(tmp_path / "gone.json")))


@pytest.mark.parametrize("other", ["prune", "rebuild"])
def test_a_retry_goes_with_no_option_that_needs_all_files(other: str, report: Path) -> None:
    """Or what is not read would be taken for gone."""
    with pytest.raises(ConfigError, match=f"--{other} needs all"):
        paths_and_options(arguments(retry_failed=str(report), **{other: True}))


def test_the_failed_can_be_tried_again(tmp_path: Path) -> None:
    """--json keeps the report, --retry-failed reads the failed alone; sizes over --max-bytes skip.

    Names are shown without what a terminal would obey.
    """
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "good.txt").write_text("The mill stood by the river.")
    (docs / "large.txt").write_text("word " * 1000)
    make.encrypted_pdf(docs / "a\x1b[31m\nb.pdf", "Hidden words.", user="secret")
    first = lmk(
        "ingest", "docs", "-c", "c", "--json", "--max-bytes", "4K", cwd=tmp_path, timeout=900
    )
    assert first.returncode == 3, first.stderr
    found = result(first)
    assert (found["new"], [item["reason"] for item in found["skipped"]]) == (1, ["too_large"])
    assert [item["reason"] for item in found["failed"]] == ["encrypted"]
    (tmp_path / "report.json").write_text(first.stdout)
    wrong = lmk(
        *("ingest", "-c", "c", "--retry-failed", "report.json", "--pdf-password", "not it"),
        cwd=tmp_path,
        timeout=900,
    )
    assert wrong.returncode == 3, wrong.stderr
    assert "failed: docs/a [31m b.pdf: encrypted: the password given does not open" in wrong.stdout
    assert "\x1b" not in wrong.stdout
    assert "not it" not in wrong.stdout + wrong.stderr
    again = lmk(
        *("ingest", "-c", "c", "--retry-failed", "report.json", "--pdf-password", "secret"),
        "--json", cwd=tmp_path, timeout=900,
    )  # fmt: skip
    assert again.returncode == 0, again.stderr
    found = result(again)
    assert (found["new"], found["documents"]) == (1, 1)
    assert "secret" not in again.stdout + again.stderr


def test_a_name_cannot_drive_the_terminal_that_complains(tmp_path: Path) -> None:
    """Nor with the C1 controls, nor by turning the direction of writing."""
    done = lmk("ingest", "no\x1b[31m such", "-c", "c", cwd=tmp_path, timeout=900)
    assert (done.returncode, done.stderr) == (2, "lmk: no [31m such: no such file or folder\n")
    assert safe("a\x1b]0;t\x07 \x9b2J\u202eb\nc") == "a ]0;t 2J b c"
