"""The command line, as a shell runs it: results on stdout, the rest on stderr, an exit code."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import resource
import select
import signal
import socket
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest
from lmk_commands import LMK, lmk, result

from lmk_integrations import connect

HOSTILE = "Red \x1b[31mletters\x1b]0;title\x07 and a \x08\x9b2J bell."


def assert_no_traceback(done: subprocess.CompletedProcess[str]) -> None:
    assert "Traceback" not in done.stderr
    assert "Warning" not in done.stderr


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a folder of documents, and a store made of them with the defaults."""
    here = tmp_path_factory.mktemp("place")
    docs = here / "docs"
    (docs / "deep").mkdir(parents=True)
    (docs / "light.md").write_text(
        "# The lighthouse\n\nThe keeper climbed the stairs every evening to light the lamp. "
        "Ships steered by its beam when the fog came in.\n\n"
        + "The sea was calm and nothing happened for days. "
        * 20,
        encoding="utf-8",
    )
    (docs / "deep" / "bread.txt").write_text(
        "Rye bread needs a sourdough, which is fed with water every day.", encoding="utf-8"
    )
    (docs / "hostile.txt").write_text(HOSTILE, encoding="utf-8")
    (docs / "empty.txt").write_text("", encoding="utf-8")
    done = lmk("ingest", "docs", "-c", "c", "--json", cwd=here)
    assert done.returncode == 0, done.stderr
    report = result(done)
    assert (report["new"], report["failed"]) == (3, [])
    assert [item["name"] for item in report["skipped"]] == ["docs/empty.txt"]
    assert report["tokens_seen"] == report["tokens_embedded"] + report["tokens_dropped"] > 200
    assert "Traceback" not in done.stderr
    return here


# -- help and usage --------------------------------------------------------------------------


def test_help_answers_at_once(tmp_path: Path) -> None:
    """Within 0.3 s of work: the clock on the wall would measure who else uses the machine."""

    def children() -> float:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    seconds = []
    for _ in range(3):
        before = children()
        done = lmk("--help", cwd=tmp_path)
        seconds.append(children() - before)
        assert done.returncode == 0
        assert "130 interrupted" in " ".join(done.stdout.split())
    assert min(seconds) < 0.3


def test_help_loads_no_library(tmp_path: Path) -> None:
    """Only parsing happens before a command is known."""
    code = (
        "import sys\nfrom lmk_integrations.cli import main\n"
        "try: main(['ingest', '--help'])\nexcept SystemExit: pass\n"
        "print(sorted({'torch', 'transformers', 'numpy', 'qdrant_client'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("[]\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "required: COMMAND"),
        (["frobnicate"], "invalid choice: 'frobnicate'"),
        (["ingest", "-c", "c"], "required: PATH"),
        (["search", "x"], "required: --collection/-c"),
        (["search", "x", "-c", "c", "--limit", "many"], "invalid int value"),
        (["search", "x", "-c", "c", "--mode", "magic"], "invalid choice: 'magic'"),
        (["ingest", "no such folder", "-c", "c"], "no such folder: no such file or folder"),
        (["info", "--to", "ftp://host"], "ftp"),
    ],
)
def test_wrong_usage_is_2(tmp_path: Path, arguments: list[str], message: str) -> None:
    """What is wrong stands on stderr, nothing on stdout, and nothing is made."""
    done = lmk(*arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert_no_traceback(done)
    assert list(tmp_path.iterdir()) == []


def test_wrong_values_are_2(place: Path) -> None:
    """A setting out of range is usage, found before any work."""
    done = lmk("search", "x", "-c", "c", "--mode", "bm25", "--limit", 0, cwd=place)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "lmk: limit=0 must be a whole number from 1 to 1000000\n"


def test_looking_makes_no_store(tmp_path: Path) -> None:
    """A mistyped location is a failure, not a new empty store."""
    for arguments in (
        ["info"],
        ["delete", "x", "-c", "c"],
        ["search", "x", "-c", "c", "--mode", "bm25"],
    ):
        done = lmk(*arguments, "--to", "typo", cwd=tmp_path)
        assert (done.returncode, done.stdout) == (1, "")
        assert "there is no store at typo" in done.stderr
    assert list(tmp_path.iterdir()) == []


# -- the commands ----------------------------------------------------------------------------


def test_the_same_ingest_again(place: Path) -> None:
    """A table for people; a file that fails makes the exit code 3 and is named."""
    (place / "more").mkdir(exist_ok=True)
    (place / "more" / "bad.pdf").write_bytes(b"%PDF-1.4 this is no PDF")
    done = lmk("ingest", "docs", "more", "-c", "c", "--device", "cpu", cwd=place)
    assert done.returncode == 3
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines[0] == ["stored", "in", "'c'", "at", "./.lmk"]
    assert ["new", "0"] in lines
    assert ["unchanged", "3"] in lines
    assert ["failed", "1"] in lines
    assert "failed: more/bad.pdf:" in done.stdout
    assert_no_traceback(done)


def test_a_dry_run_makes_nothing(tmp_path: Path) -> None:
    """It counts documents and tokens; there is no store afterwards."""
    (tmp_path / "a.txt").write_text("Some words to count.", encoding="utf-8")
    done = lmk("ingest", "a.txt", "-c", "c", "--dry-run", "--json", cwd=tmp_path)
    report = result(done)
    assert done.returncode == 0
    assert (report["new"], report["sections"], report["tokens_seen"]) == (1, 1, 5)
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_search_shows_passages(place: Path) -> None:
    """Rank, score, title, place, a strip of landmark scores, the passage."""
    done = lmk("search", "Who lights the lamp?", "-c", "c", "--limit", 2, cwd=place)
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[0].startswith("1. ")
    assert lines[0].endswith("  The lighthouse [docs/light.md]"), "the id that delete takes"
    assert "characters" in lines[1]
    strip = lines[2].strip()
    assert len(strip) > 3
    assert set(strip) <= set("▁▂▃▄▅▆▇█")
    assert "█" in strip
    assert "keeper climbed the stairs" in done.stdout
    assert "\n2. " in done.stdout
    assert "\n3. " not in done.stdout


def test_search_as_json(place: Path) -> None:
    """Hits with all that a program needs; the text is the file's own."""
    done = lmk("search", "sourdough", "-c", "c", "--json", "--mode", "landmark", cwd=place)
    hits = result(done)["hits"]
    assert done.returncode == 0
    assert hits[0]["doc_id"] == "docs/deep/bread.txt"
    text = (place / "docs" / "deep" / "bread.txt").read_text(encoding="utf-8")
    assert text[hits[0]["start"] : hits[0]["end"]] == hits[0]["text"]
    assert len(hits[0]["landmark_scores"]) == len(hits[0]["landmark_spans"]) > 0


def test_a_document_cannot_drive_the_terminal(place: Path) -> None:
    """Escape sequences in a text are not printed; --json has them escaped."""
    shown = lmk("search", "red letters bell", "-c", "c", "--mode", "bm25", cwd=place)
    assert "Red [31mletters" in shown.stdout
    assert not {"\x1b", "\x07", "\x08", "\x9b"} & set(shown.stdout)
    raw = lmk("search", "red letters", "-c", "c", "--mode", "bm25", "--json", cwd=place)
    assert "\x1b" not in raw.stdout
    assert "\x1b[31m" in result(raw)["hits"][0]["text"]


def test_output_survives_a_narrow_terminal(place: Path) -> None:
    """A terminal that knows ASCII alone gets escapes, not a traceback."""
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "COLUMNS": "20"}
    done = lmk("info", cwd=place, env=environment)
    assert done.returncode == 0
    found = lmk("search", "lamp", "-c", "c", "--mode", "bm25", cwd=place, env=environment)
    assert found.returncode == 0
    assert "\\xb7" in found.stdout
    assert_no_traceback(found)


@pytest.mark.parametrize("reader", ["head -1", "true"])
def test_a_reader_may_leave(place: Path, reader: str) -> None:
    """`| head -1` ends quietly, whether the reader leaves before or after."""
    command = f'"$@" search lamp -c c --mode bm25 | {reader}; echo "codes ${{PIPESTATUS[*]}}"'
    done = subprocess.run(
        ["bash", "-c", command, "bash", *LMK], cwd=place, capture_output=True, text=True
    )
    assert done.stdout.splitlines()[-1] == "codes 0 0"
    assert done.stderr == ""


def test_delete_and_info(place: Path, tmp_path: Path) -> None:
    """What is deleted is counted, what is missing makes the exit code 3."""
    store = tmp_path / "store"
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.txt").write_text("A text to delete.", encoding="utf-8")
    (tmp_path / "docs" / "b.txt").write_text("A text to keep.", encoding="utf-8")
    done = lmk(
        *("ingest", "docs", "-c", "c", "--to", store, "--section-tokens", 64),
        *("--language", "none", "--landmark-datatype", "turbo8", "--json"),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    done = lmk("delete", "docs/a.txt", "no/such", "-c", "c", "--to", store, "--json", cwd=tmp_path)
    assert done.returncode == 3
    assert result(done) == {
        "type": "result",
        "command": "delete",
        "deleted": 1,
        "missing": ["no/such"],
    }
    assert "no/such: no such document in 'c'" in done.stderr
    (info,) = result(lmk("info", "--to", store, "--json", cwd=tmp_path))["collections"]
    assert (info["documents"], info["sections"], info["points"]) == (1, 1, 2)
    assert info["recipe"]["section_tokens"] == 64
    assert info["bm25"]["language"] == "none"
    assert info["landmark_datatype"] == "turbo8"
    shown = lmk("info", "-c", "c", "--to", store, cwd=tmp_path)
    assert shown.returncode == 0
    assert "documents         1" in shown.stdout
    assert "landmarks  every 32 tokens, stored as turbo8" in shown.stdout
    for arguments in (["info"], ["delete", "a.txt"], ["search", "x", "--mode", "bm25"]):
        missing = lmk(*arguments, "-c", "absent", "--to", store, cwd=tmp_path)
        assert (missing.returncode, missing.stdout) == (1, "")
        assert "no collection 'absent'" in missing.stderr


def test_a_store_in_use_is_named(place: Path) -> None:
    """Another process that has the store is named with its number: try again, nothing is lost."""
    with connect(place / ".lmk"):
        done = lmk("info", cwd=place)
    assert (done.returncode, done.stdout) == (4, "")
    assert str(os.getpid()) in done.stderr
    assert_no_traceback(done)


def test_an_unreachable_server_is_4(tmp_path: Path) -> None:
    """After a few attempts, within seconds, with the way on named."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    started = time.monotonic()
    done = lmk("info", "-c", "c", "--to", f"http://127.0.0.1:{port}", cwd=tmp_path)
    assert time.monotonic() - started < 30
    assert (done.returncode, done.stdout) == (4, "")
    assert "run again to resume" in done.stderr
    assert_no_traceback(done)


# -- interrupts and progress -----------------------------------------------------------------


def test_an_interrupt_is_130_and_the_next_run_completes(tmp_path: Path) -> None:
    """Ctrl-C ends after the batch in flight with a report; the same command goes on."""
    docs = tmp_path / "docs"
    docs.mkdir()
    for number in range(6):
        (docs / f"{number}.txt").write_text(
            f"Chapter {number}. " + "The river ran past the old mill in the valley. " * 120,
            encoding="utf-8",
        )
    command = [*LMK, "ingest", "docs", "-c", "c", "--json"]
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    collections = tmp_path / ".lmk" / "collections"
    while process.poll() is None and not list(collections.glob("*")):
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    done = subprocess.CompletedProcess(command, process.returncode, stdout, stderr)
    assert done.returncode == 130, stderr
    assert "finishing the batch in flight" in stderr
    assert_no_traceback(done)
    report = result(done)
    assert report["interrupted"]
    assert report["new"] < 6

    again = lmk("ingest", "docs", "-c", "c", "--json", cwd=tmp_path)
    assert again.returncode == 0
    after = result(again)
    assert after["new"] + after["unchanged"] == 6
    assert not after["interrupted"]
    assert again.stderr == "", "progress is silent where nobody looks"


def test_an_interrupt_while_loading_is_130(place: Path) -> None:
    """Before there is anything to finish, Ctrl-C ends at once, and without a traceback."""
    process = subprocess.Popen(
        [*LMK, "search", "x", "-c", "c"], cwd=place, stderr=subprocess.PIPE, text=True
    )
    # The command's own libraries load where main() is watching; before, it is the interpreter's.
    while process.poll() is None and "numpy" not in Path(f"/proc/{process.pid}/maps").read_text():
        time.sleep(0.01)
    time.sleep(0.5)  # past NumPy's own import, which takes an interrupt for a broken installation
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert stderr == "lmk: interrupted\n"


def test_progress_is_shown_to_a_person(place: Path) -> None:
    """On a terminal: documents and tokens per second on stderr, results alone on stdout."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    process = subprocess.Popen(
        [*LMK, "ingest", "docs", "-c", "seen", "--json"],
        cwd=place,
        stdout=subprocess.PIPE,
        stderr=follower,
        text=True,
    )
    os.close(follower)
    seen = b""
    while process.poll() is None or select.select([leader], [], [], 0)[0]:
        if select.select([leader], [], [], 0.1)[0]:
            try:
                seen += os.read(leader, 4096)
            except OSError:  # the other end is closed
                break
    stdout, _ = process.communicate(timeout=60)
    os.close(leader)
    assert process.returncode == 0
    assert json.loads(stdout)["new"] == 3
    assert b"/4 [" in seen, "files done, and the time left by them"
    assert b"documents" in seen
    assert b"tokens/s" in seen
