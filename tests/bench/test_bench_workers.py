"""The protocol between the bench and its worker processes, with a worker of a few lines."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from lmk_integrations.bench.workers import Worker, WorkerError

FAKE = """
import os, sys, time

def open_worker(name):
    return Fake(name)

class Fake:
    def __init__(self, name):
        self.name = name
        self.calls = 0

    def greet(self, who):
        print("noise on stdout")  # libraries do
        os.system("echo more noise")
        self.calls += 1
        return [self.name, who, self.calls]

    def fail(self):
        raise ValueError("no such thing")

    def die(self):
        sys.stderr.write("the last\\nwords\\n")
        os._exit(7)

    def sleep(self):
        time.sleep(60)

    def hold(self, size):
        self.held = bytearray(b"x" * size)
"""


@pytest.fixture
def fake(tmp_path: Path) -> Path:
    """The file of a worker."""
    path = tmp_path / "fake.py"
    path.write_text(FAKE)
    return path


@pytest.mark.parametrize("python", [None, Path(sys.executable)], ids=["here", "isolated"])
def test_answers(fake, python):
    """Arguments and results travel as JSON; one object serves all calls; what it prints is not
    taken for an answer."""
    with Worker("fake", fake, "key", python) as worker:
        assert worker.call("greet", who="wörld\n") == ["key", "wörld\n", 1]
        assert worker.call("greet", who="you") == ["key", "you", 2]


def test_an_error_is_told_and_the_worker_goes_on(fake):
    """The exception's type and text, with the contender's name."""
    with Worker("fake", fake, "key") as worker:
        with pytest.raises(WorkerError, match=r"^fake: ValueError: no such thing$"):
            worker.call("fail")
        with pytest.raises(WorkerError, match="AttributeError"):
            worker.call("no_such_method")
        assert worker.call("greet", who="you")[2] == 1


def test_a_dead_worker_leaves_its_last_words(fake):
    """The exit code and the end of stderr; a later call fails, too, instead of hanging."""
    with Worker("fake", fake, "key") as worker:
        with pytest.raises(WorkerError, match=r"fake ended in die \(exit code 7\): .*last / words"):
            worker.call("die")
        with pytest.raises(WorkerError, match="fake ended in greet"):
            worker.call("greet", who="you")


def test_a_worker_that_hangs_is_ended(fake):
    """After the time allowed; the process is gone."""
    with Worker("fake", fake, "key") as worker:
        assert worker.call("greet", who="you")
        with pytest.raises(WorkerError, match="fake: sleep took over 0 s"):
            worker.call("sleep", timeout_s=0.2)
        assert worker._process.returncode not in (None, 0)


def test_memory_is_the_workers_own(fake):
    """Peak memory begins with the process, not with what its parent holds; it stays."""
    ballast = bytearray(b"x" * (200 << 20))
    with Worker("fake", fake, "key", Path(sys.executable)) as worker:
        before = worker.about()["peak_bytes"]
        assert 0 < before < 100 << 20
        worker.call("hold", size=150 << 20)
        worker.call("hold", size=0)
        about = worker.about(["numpy", "no-such-package"])
        assert about["peak_bytes"] - before > 140 << 20
        assert list(about["versions"]) == ["numpy"]
        assert about["torch_threads"] is None
    assert ballast
