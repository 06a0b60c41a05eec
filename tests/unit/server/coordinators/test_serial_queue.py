"""What is asked of a machine while something takes long: in order, and with the loop for others."""

from __future__ import annotations

from typing import Any

import pytest

from kavka.log.journal import Decision, Producer, Record, Ticket
from kavka.log.txn_guards import NOT_NEEDED
from kavka.server.coordinators import serial_queue
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.steps import Steps
from support.memory_broker import MemoryBroker, scenario
from support.refusals import refusal
from support.toy_runner import NOT_COORDINATOR, Kit, code

ONE = {"t": 1}
NOT_AVAILABLE = ErrorCode.COORDINATOR_NOT_AVAILABLE


@pytest.fixture
def little_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """No time stands still for more than one step."""
    monkeypatch.setattr(serial_queue, "TICK_SLICE_S", -1.0)


def long(kit: Kit, value: bytes, failure: Exception | None = None) -> Any:
    return kit.runner.call(lambda toy, ticket, _: toy.put_slowly(ticket, b"a", value, 3, failure))


@pytest.mark.usefixtures("little_at_a_time")
@scenario(topics=ONE)
async def test_what_is_asked_meanwhile_waits_for_its_turn(broker: MemoryBroker) -> None:
    kit = Kit(broker)
    first, read, second, at_once = long(kit, b"1"), kit.read(), long(kit, b"2"), kit.put(b"b")
    assert kit.runner.try_read(lambda toy, _: toy.numbers.get(b"a", b"none")) is None
    last = kit.read()
    await broker.advance(0)
    assert [one.result() for one in (first, read, second, at_once)] == [b"1", b"1", b"2", b"1"]
    assert last.result() == b"2"
    assert kit.read() == b"2"


@pytest.mark.usefixtures("little_at_a_time")
@scenario(topics=ONE)
async def test_others_have_the_loop_in_between(broker: MemoryBroker) -> None:
    kit = Kit(broker)
    written, count = long(kit, b"1"), 0
    while not written.done():
        await broker.tasks.sleep(0)
        count += 1
    assert count >= 3


@pytest.mark.usefixtures("little_at_a_time")
@scenario(topics=ONE)
async def test_a_failure_is_its_own_and_the_next_go_on(
    broker: MemoryBroker, caplog: pytest.LogCaptureFixture
) -> None:
    kit = Kit(broker)
    refusal = ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
    refused, broken = long(kit, b"1", refusal), long(kit, b"2", ValueError("broken"))
    good = kit.put(b"b")
    await broker.advance(0)
    assert await code(refused) == ErrorCode.UNKNOWN_MEMBER_ID
    assert await code(broken) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert good.result() == b"1"
    assert "operation queue of t-0 failed" in caplog.text


@pytest.mark.usefixtures("little_at_a_time")
@scenario(topics=ONE)
async def test_deadlines_and_changes_elsewhere_wait_too(broker: MemoryBroker) -> None:
    kit = Kit(broker)
    parked = kit.park(b"a", 5)
    kit.toy.numbers[b"a"] = b"5"
    written = long(kit, b"7")
    changes = [Decision([Record(b"c", b"1")]), Decision([Record(b"d", b"1")])]
    told = broker.tasks.spawn(kit.runner.carry_out(iter(changes)), name="changes")
    assert not kit.toy.numbers.keys() & {b"c", b"d"}
    await broker.advance(5)
    assert written.result() == b"7"
    assert parked.result() == b"8"
    assert told.done()
    assert {b"c", b"d"} <= kit.toy.numbers.keys()


@pytest.mark.usefixtures("little_at_a_time")
@scenario(topics=ONE)
async def test_who_leads_no_more_answers_all_that_wait(broker: MemoryBroker) -> None:
    kit = Kit(broker)
    waiting = [long(kit, b"1"), kit.put(b"b"), kit.read()]
    kit.runner.close(NOT_COORDINATOR)
    await broker.advance(0)
    assert [await code(one) for one in waiting] == [NOT_COORDINATOR] * 3
    assert not kit.toy.numbers


@scenario(topics=ONE)
async def test_too_many_that_wait_are_refused(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serial_queue, "QUEUED_MAX", 2)
    kit = Kit(broker)
    first, second = long(kit, b"1"), kit.put(b"b")
    assert refusal(kit.put) == NOT_AVAILABLE
    assert refusal(kit.read) == NOT_AVAILABLE
    await broker.advance(0)
    assert (first.result(), second.result()) == (b"1", b"1")
    assert kit.read() == b"1"


@scenario(topics=ONE)
async def test_what_a_marker_decides_comes_before_all_that_waits(broker: MemoryBroker) -> None:
    """Even before what has begun: its records are not in the log yet, and the marker is."""
    kit = Kit(broker)
    for key in (b"a", b"b", b"c"):
        kit.put(key, b"old", producer=Producer(7, 1, NOT_NEEDED))
    begun, read = long(kit, b"new"), kit.read(b"a")
    kit.runner.marker_appended(7, 1, True)
    kit.runner.marker_appended(8, 1, True)
    await broker.advance(0)
    assert await begun == b"new"
    assert await read == b"new"
    assert (kit.read(b"a"), kit.read(b"c")) == (b"new", b"old")


@pytest.mark.parametrize("pauses", [0, 2])
@scenario()
async def test_a_step_may_put_work_in_front_of_its_own(broker: MemoryBroker, pauses: int) -> None:
    """As a marker would come that is written in the course of a decision."""
    done: list[str] = []
    held = serial_queue.SerialQueue(broker.tasks, broker.clock, "work")

    def named(name: str, pauses: int) -> Steps[None]:
        for _ in range(pauses):
            yield None
        done.append(name)

    def first() -> Steps[None]:
        for _ in range(pauses):
            yield None
        held.run_next(named("marker", 2), Ticket())
        done.append("first")

    held.run(first(), Ticket())
    held.run(named("second", 1), Ticket())
    await broker.advance(0)
    assert sorted(done) == ["first", "marker", "second"]
    assert not held.work
