"""Work in slices: nothing waits when there is little of it, and others have their turns."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import nullcontext

import pytest

from kavka.server.request.context import Peer, RequestContext
from kavka.server.runtime import cooperative
from kavka.wire.steps import Steps
from support.virtual import DeferredJobs, VirtualClock, VirtualTasks, run_until_idle


def work(turns: list[str], yields: int) -> Steps[str]:
    for number in range(yields):
        turns.append(f"slice {number}")
        yield None
    turns.append("last")
    return "done"


def test_a_little_is_done_at_once() -> None:
    turns: list[str] = []
    assert cooperative.run(VirtualTasks(VirtualClock()), work(turns, 0)) == "done"
    assert turns == ["last"]


def test_others_have_a_turn_after_each_slice() -> None:
    async def run() -> list[str]:
        turns: list[str] = []
        result = cooperative.run(VirtualTasks(VirtualClock()), work(turns, 3))
        assert isinstance(result, Awaitable)

        async def other() -> None:
            while turns[-1] != "last":
                turns.append("other")
                await asyncio.sleep(0)

        beside = asyncio.ensure_future(other())
        assert await result == "done"
        await beside
        return turns

    turns = asyncio.run(run())
    assert [turn for turn in turns if turn != "other"] == ["slice 0", "slice 1", "slice 2", "last"]
    for number in range(2):
        between = turns[turns.index(f"slice {number}") : turns.index(f"slice {number + 1}")]
        assert "other" in between


@pytest.mark.parametrize("fails", [False, True])
def test_the_connection_waits_until_it_is_done(fails: bool) -> None:
    def asked_for() -> Steps[None]:
        yield None
        if fails:
            raise ValueError("broken")

    async def run() -> None:
        context = RequestContext(Peer("PLAINTEXT", "127.0.0.1"), 0, 0, None)
        result = cooperative.run(VirtualTasks(VirtualClock()), asked_for(), context)
        assert isinstance(result, Awaitable)
        assert context.applied is not None and not context.applied.done()
        with pytest.raises(ValueError, match="broken") if fails else nullcontext():
            await result
        assert context.applied.done()

    asyncio.run(run())


@pytest.mark.parametrize("yields", [0, 2])
def test_failures_are_the_callers(yields: int) -> None:
    def failing() -> Steps[None]:
        for _ in range(yields):
            yield None
        raise ValueError("broken")

    async def run() -> None:
        result = cooperative.run(VirtualTasks(VirtualClock()), failing())
        assert isinstance(result, Awaitable)
        await result

    with pytest.raises(ValueError, match="broken"):
        asyncio.run(run())


@pytest.mark.parametrize("slices_before", [0, 2])
def test_what_it_waits_for_comes_first(slices_before: int) -> None:
    async def run() -> str:
        awaited = asyncio.get_running_loop().create_future()

        def asked_for() -> Steps[str]:
            for _ in range(slices_before):
                yield None
            yield awaited
            yield None
            return f"after {awaited.result()}"

        result = cooperative.run(VirtualTasks(VirtualClock()), asked_for())
        assert isinstance(result, Awaitable)
        running = asyncio.ensure_future(result)
        await run_until_idle()
        assert not running.done()
        awaited.set_result("that")
        return await running

    assert asyncio.run(run()) == "after that"


# -- with jobs --------------------------------------------------------------------------------


def patient() -> Steps[str]:
    """Goes on after a pause, a job, and a job that fails."""
    yield None
    number = yield int, "7"
    try:
        yield int, "x"
    except ValueError:
        return f"done with {number}"
    return "not refused"


def driven(steps: Steps[str]) -> str:
    async def run() -> str:
        tasks = VirtualTasks(VirtualClock())
        result = cooperative.run(tasks, steps, jobs=DeferredJobs())
        assert isinstance(result, Awaitable)
        return await result

    return asyncio.run(run())


def test_the_results_of_jobs_and_their_failures_are_sent_to_the_work() -> None:
    assert driven(patient()) == "done with 7"


def test_a_failed_job_fails_work_that_does_not_catch_it() -> None:
    def failing() -> Steps[str]:
        yield int, "x"
        return "not refused"

    with pytest.raises(ValueError, match="invalid literal"):
        driven(failing())


def test_jobs_need_threads() -> None:
    async def run() -> str:
        return await cooperative.run_rest(VirtualTasks(VirtualClock()), patient())

    with pytest.raises(TypeError, match="no threads were given to run <class 'int'>"):
        asyncio.run(run())


def test_the_failure_of_an_awaitable_is_thrown_into_the_work() -> None:
    async def refused() -> None:
        raise ValueError("broken")

    def waiting() -> Steps[str]:
        try:
            yield refused()
        except ValueError as failure:
            return str(failure)
        return "not refused"

    assert driven(waiting()) == "broken"
