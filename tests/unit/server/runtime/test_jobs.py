"""Long calls in threads, on a real loop."""

from __future__ import annotations

import asyncio
import threading

import pytest

from kavka.seams import Pool
from kavka.server.runtime.jobs import THREADS_MAX, ThreadJobs

THREADS = THREADS_MAX[Pool.READ]


async def test_results_come_back_to_the_loop() -> None:
    jobs = ThreadJobs(asyncio.get_running_loop())
    here = threading.get_ident()
    assert await jobs.run(Pool.READ, threading.get_ident) != here
    assert await jobs.run(Pool.READ, pow, 2, 10) == 1024
    await jobs.close()


async def test_failures_come_back_too() -> None:
    jobs = ThreadJobs(asyncio.get_running_loop())
    with pytest.raises(ValueError, match="invalid literal"):
        await jobs.run(Pool.READ, int, "x")
    await jobs.close()


async def test_the_loop_goes_on_meanwhile_and_threads_are_few() -> None:
    jobs = ThreadJobs(asyncio.get_running_loop())
    may_end = threading.Event()
    all_begun = threading.Barrier(THREADS + 1)

    def work(number: int) -> int:
        if number < THREADS:
            all_begun.wait(30)
        may_end.wait(30)
        return number

    running = [asyncio.ensure_future(jobs.run(Pool.READ, work, n)) for n in range(THREADS + 2)]
    all_begun.wait(30)  # as many at once as there are threads
    await asyncio.sleep(0)
    assert not any(job.done() for job in running)
    may_end.set()
    assert await asyncio.gather(*running) == list(range(THREADS + 2))
    await jobs.close()


async def test_close_drops_nothing() -> None:
    jobs = ThreadJobs(asyncio.get_running_loop())
    done: list[int] = []
    running = [
        asyncio.ensure_future(jobs.run(Pool.READ, done.append, number)) for number in range(50)
    ]
    await jobs.close()
    assert sorted(done) == list(range(50))
    await asyncio.gather(*running)


async def test_close_can_drop_what_has_not_begun() -> None:
    jobs = ThreadJobs(asyncio.get_running_loop())
    may_end, begun = threading.Event(), threading.Semaphore(0)
    done: list[int] = []

    def work(number: int) -> None:
        begun.release()
        may_end.wait(30)
        done.append(number)

    running = [asyncio.ensure_future(jobs.run(Pool.READ, work, n)) for n in range(THREADS + 3)]
    for _ in range(THREADS):
        assert begun.acquire(timeout=30)
    running[0].cancel()  # nothing waits for it any more, but it goes on
    closing = asyncio.ensure_future(jobs.close(drop_waiting=True))
    await asyncio.sleep(0)
    assert not closing.done(), "the loop goes on meanwhile"
    may_end.set()
    await closing
    assert sorted(done) == list(range(THREADS))
    await asyncio.wait(running)
    assert all(job.cancelled() for job in running[THREADS:])
    names = [thread.name for thread in threading.enumerate()]
    assert not [name for name in names if name.startswith("kavka-job")]


async def test_a_busy_pool_delays_no_other() -> None:
    """A disk that is slow to write keeps neither readers nor compression waiting."""
    jobs = ThreadJobs(asyncio.get_running_loop())
    may_end = threading.Event()
    for busy in Pool:
        many = [jobs.run(busy, may_end.wait, 30) for _ in range(THREADS_MAX[busy] + 1)]
        for other in Pool:
            if other is not busy:
                assert await asyncio.wait_for(jobs.run(other, pow, 2, 10), 30) == 1024
        may_end.set()
        assert all(await asyncio.gather(*many))
        may_end.clear()
    await jobs.close()
