"""A loop on a thread of its own."""

from __future__ import annotations

import asyncio
import threading

import pytest

from kavka.testing.thread import LoopThread


async def ident() -> int:
    return threading.get_ident()


def test_coroutines_run_there_and_results_come_back() -> None:
    thread = LoopThread("some name")
    assert thread.is_alive
    assert thread.call(ident()) != threading.get_ident()
    assert [thread.name for thread in threading.enumerate()].count("some name") == 1
    thread.end()
    assert not thread.is_alive
    assert "some name" not in [thread.name for thread in threading.enumerate()]


def test_failures_come_back() -> None:
    async def fail() -> None:
        raise ValueError("as said")

    thread = LoopThread("failing")
    with pytest.raises(ValueError, match="as said"):
        thread.call(fail())
    thread.end()


def test_what_is_left_is_ended() -> None:
    ended: list[str] = []

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")

    async def begin() -> None:
        left.append(asyncio.get_running_loop().create_task(wait()))
        await asyncio.sleep(0)

    left: list[asyncio.Task[None]] = []
    thread = LoopThread("with a task")
    thread.call(begin())
    thread.end()
    assert ended == ["cancelled"]


def test_no_coroutine_is_started_after_the_end() -> None:
    thread = LoopThread("that has ended")
    thread.end()
    with pytest.raises(RuntimeError, match="the loop has ended"):
        thread.call(ident())


def test_it_works_from_a_thread_with_a_loop_too() -> None:
    async def main() -> None:
        thread = LoopThread("beside")
        assert thread.call(ident()) != threading.get_ident()
        thread.end()

    asyncio.run(main())
