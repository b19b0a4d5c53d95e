"""The parent's side of the parsing child: one kept warm, replaced when it fails."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import Any

from lmk_integrations.errors import DocumentError
from lmk_integrations.ingest.readers.options import ReadOptions
from lmk_integrations.ingest.readers.parsed import Parsed

logger = logging.getLogger(__name__)

_START = (
    "import sys; sys.path[:] = {path!r}; "
    "from lmk_integrations.ingest.readers.child import main; main()"
)


class ParserProcess:
    """Parses files in a child process, under a limit of time and memory for each.

    The child starts with the first file and is reused. One file at a time.
    """

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> ParserProcess:
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        self.close()

    def parse(self, kind: str, path: Path, options: ReadOptions) -> Parsed:
        """Parse one file. kind: "pdf", "office" or "html".

        Raises DocumentError: "timeout", "memory", "crashed", or the parser's own reasons.
        """
        request = {
            "kind": kind,
            "path": str(path),
            "password": options.pdf_password,
            "encoding": options.encoding,
            "memory_mb": options.memory_limit_mb,
            "timeout_s": options.pdf_timeout_s,
        }
        answer = self._ask(request, options)
        if "parsed" in answer:
            return Parsed.from_json(answer["parsed"])
        if answer["reason"] == "memory":
            self._end()
            raise _too_much_memory(options)
        raise DocumentError(answer["message"], answer["reason"])

    def close(self) -> None:
        """End the child. Another `parse` would start a new one."""
        self._end()

    def _ask(self, request: dict[str, Any], options: ReadOptions) -> dict[str, Any]:
        if self._child is not None and self._child.poll() is not None:
            self._end()  # someone ended it while it had nothing to do
        child = self._child or self._start()
        assert child.stdin is not None
        assert child.stdout is not None
        timed_out = threading.Event()

        def end() -> None:
            timed_out.set()
            child.kill()

        timer = threading.Timer(options.pdf_timeout_s, end)
        timer.daemon = True
        timer.start()
        try:
            child.stdin.write(json.dumps(request).encode() + b"\n")
            child.stdin.flush()
            size = child.stdout.read(8)
            answer = child.stdout.read(int.from_bytes(size, "big")) if len(size) == 8 else b""
        except OSError:
            answer = b""
        except BaseException:  # we are interrupted: what it still answers belongs to no one
            self._end()
            raise
        finally:
            timer.cancel()
        if answer and not timed_out.is_set():
            found: dict[str, Any] = json.loads(answer)
            return found
        self._end()
        if timed_out.is_set():
            raise DocumentError(
                f"it took over {options.pdf_timeout_s:g} s to read and was given up; "
                "raise pdf_timeout_s, or split it",
                "timeout",
            )
        raise DocumentError("reading it ended the process that reads; it may be damaged", "crashed")

    def _start(self) -> subprocess.Popen[bytes]:
        self._child = subprocess.Popen(
            [sys.executable, "-B", "-c", _START.format(path=sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for us: the file in flight is finished
        )
        return self._child

    def _end(self) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        child.kill()
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:  # unsent input of a child that is gone
                    logger.debug("the parser's pipe was closed already")
        child.wait()


def _too_much_memory(options: ReadOptions) -> DocumentError:
    return DocumentError(
        f"reading it takes over {options.memory_limit_mb:,} MiB of memory; "
        "raise memory_limit_mb, or split it",
        "memory",
    )
