"""Waiters for topics complete once, and are removed."""

from __future__ import annotations

import pytest

from kavka.server.controller.topic_waiters import TopicWaiters
from kavka.wire.errors import ApiError, ErrorCode
from support.virtual import VirtualClock, VirtualTasks


@pytest.fixture
def waiters() -> TopicWaiters:
    return TopicWaiters(VirtualTasks(VirtualClock()))


def never() -> bool:
    return False


async def test_check_completes_waiters_whose_condition_holds(waiters: TopicWaiters) -> None:
    holding: set[str] = set()
    first = waiters.add("t", lambda: "first" in holding)
    second = waiters.add("t", lambda: "second" in holding)
    other = waiters.add("u", lambda: "first" in holding)
    waiters.check("t")
    assert not first.done() and not second.done()
    holding.add("first")
    waiters.check("t")
    assert first.result() is None
    assert not second.done() and not other.done(), "the change was of another topic"
    holding.add("second")
    waiters.check("t")
    waiters.check("t")
    assert second.result() is None
    assert "t" not in waiters and "u" in waiters


async def test_a_condition_that_holds_already_completes_at_once(waiters: TopicWaiters) -> None:
    assert waiters.add("t", lambda: True).result() is None
    assert "t" not in waiters


async def test_complete_all_completes_the_waiters_of_the_topic(waiters: TopicWaiters) -> None:
    first, second, other = (waiters.add(name, never) for name in ("t", "t", "u"))
    waiters.complete_all("t", None)
    assert first.result() is second.result() is None
    assert not other.done()
    assert "t" not in waiters and "u" in waiters
    waiters.complete_all("t", None)
    gone = ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    waiters.complete_all("u", gone)
    assert other.result() is gone


async def test_fail_completes_all_waiters_with_the_error(waiters: TopicWaiters) -> None:
    outcomes = [waiters.add("t", never), waiters.add("u", never)]
    error = ApiError(ErrorCode.NOT_CONTROLLER)
    waiters.fail(error)
    assert [outcome.result() for outcome in outcomes] == [error, error]
    assert "t" not in waiters and "u" not in waiters


async def test_a_timeout_completes_one_waiter(waiters: TopicWaiters) -> None:
    first, second = waiters.add("t", never), waiters.add("t", never)
    waiters.time_out("t", first)
    waiters.time_out("t", first)
    error = first.result()
    assert error is not None and error.code is ErrorCode.REQUEST_TIMED_OUT
    waiters.complete_all("t", None)
    assert second.result() is None
    waiters.time_out("t", second)
    assert second.result() is None


async def test_a_cancelled_waiter_is_removed(waiters: TopicWaiters) -> None:
    outcome = waiters.add("t", never)
    outcome.cancel()
    waiters.time_out("t", outcome)
    assert "t" not in waiters
    cancelled = waiters.add("t", never)
    cancelled.cancel()
    waiters.complete_all("t", None)
    assert "t" not in waiters
