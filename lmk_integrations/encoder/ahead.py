"""One piece of work begun ahead of its time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

Result = TypeVar("Result")

_GRACE_S = 5.0  # how long work that nobody wants any more is waited for


def begun(work: Callable[[], Result]) -> Future[Result]:
    """Begin in a thread. The future's result is that of ``work``, or its exception.

    Unlike an executor's, the thread is a daemon: work that hangs does not keep the program alive.
    """
    future: Future[Result] = Future()

    thread = threading.Thread(target=_do, args=(work, future), name="lmk-planner", daemon=True)
    thread.start()
    return future


def done(work: Callable[[], Result]) -> Future[Result]:
    """The same for work that is not worth a thread: done here and now."""
    future: Future[Result] = Future()
    _do(work, future)
    return future


def _do(work: Callable[[], Result], future: Future[Result]) -> None:
    try:
        future.set_result(work())
    except BaseException as error:  # carried to who asks for the result
        future.set_exception(error)


def let_go(future: Future[Result]) -> None:
    """Wait a little for work to end, so that it does not go on behind its caller's back."""
    wait([future], timeout=_GRACE_S)
