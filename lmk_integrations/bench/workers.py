"""The near end of a worker process; `serve` is the far one."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from lmk_integrations.errors import LMKError

SERVE = Path(__file__).with_name("serve.py")
DEFAULT_TIMEOUT_S = 3600.0

_LINES_OF_LOG = 3


class WorkerError(LMKError):
    """A worker refused, died or did not answer. The message names it and says what it said."""


class Worker:
    """A contender in a process of its own.

    name: for messages. file: the Python file to serve, key: which of its workers.
    python: of the environment to run it in; None: this one, where it may import this package.
    """

    def __init__(self, name: str, file: Path, key: str, python: Path | None = None) -> None:
        self.name = name
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed in close()
        self._process = subprocess.Popen(
            [*_command(python), str(file), key],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            encoding="utf-8",
        )
        self._answers: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def call(self, method: str, *, timeout_s: float = DEFAULT_TIMEOUT_S, **arguments: Any) -> Any:
        """Call a method of the worker. Raises WorkerError; after a timeout the worker is gone."""
        stdin = self._process.stdin
        assert stdin is not None
        try:
            stdin.write(json.dumps({"call": method, "with": arguments}) + "\n")
            stdin.flush()
            line = self._answers.get(timeout=timeout_s)
        except queue.Empty:
            self.close()
            raise WorkerError(f"{self.name}: {method} took over {timeout_s:.0f} s") from None
        except OSError:
            line = ""
        if not line:
            raise WorkerError(f"{self.name} ended in {method}{self._last_words()}")
        answer = json.loads(line)
        if "error" in answer:
            raise WorkerError(f"{self.name}: {answer['error']}")
        return answer["result"]

    def about(self, packages: Sequence[str] = ()) -> dict[str, Any]:
        """peak_bytes, versions of those packages, python, torch_threads."""
        found: dict[str, Any] = self.call("about", packages=list(packages))
        return found

    def close(self) -> None:
        """End the process."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._log):
            if pipe is not None and not pipe.closed:
                try:
                    pipe.close()
                except OSError:  # a request that the dead process never read
                    continue

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as answers:
            for line in answers:
                self._answers.put(line)
        self._answers.put("")

    def _last_words(self) -> str:
        code = self._process.wait()
        self._log.seek(0)
        lines = self._log.read().decode("utf-8", "replace").strip().split("\n")
        return f" (exit code {code}): {' / '.join(lines[-_LINES_OF_LOG:])}"


def _command(python: Path | None) -> list[str]:
    if python is None:
        return [sys.executable, "-m", "lmk_integrations.bench.serve"]
    # Isolated: neither this environment's variables nor this folder's modules reach it.
    return [str(python), "-I", str(SERVE)]
