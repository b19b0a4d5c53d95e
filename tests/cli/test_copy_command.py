"""`lmk copy` and `lmk ingest --rebuild`, as a shell runs them."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
from functools import partial
from pathlib import Path

import pytest
from lmk_commands import lmk as run_lmk
from lmk_commands import result

from lmk_integrations import LandmarkIndex, connect
from lmk_integrations.encoder import PlainEncoder

lmk = partial(run_lmk, timeout=300)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with two documents, stored under a toy model in ./.lmk."""
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "light.txt").write_text("The keeper lights the lamp of the lighthouse.")
    (docs / "bread.txt").write_text("Rye bread needs a sourdough.")

    def embed(text: str) -> list[float]:
        return [1.0, float(len(text))]

    toy = PlainEncoder(lambda texts: [embed(text) for text in texts], embed, name="toy", dim=2)
    with LandmarkIndex(tmp_path / ".lmk", "library", toy) as index:
        assert index.ingest(docs).new == 2
    return tmp_path


# -- copy ------------------------------------------------------------------------------------


def test_copy_and_copy_again(place: Path) -> None:
    """A table for people and JSON for programs; the second run sends nothing."""
    first = lmk("copy", ".lmk", "there", "-c", "library", "--as", "moved", cwd=place)
    assert (first.returncode, first.stderr) == (0, "")
    assert first.stdout.startswith("copied 'library' at .lmk to 'moved' at there\n")
    assert "verified: 2 documents, 2 sections; 0.0 MB" in first.stdout
    again = lmk("copy", ".lmk", "there", "-c", "library", "--as", "moved", "--json", cwd=place)
    assert again.returncode == 0
    report = result(again)
    assert (report["copied"], report["unchanged"], report["verified"]) == (0, 4, True)
    with connect(place / "there") as client:
        assert LandmarkIndex(client, "moved").count() == 2


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["nowhere", "there", "-c", "library"], 1, "there is no store at nowhere"),
        ([".lmk", "there", "-c", "other"], 1, "there is no collection 'other' to copy"),
        ([".lmk", ".lmk", "-c", "library"], 2, "onto itself"),
        ([".lmk", ":memory:", "-c", "library"], 2, "ends with this command"),
        ([".lmk", "http://127.0.0.1:1/q", "-c", "library"], 4, "run again to resume"),
    ],
)
def test_what_cannot_be_copied(place: Path, arguments: list[str], code: int, message: str) -> None:
    """One line on stderr, an exit code, nothing on stdout."""
    done = lmk("copy", *arguments, cwd=place)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr


SLOW = """
import sys, time
from lmk_integrations.cli import main
from lmk_integrations.qdrant import move, move_pages
move_pages.MAX_POINTS = 1
write = move._Copy._write
def slowly(copy, records):
    write(copy, records)
    print("wrote", file=sys.stderr, flush=True)
    time.sleep(0.2)
move._Copy._write = slowly
sys.exit(main(sys.argv[1:]))
"""


def test_interrupted_it_says_so_and_goes_on(place: Path) -> None:
    """Ctrl-C ends after the batch in flight, with 130; on a terminal there is a line to watch."""
    watcher, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW, "copy", ".lmk", "there", "-c", "library", "--json"],
        cwd=place,
        stdout=subprocess.PIPE,
        stderr=terminal,
        text=True,
    )
    os.close(terminal)
    seen = b""
    while b"wrote" not in seen:
        seen += os.read(watcher, 4096)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    while chunk := _rest(watcher):
        seen += chunk
    os.close(watcher)
    assert process.returncode == 130, seen
    report = json.loads(output)
    assert report["interrupted"]
    assert 0 < report["copied"] < report["total"] == 4
    assert b" points" in seen
    done = result(lmk("copy", ".lmk", "there", "-c", "library", "--json", cwd=place))
    assert done["unchanged"] == report["copied"]
    assert done["verified"]


def _rest(watcher: int) -> bytes:
    try:
        return os.read(watcher, 4096)
    except OSError:  # the other end is closed
        return b""


# -- ingest --rebuild ------------------------------------------------------------------------


def test_rebuild_under_another_model(place: Path) -> None:
    """From the toy to the shipped model under the same name, which then can be searched."""
    failing = place / "docs" / "broken.pdf"
    failing.write_bytes(b"%PDF-1.4 no")
    refused = lmk("ingest", "docs", "-c", "library", "--rebuild", cwd=place)
    assert refused.returncode == 3
    assert "lmk: not swapped: 1 items failed ('docs/broken.pdf')" in refused.stderr
    failing.unlink()
    done = lmk("ingest", "docs", "-c", "library", "--rebuild", "--drop-old", "--json", cwd=place)
    assert (done.returncode, done.stderr) == (0, "")
    report = result(done)
    assert report["swapped"]
    assert report["collection"].startswith("library--")
    assert report["ingest"]["unchanged"] == 2
    assert len(report["dropped"]) == 1
    hits = result(lmk("search", "who lights the lamp", "-c", "library", "--json", cwd=place))[
        "hits"
    ]
    assert hits[0]["doc_id"] == "docs/light.txt"
    same = lmk("ingest", "docs", "-c", "library", "--rebuild", cwd=place)
    assert same.returncode == 0
    assert "nothing to swap" in same.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--drop-old"], "--drop-old needs --rebuild"),
        (["--allow-missing"], "--allow-missing needs --rebuild"),
        (["--rebuild", "--dry-run"], "--dry-run cannot go with --rebuild"),
        (["--granularity", "many"], "'many' is no number, nor 'sentence'"),
    ],
)
def test_arguments_that_do_not_go_together(place: Path, arguments: list[str], message: str) -> None:
    """Usage errors, before a model is loaded."""
    done = lmk("ingest", "docs", "-c", "library", *arguments, cwd=place)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
