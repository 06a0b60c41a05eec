"""Tasks and timers on a real loop."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Awaitable, Callable

import pytest

from kavka.server.runtime.tasks import LoopTasks
from support.asynchronous import ran_by


def run(story: Callable[[LoopTasks], Awaitable[None]]) -> None:
    async def main() -> None:
        await story(LoopTasks(asyncio.get_running_loop()))

    asyncio.run(main())


with_tasks = ran_by(run)


@with_tasks
async def test_a_spawned_coroutine_gives_its_result(tasks: LoopTasks, /) -> None:
    async def work() -> int:
        await tasks.sleep(0)
        return 7

    task = tasks.spawn(work(), name="work")
    assert task.get_name() == "work"
    assert await task == 7


@with_tasks
async def test_running_tasks_are_not_garbage_collected(tasks: LoopTasks, /) -> None:
    found = weakref.ref(tasks.spawn(asyncio.Event().wait(), name="forgotten"))
    await tasks.sleep(0)
    gc.collect()
    task = found()
    assert task is not None and not task.done()
    task.cancel()


@with_tasks
async def test_a_failure_that_is_not_awaited_is_logged_with_the_name(
    tasks: LoopTasks, /, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail() -> None:
        raise ValueError("this and that")

    tasks.spawn(fail(), name="the failing one")
    await tasks.sleep(0)
    await tasks.sleep(0)
    (record,) = caplog.records
    assert "the failing one" in record.getMessage()
    assert record.exc_info is not None and "this and that" in str(record.exc_info[1])


@with_tasks
async def test_a_cancelled_task_is_no_failure(
    tasks: LoopTasks, /, caplog: pytest.LogCaptureFixture
) -> None:
    task = tasks.spawn(asyncio.Event().wait(), name="waiting")
    await tasks.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert not caplog.records


@with_tasks
async def test_callbacks_and_timers(tasks: LoopTasks, /) -> None:
    called: list[str] = []
    done = tasks.future()
    tasks.call_later(0.01, done.set_result, None)
    late = tasks.call_later(0, called.append, "cancelled")
    tasks.call_soon(called.append, "soon")
    late.cancel()
    late.cancel()
    assert called == [], "not before the next turn"
    await done
    assert called == ["soon"]


@with_tasks
async def test_kill_ends_running_jobs_and_begins_none(tasks: LoopTasks, /) -> None:
    notes: list[str] = []

    async def begin_another() -> None:
        try:
            await tasks.future()
        finally:
            tasks.spawn(note("never"), name="late")

    async def note(text: str) -> None:
        notes.append(text)

    waiting = tasks.spawn(begin_another(), name="waiting")
    fresh = tasks.spawn(note("not begun"), name="fresh")
    await tasks.sleep(0)
    assert notes == ["not begun"]
    await tasks.kill()
    assert waiting.cancelled() and fresh.done()
    late = tasks.spawn(note("never"), name="later still")
    await asyncio.wait([late])
    assert late.cancelled()
    assert notes == ["not begun"]
    await tasks.kill()
