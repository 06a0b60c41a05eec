"""Producer ids from blocks; the test is the controller that reserves them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from kavka.server.controller.request_outcomes import not_controller
from kavka.server.coordinators.producer_id_allocator import ProducerIdAllocator
from kavka.wire.errors import ApiError, ErrorCode
from kavka.zktree.api import Overloaded
from support.toy_runner import code
from support.virtual import VirtualClock, VirtualTasks, run_until_idle


class Blocks:
    """Reserves blocks of three, each when the test says so."""

    def __init__(self) -> None:
        self.requests: list[asyncio.Future[tuple[int, int]]] = []

    async def allocate(self) -> tuple[int, int]:
        self.requests.append(asyncio.get_running_loop().create_future())
        return await self.requests[-1]

    def give(self, first: int, count: int = 3) -> None:
        self.requests[-1].set_result((first, count))


def allocating(
    test: Callable[[ProducerIdAllocator, Blocks], Coroutine[Any, Any, None]],
) -> Callable[[], None]:
    """A test of an allocator."""

    async def run() -> None:
        blocks = Blocks()
        await test(ProducerIdAllocator(VirtualTasks(VirtualClock()), blocks.allocate), blocks)

    return lambda: asyncio.run(run())


@allocating
async def test_another_block_is_reserved_when_one_is_used_up(
    ids: ProducerIdAllocator, blocks: Blocks
) -> None:
    taken = [asyncio.ensure_future(ids.next()) for _ in range(5)]
    await run_until_idle()
    assert len(blocks.requests) == 1, "all wait for one block"
    blocks.give(1000)
    await run_until_idle()
    assert [future.result() for future in taken if future.done()] == [1000, 1001, 1002]
    assert len(blocks.requests) == 2
    blocks.give(7000)
    await run_until_idle()
    assert [future.result() for future in taken[3:]] == [7000, 7001]
    assert await ids.next() == 7002
    assert len(blocks.requests) == 2


@allocating
async def test_ids_of_a_reserved_block_can_be_taken_at_once(
    ids: ProducerIdAllocator, blocks: Blocks
) -> None:
    assert ids.try_next() is None
    assert not blocks.requests, "this reserves none"
    reserving = [asyncio.ensure_future(ids.reserve()) for _ in range(2)]
    await run_until_idle()
    blocks.give(1000)
    await asyncio.gather(*reserving)
    await ids.reserve()
    assert len(blocks.requests) == 1, "there are some left"
    assert [ids.try_next() for _ in range(4)] == [1000, 1001, 1002, None]


@allocating
async def test_a_failure_concerns_all_that_wait_and_no_later_request(
    ids: ProducerIdAllocator, blocks: Blocks
) -> None:
    waiting = [asyncio.ensure_future(ids.next()) for _ in range(2)]
    await run_until_idle()
    blocks.requests[-1].set_exception(ApiError(ErrorCode.INVALID_REQUEST))
    assert [await code(future) for future in waiting] == [ErrorCode.INVALID_REQUEST] * 2
    later = asyncio.ensure_future(ids.next())
    await run_until_idle()
    blocks.give(2000)
    assert await later == 2000


@allocating
async def test_a_refused_block_that_nothing_waits_for_is_no_failed_task(
    ids: ProducerIdAllocator, blocks: Blocks
) -> None:
    """As when the abort of a timed-out transaction needs an id: it is tried again later."""
    reserving = ids.begin_reserve()
    assert reserving is not None
    await run_until_idle()
    blocks.requests[-1].set_exception(not_controller())
    error = await reserving
    assert error is not None
    assert error.code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


@allocating
async def test_if_no_block_can_be_reserved_clients_retry(
    ids: ProducerIdAllocator, blocks: Blocks
) -> None:
    """They would not after another error. Apache Kafka: COORDINATOR_LOAD_IN_PROGRESS."""
    for failure in (Overloaded("/id"), not_controller(), ApiError(ErrorCode.NOT_CONTROLLER)):
        waiting = asyncio.ensure_future(ids.next())
        await run_until_idle()
        blocks.requests[-1].set_exception(failure)
        assert await code(waiting) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    later = asyncio.ensure_future(ids.next())
    await run_until_idle()
    blocks.give(5)
    assert await later == 5


@allocating
async def test_a_cancelled_request_does_not_cancel_the_others(
    ids: ProducerIdAllocator, blocks: Blocks
) -> None:
    first, second = (asyncio.ensure_future(ids.next()) for _ in range(2))
    await run_until_idle()
    first.cancel()
    await run_until_idle()
    blocks.give(1000)
    assert await second == 1000
