"""Who waits for a topic is told once, and leaves nothing behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kavka.server.controller.topic_waiters import Waiters
from kavka.wire.errors import ApiError, ErrorCode
from support.virtual import VirtualClock, VirtualTasks


def run(body: Callable[[Waiters], None]) -> None:
    async def main() -> None:
        body(Waiters(VirtualTasks(VirtualClock())))

    asyncio.run(main())


def never() -> bool:
    return False


def test_a_change_tells_those_for_whom_it_has_come_true() -> None:
    def body(waiters: Waiters) -> None:
        true: set[str] = set()
        first = waiters.add("t", lambda: "first" in true)
        second = waiters.add("t", lambda: "second" in true)
        other = waiters.add("u", lambda: "first" in true)
        waiters.check("t")
        assert not first.done() and not second.done()
        true.add("first")
        waiters.check("t")
        assert first.result() is None
        assert not second.done() and not other.done(), "the change was of another topic"
        true.add("second")
        waiters.check("t")
        waiters.check("t")
        assert second.result() is None
        assert "t" not in waiters and "u" in waiters

    run(body)


def test_what_is_so_already_is_not_waited_for() -> None:
    def body(waiters: Waiters) -> None:
        assert waiters.add("t", lambda: True).result() is None
        assert "t" not in waiters

    run(body)


def test_the_end_tells_all_who_wait_for_the_topic() -> None:
    def body(waiters: Waiters) -> None:
        first, second, other = (waiters.add(name, never) for name in ("t", "t", "u"))
        waiters.end("t", None)
        assert first.result() is second.result() is None
        assert not other.done()
        assert "t" not in waiters and "u" in waiters
        waiters.end("t", None)
        gone = ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        waiters.end("u", gone)
        assert other.result() is gone

    run(body)


def test_fail_tells_everybody_why() -> None:
    def body(waiters: Waiters) -> None:
        outcomes = [waiters.add("t", never), waiters.add("u", never)]
        error = ApiError(ErrorCode.NOT_CONTROLLER)
        waiters.fail(error)
        assert [outcome.result() for outcome in outcomes] == [error, error]
        assert "t" not in waiters and "u" not in waiters

    run(body)


def test_giving_up_is_a_timeout_for_one_alone() -> None:
    def body(waiters: Waiters) -> None:
        first, second = waiters.add("t", never), waiters.add("t", never)
        waiters.give_up("t", first)
        waiters.give_up("t", first)
        error = first.result()
        assert error is not None and error.code is ErrorCode.REQUEST_TIMED_OUT
        waiters.end("t", None)
        assert second.result() is None
        waiters.give_up("t", second)
        assert second.result() is None

    run(body)


def test_one_that_was_cancelled_is_forgotten() -> None:
    def body(waiters: Waiters) -> None:
        outcome = waiters.add("t", never)
        outcome.cancel()
        waiters.give_up("t", outcome)
        assert "t" not in waiters
        cancelled = waiters.add("t", never)
        cancelled.cancel()
        waiters.end("t", None)
        assert "t" not in waiters

    run(body)
