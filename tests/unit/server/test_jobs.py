"""Long calls in threads, on a real loop."""

from __future__ import annotations

import asyncio
import threading

import pytest

from kavka.server.jobs import THREADS_MAX, ThreadJobs


def test_results_come_back_to_the_loop() -> None:
    async def main() -> None:
        jobs = ThreadJobs(asyncio.get_running_loop())
        here = threading.get_ident()
        assert await jobs.run(threading.get_ident) != here
        assert await jobs.run(pow, 2, 10) == 1024
        await jobs.close()

    asyncio.run(main())


def test_failures_come_back_too() -> None:
    async def main() -> None:
        jobs = ThreadJobs(asyncio.get_running_loop())
        with pytest.raises(ValueError, match="invalid literal"):
            await jobs.run(int, "x")
        await jobs.close()

    asyncio.run(main())


def test_the_loop_goes_on_meanwhile_and_threads_are_few() -> None:
    async def main() -> None:
        jobs = ThreadJobs(asyncio.get_running_loop())
        may_end = threading.Event()
        all_begun = threading.Barrier(THREADS_MAX + 1)

        def work(number: int) -> int:
            if number < THREADS_MAX:
                all_begun.wait(30)
            may_end.wait(30)
            return number

        running = [asyncio.ensure_future(jobs.run(work, n)) for n in range(THREADS_MAX + 2)]
        all_begun.wait(30)  # as many at once as there are threads
        await asyncio.sleep(0)
        assert not any(one.done() for one in running)
        may_end.set()
        assert await asyncio.gather(*running) == list(range(THREADS_MAX + 2))
        await jobs.close()

    asyncio.run(main())


def test_close_drops_nothing() -> None:
    async def main() -> None:
        jobs = ThreadJobs(asyncio.get_running_loop())
        done: list[int] = []
        running = [asyncio.ensure_future(jobs.run(done.append, number)) for number in range(50)]
        await jobs.close()
        assert sorted(done) == list(range(50))
        await asyncio.gather(*running)

    asyncio.run(main())


def test_close_can_drop_what_has_not_begun() -> None:
    async def main() -> None:
        jobs = ThreadJobs(asyncio.get_running_loop())
        may_end, begun = threading.Event(), threading.Semaphore(0)
        done: list[int] = []

        def work(number: int) -> None:
            begun.release()
            may_end.wait(30)
            done.append(number)

        running = [asyncio.ensure_future(jobs.run(work, n)) for n in range(THREADS_MAX + 3)]
        for _ in range(THREADS_MAX):
            assert begun.acquire(timeout=30)
        running[0].cancel()  # nobody waits for it any more, but it goes on
        closing = asyncio.ensure_future(jobs.close(drop_waiting=True))
        await asyncio.sleep(0)
        assert not closing.done(), "the loop goes on meanwhile"
        may_end.set()
        await closing
        assert sorted(done) == list(range(THREADS_MAX))
        await asyncio.wait(running)
        assert all(one.cancelled() for one in running[THREADS_MAX:])
        names = [thread.name for thread in threading.enumerate()]
        assert not [name for name in names if name.startswith("kavka-job")]

    asyncio.run(main())
