"""The child process that parses what may loop or explode. One request a line, one answer.

Answers are JSON, not pickle: whoever takes over a parser must not reach the parent.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

from lmk_integrations.errors import DocumentError, MissingExtraError
from lmk_integrations.ingest.readers.parsed import Parsed

if sys.platform != "win32":  # Windows has no such limits
    import resource


# Memory to let go when there is none left. So large that the system gets it back at once.
_RESERVE_BYTES = 40 << 20
_reserve: list[bytearray] = []

_OUT_OF_MEMORY = b'{"reason": "memory", "message": ""}'


def main() -> None:
    """Answer requests until the parent closes our input."""
    requests = sys.stdin.buffer
    # What parsers print must not come between the answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    _never_write_files()
    for line in requests:
        try:
            answer = json.dumps(_answer(json.loads(line))).encode()
        except MemoryError:  # once more, while it was told of, or over the answer itself
            _reserve.clear()
            _lift_limit()
            answer = _OUT_OF_MEMORY
        answers.write(len(answer).to_bytes(8, "big") + answer)
        answers.flush()


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    try:
        parse = _PARSERS[request["kind"]]
        _lift_limit()
        _warm(request["kind"])
        if not _reserve:
            _reserve.append(bytearray(_RESERVE_BYTES))
        _limit(request["memory_mb"], request["timeout_s"])
        return {"parsed": parse(request).to_json()}
    except DocumentError as error:
        return {"reason": error.reason, "message": str(error)}
    except MissingExtraError as error:
        return {"reason": "missing_extra", "message": str(error)}
    except MemoryError:
        _reserve.clear()  # or there is nothing left to say so with
        _lift_limit()
        return {"reason": "memory", "message": ""}
    except OSError as error:
        return {"reason": "unreadable", "message": f"it cannot be read: {error.strerror or error}"}
    except Exception as error:  # a parser's own fault on a file it was not made for
        return {
            "reason": "corrupt",
            "message": f"it cannot be read: {type(error).__name__}: {error}",
        }


def _pdf(request: dict[str, Any]) -> Parsed:
    from lmk_integrations.ingest.readers.pdf import parse_pdf

    return parse_pdf(request["path"], request["password"])


def _office(request: dict[str, Any]) -> Parsed:
    from lmk_integrations.ingest.readers.office import parse_office

    return parse_office(request["path"])


def _html(request: dict[str, Any]) -> Parsed:
    from lmk_integrations.ingest.readers.html import parse_html

    with open(request["path"], "rb") as file:
        return parse_html(file.read(), request["encoding"])


_PARSERS: dict[str, Callable[[dict[str, Any]], Parsed]] = {
    "pdf": _pdf,
    "office": _office,
    "html": _html,
}


def _warm(kind: str) -> None:
    """Load the parser before its memory is limited."""
    if kind == "pdf":
        import pypdf  # noqa: F401
    elif kind == "office":
        from lmk_integrations.ingest.readers.office import _converter

        _converter()


def _lift_limit() -> None:
    """What the request before was allowed says nothing about the next parser's libraries."""
    if sys.platform != "win32":
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (hard, hard))


def _limit(memory_mb: int, timeout_s: float) -> None:
    """Limit what this request may take, beyond what the libraries already have."""
    if sys.platform == "win32":
        return
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    wanted = _mapped_bytes() + (memory_mb << 20)
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_AS, (wanted, hard))
    # Should the parent be gone when this one loops, it ends nevertheless.
    used = resource.getrusage(resource.RUSAGE_SELF)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    seconds = int(used.ru_utime + used.ru_stime + 4 * timeout_s) + 10
    if hard != resource.RLIM_INFINITY:
        seconds = min(seconds, hard)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, hard))


def _mapped_bytes() -> int:
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:  # not Linux
        return 512 << 20


def _never_write_files() -> None:
    """No parser here has to write: an attachment or a link in a file cannot make it."""
    if sys.platform != "win32":
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
