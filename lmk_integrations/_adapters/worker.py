"""Blocking work for async callers: one thread, stopped when its caller is cancelled."""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
Cancelled = Callable[[], bool]


class Worker:
    """Runs jobs one after another on a single thread, which starts with the first job.

    One thread, because a model that runs in many at once only fights itself for cores, and
    because threads of a shared pool each keep memory of their own.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._executor: ThreadPoolExecutor | None = None
        self._pid = 0

    async def run(self, job: Callable[[Cancelled], T]) -> T:
        """Await ``job(cancelled)``, run on the thread; the event loop stays free.

        job: long work; it must ask ``cancelled()`` now and then and raise when that is True.
        When the awaiting task is cancelled, a job still waiting never starts and a running one is
        told through ``cancelled``; the task itself ends at once.
        """
        stop = threading.Event()
        context = contextvars.copy_context()
        loop = asyncio.get_running_loop()
        future = loop.run_in_executor(self._thread(), context.run, job, stop.is_set)
        try:
            return await future
        finally:
            stop.set()

    def _thread(self) -> ThreadPoolExecutor:
        with self._lock:
            # Threads do not survive a fork: a job handed to a dead one would never be done.
            if self._executor is None or self._pid != os.getpid():
                self._executor = ThreadPoolExecutor(1, thread_name_prefix="lmk-encode")
                self._pid = os.getpid()
            return self._executor
