"""The one thread behind the async methods."""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading

import pytest

from lmk_integrations._adapters import Worker


async def test_jobs_share_one_thread_in_order():
    """However many calls are made at once, they run one by one, first come first served."""
    worker, seen, running = Worker(), [], []

    def job(number: int) -> int:
        running.append(number)
        assert len(running) == 1
        seen.append((number, threading.get_ident()))
        running.remove(number)
        return number

    numbers = await asyncio.gather(*[worker.run(lambda _, n=n: job(n)) for n in range(20)])
    assert numbers == list(range(20))
    assert [number for number, _ in seen] == numbers
    assert len({thread for _, thread in seen} - {threading.get_ident()}) == 1


async def test_cancelling_tells_the_running_job():
    """Cancelling the task ends it at once; the job learns of it and frees the thread."""
    worker, started, stopped = Worker(), threading.Event(), threading.Event()

    def job(cancelled):
        started.set()
        while not cancelled():
            stopped.wait(0.01)
        stopped.set()
        raise RuntimeError("nobody hears this")

    task = asyncio.create_task(worker.run(job))
    await asyncio.to_thread(started.wait, 5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.wait_for(worker.run(lambda _: "free"), 5) == "free"
    assert stopped.is_set()


async def test_cancelling_a_waiting_job_keeps_it_from_starting():
    """A job whose caller has gone is not computed later."""
    worker, gate, ran = Worker(), threading.Event(), []
    first = asyncio.create_task(worker.run(lambda _: gate.wait(5)))
    second = asyncio.create_task(worker.run(lambda _: ran.append("second")))
    await asyncio.sleep(0.05)
    second.cancel()
    await asyncio.sleep(0)
    gate.set()
    await first
    await worker.run(lambda _: None)
    assert ran == []


async def test_errors_reach_the_caller():
    """What the job raises, the caller gets."""

    def job(_):
        raise KeyError("x")

    with pytest.raises(KeyError):
        await Worker().run(job)


async def test_context_travels():
    """Context variables (tracing uses them) hold on the worker thread too."""
    variable = contextvars.ContextVar("variable", default="unset")
    variable.set("set")
    assert await Worker().run(lambda _: variable.get()) == "set"


def test_one_worker_serves_many_loops():
    """Sync code that calls asyncio.run again and again can keep one object."""
    worker = Worker()
    for number in range(3):
        assert asyncio.run(worker.run(lambda _, n=number: n)) == number


async def test_a_forked_process_gets_its_own_thread(monkeypatch):
    """Threads do not survive a fork, so a job must not wait for the parent's."""
    worker = Worker()
    parent = await worker.run(lambda _: threading.get_ident())
    pid = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: pid + 1)
    assert await worker.run(lambda _: threading.get_ident()) != parent
