"""What a request does about several topics: together, within its time, and without a trace."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from kavka.server.controller.request_outcomes import RequestOutcomes, never, not_controller
from kavka.server.controller.topic_waiters import TopicWaiters
from kavka.server.controller.tree_store import ControllerMoved
from kavka.wire.errors import ApiError, ErrorCode
from kavka.zktree.api import ConnectionLost, NodeExists
from support.virtual import VirtualClock, VirtualTasks, settle

Body = Callable[[RequestOutcomes, TopicWaiters, VirtualTasks], Awaitable[None]]


def run(body: Body) -> None:
    async def main() -> None:
        tasks = VirtualTasks(VirtualClock())
        waiters = TopicWaiters(tasks)
        with RequestOutcomes(waiters, tasks) as outcomes:
            await body(outcomes, waiters, tasks)
        assert tasks.pending_timers == 0
        assert not any(name in waiters for name in ("t", "u"))

    asyncio.run(main())


async def written() -> None: ...


def test_all_come_true() -> None:
    async def body(outcomes: RequestOutcomes, waiters: TopicWaiters, tasks: VirtualTasks) -> None:
        outcomes.add("t", never, written())
        outcomes.add("u", never)
        waiting = asyncio.ensure_future(outcomes.wait(1000))
        waiters.complete_all("t", None)
        await settle()
        assert not waiting.done()
        waiters.complete_all("u", None)
        assert await waiting == {}

    run(body)


def test_time_is_for_all_together() -> None:
    async def body(outcomes: RequestOutcomes, waiters: TopicWaiters, tasks: VirtualTasks) -> None:
        outcomes.add("t", never)
        outcomes.add("u", never)
        waiting = asyncio.ensure_future(outcomes.wait(1000))
        await tasks.advance(600)
        waiters.complete_all("t", None)
        await tasks.advance(399)
        assert not waiting.done()
        await tasks.advance(1)
        failed = await waiting
        assert {name: error.code for name, error in failed.items()} == {
            "u": ErrorCode.REQUEST_TIMED_OUT
        }

    run(body)


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (ApiError(ErrorCode.INVALID_PARTITIONS, "less"), ErrorCode.INVALID_PARTITIONS),
        (NodeExists("/brokers/topics/t"), ErrorCode.TOPIC_ALREADY_EXISTS),
        (ControllerMoved(), ErrorCode.NOT_CONTROLLER),
        (ConnectionLost(), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_a_write_that_fails_is_not_waited_for(failure: Exception, code: ErrorCode) -> None:
    async def fail() -> None:
        raise failure

    async def body(outcomes: RequestOutcomes, waiters: TopicWaiters, tasks: VirtualTasks) -> None:
        outcomes.add("t", never, fail())
        outcomes.add("u", lambda: True, written())
        failed = await outcomes.wait(1000)
        assert {name: error.code for name, error in failed.items()} == {"t": code}

    run(body)


def test_who_is_cancelled_waits_no_longer() -> None:
    async def body(outcomes: RequestOutcomes, waiters: TopicWaiters, tasks: VirtualTasks) -> None:
        outcomes.add("t", never)
        waiting = asyncio.ensure_future(outcomes.wait(1000))
        await settle()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    run(body)


def test_the_end_of_the_term_is_told() -> None:
    async def body(outcomes: RequestOutcomes, waiters: TopicWaiters, tasks: VirtualTasks) -> None:
        outcomes.add("t", never)
        waiters.fail(not_controller())
        assert (await outcomes.wait(1000))["t"].code is ErrorCode.NOT_CONTROLLER

    run(body)
