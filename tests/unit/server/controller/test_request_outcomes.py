"""A request for several topics: one timeout, and no waiter or timer is left."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from kavka.server.controller.request_outcomes import RequestOutcomes, never, not_controller
from kavka.server.controller.topic_waiters import TopicWaiters
from kavka.server.controller.tree_store import ControllerMoved
from kavka.wire.errors import ApiError, ErrorCode
from kavka.zktree.api import ConnectionLost, NodeExists, Overloaded, SessionExpired
from support.virtual import VirtualClock, VirtualTasks, run_until_idle

Setup = tuple[RequestOutcomes, TopicWaiters, VirtualTasks]


@pytest.fixture
def setup() -> Iterator[Setup]:
    tasks = VirtualTasks(VirtualClock())
    waiters = TopicWaiters(tasks)
    with RequestOutcomes(waiters, tasks) as outcomes:
        yield outcomes, waiters, tasks
    assert tasks.pending_timers == 0
    assert not any(name in waiters for name in ("t", "u"))


async def written() -> None: ...


async def test_all_conditions_hold(setup: Setup) -> None:
    outcomes, waiters, tasks = setup
    outcomes.add("t", never, written())
    outcomes.add("u", never)
    waiting = asyncio.ensure_future(outcomes.wait(1000))
    waiters.complete_all("t", None)
    await run_until_idle()
    assert not waiting.done()
    waiters.complete_all("u", None)
    assert await waiting == {}


async def test_the_timeout_is_one_for_all(setup: Setup) -> None:
    outcomes, waiters, tasks = setup
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


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (ApiError(ErrorCode.INVALID_PARTITIONS, "less"), ErrorCode.INVALID_PARTITIONS),
        (NodeExists("/brokers/topics/t"), ErrorCode.TOPIC_ALREADY_EXISTS),
        (ControllerMoved(), ErrorCode.NOT_CONTROLLER),
        (SessionExpired(), ErrorCode.NOT_CONTROLLER),
        (ConnectionLost(), ErrorCode.REQUEST_TIMED_OUT),
        (Overloaded(), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
async def test_a_failed_write_completes_its_request(
    setup: Setup, failure: Exception, code: ErrorCode
) -> None:
    async def fail() -> None:
        raise failure

    outcomes, waiters, tasks = setup
    outcomes.add("t", never, fail())
    outcomes.add("u", lambda: True, written())
    failed = await outcomes.wait(1000)
    assert {name: error.code for name, error in failed.items()} == {"t": code}


async def test_a_cancelled_request_leaves_no_waiter(setup: Setup) -> None:
    outcomes, waiters, tasks = setup
    outcomes.add("t", never)
    waiting = asyncio.ensure_future(outcomes.wait(1000))
    await run_until_idle()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_requests_fail_when_the_term_ends(setup: Setup) -> None:
    outcomes, waiters, tasks = setup
    outcomes.add("t", never)
    waiters.fail(not_controller())
    assert (await outcomes.wait(1000))["t"].code is ErrorCode.NOT_CONTROLLER
