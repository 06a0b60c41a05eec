"""Who waits for a topic is told once, and leaves nothing behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kavka.server.controller.waiters import Waiters
from kavka.wire.errors import ApiError, ErrorCode
from support.virtual import VirtualClock, VirtualTasks


def run(body: Callable[[Waiters], None]) -> None:
    async def main() -> None:
        body(Waiters(VirtualTasks(VirtualClock())))

    asyncio.run(main())


def test_done_tells_all_who_wait_for_the_topic() -> None:
    def body(waiters: Waiters) -> None:
        first, second, other = waiters.add("t"), waiters.add("t"), waiters.add("u")
        waiters.done("t")
        assert first.result() is second.result() is None
        assert not other.done()
        assert "t" not in waiters and "u" in waiters
        waiters.done("t")

    run(body)


def test_fail_tells_everybody_why() -> None:
    def body(waiters: Waiters) -> None:
        outcomes = [waiters.add("t"), waiters.add("u")]
        error = ApiError(ErrorCode.NOT_CONTROLLER)
        waiters.fail(error)
        assert [outcome.result() for outcome in outcomes] == [error, error]
        assert "t" not in waiters and "u" not in waiters

    run(body)


def test_giving_up_is_a_timeout_for_one_alone() -> None:
    def body(waiters: Waiters) -> None:
        first, second = waiters.add("t"), waiters.add("t")
        waiters.give_up("t", first)
        waiters.give_up("t", first)
        error = first.result()
        assert error is not None and error.code is ErrorCode.REQUEST_TIMED_OUT
        waiters.done("t")
        assert second.result() is None
        waiters.give_up("t", second)
        assert second.result() is None

    run(body)


def test_one_that_was_cancelled_is_forgotten() -> None:
    def body(waiters: Waiters) -> None:
        outcome = waiters.add("t")
        outcome.cancel()
        waiters.give_up("t", outcome)
        assert "t" not in waiters
        cancelled = waiters.add("t")
        cancelled.cancel()
        waiters.done("t")

    run(body)
