"""Work in slices: nothing waits when there is little of it, and others have their turns."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import nullcontext
from typing import Any

import pytest

from kavka.server.request.context import Peer, RequestContext
from kavka.server.runtime import cooperative
from kavka.server.runtime.cooperative import AwaitingSlices, Slices
from kavka.wire.steps import Steps
from support.asynchronous import asynchronous
from support.virtual import DeferredJobs, VirtualClock, VirtualTasks, settle


def work(iterations: list[str], yields: int) -> Slices[str]:
    for number in range(yields):
        iterations.append(f"slice {number}")
        yield
    iterations.append("last")
    return "done"


def test_a_little_is_done_at_once() -> None:
    iterations: list[str] = []
    assert cooperative.run(VirtualTasks(VirtualClock()), work(iterations, 0)) == "done"
    assert iterations == ["last"]


def test_the_loop_runs_others_after_each_slice() -> None:
    async def run() -> list[str]:
        iterations: list[str] = []
        result = cooperative.run(VirtualTasks(VirtualClock()), work(iterations, 3))
        assert isinstance(result, Awaitable)

        async def other() -> None:
            while iterations[-1] != "last":
                iterations.append("other")
                await asyncio.sleep(0)

        beside = asyncio.ensure_future(other())
        assert await result == "done"
        await beside
        return iterations

    iterations = asyncio.run(run())
    assert [turn for turn in iterations if turn != "other"] == [
        "slice 0",
        "slice 1",
        "slice 2",
        "last",
    ]
    for number in range(2):
        between = iterations[
            iterations.index(f"slice {number}") : iterations.index(f"slice {number + 1}")
        ]
        assert "other" in between


@pytest.mark.parametrize("fails", [False, True])
@asynchronous
async def test_the_connection_waits_until_it_is_done(fails: bool) -> None:
    def asked_for() -> Slices[None]:
        yield
        if fails:
            raise ValueError("broken")

    context = RequestContext(Peer("PLAINTEXT", "127.0.0.1"), 0, 0, None)
    result = cooperative.run(VirtualTasks(VirtualClock()), asked_for(), context)
    assert isinstance(result, Awaitable)
    assert context.applied is not None and not context.applied.done()
    with pytest.raises(ValueError, match="broken") if fails else nullcontext():
        await result
    assert context.applied.done()


@pytest.mark.parametrize("yields", [0, 2])
def test_failures_are_the_callers(yields: int) -> None:
    def failing() -> Slices[None]:
        for _ in range(yields):
            yield
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

        def asked_for() -> AwaitingSlices[str]:
            for _ in range(slices_before):
                yield None
            yield awaited
            yield None
            return f"after {awaited.result()}"

        result = cooperative.run(VirtualTasks(VirtualClock()), asked_for())
        assert isinstance(result, Awaitable)
        running = asyncio.ensure_future(result)
        await settle()
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


def driven(steps: Steps[str]) -> Any:
    async def run() -> Any:
        return await cooperative.run_with_jobs(VirtualTasks(VirtualClock()), DeferredJobs(), steps)

    return asyncio.run(run())


def test_steps_without_a_stop_are_done_at_once() -> None:
    def at_once() -> Steps[str]:
        return "done"
        yield None

    with pytest.raises(StopIteration, match="done"):  # the loop does not come into it
        cooperative.run_with_jobs(VirtualTasks(VirtualClock()), DeferredJobs(), at_once()).send(
            None
        )


def test_jobs_are_done_and_their_failures_handed_in() -> None:
    assert driven(patient()) == "done with 7"


def test_failures_of_jobs_are_raised_to_the_caller() -> None:
    def failing() -> Steps[str]:
        yield int, "x"
        return "not refused"

    with pytest.raises(ValueError, match="invalid literal"):
        driven(failing())
