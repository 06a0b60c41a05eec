"""An exception in a coordinator: it costs what it happens to, and ends nothing for good."""

from __future__ import annotations

import errno
import logging
import re
from collections.abc import Hashable
from typing import Any

import pytest

from kavka.log.journal import FAILED_DEADLINE_RETRY_MS, Decision, Producer, Record, Ticket
from kavka.log.txn_guards import NOT_NEEDED
from kavka.server.coordinators import journal_runner, marker_writer
from kavka.server.coordinators.marker_writer import RETRY_S, MarkerWriter
from kavka.wire.errors import ApiError, ErrorCode
from support.coordinated import Kind, OfGroups, OfTransactions, make
from support.memory_broker import DATA, MemoryBroker, scenario
from support.memory_transactions import PLACE, Transactor, committed
from support.refusals import refusal
from support.toy_machine import BROKEN, Toy
from support.toy_runner import Kit
from support.virtual import settle

ONE = {"t": 1}


@scenario(topics=ONE)
async def test_a_deadline_comes_again_after_a_failure(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    kit = Kit(broker)
    parked = kit.park(b"a", 100)
    expire, failing = kit.toy.expire, [True]

    def fail_once(key: Hashable, now_ms: int) -> Decision:
        if failing:
            failing.clear()
            raise ValueError("broken")
        return expire(key, now_ms)

    monkeypatch.setattr(kit.toy, "expire", fail_once)
    with caplog.at_level(logging.ERROR, journal_runner.__name__):
        await broker.advance(100)
    assert "broken" in caplog.text
    assert not parked.done()
    await broker.advance(FAILED_DEADLINE_RETRY_MS)
    assert parked.result() == b"1"


@scenario(topics=ONE)
async def test_a_command_that_fails_keeps_no_other_and_no_deadline(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    kit = Kit(broker)
    performed: list[Hashable] = []

    def perform(command: Hashable) -> None:
        if command == "bad":
            raise ValueError("broken")
        performed.append(command)

    monkeypatch.setattr(kit.runner, "_perform", perform)

    def ask(toy: Toy, ticket: Ticket, now_ms: int) -> Decision:
        decision = toy.park(ticket, b"a", now_ms + 100)
        decision.commands = ["bad", "good"]
        return decision

    parked = kit.runner.call(ask)
    assert performed == ["good"]
    assert "executing 'bad' failed" in caplog.text
    await broker.advance(100)
    assert parked.result() == b"1"


@pytest.mark.parametrize("slowly", [False, True])
@scenario(topics=ONE)
async def test_a_deadline_of_a_request_that_is_refused_is_met(
    broker: MemoryBroker, slowly: bool
) -> None:
    kit = Kit(broker)
    ticket = Ticket()

    def ask(toy: Toy, _: Ticket, now_ms: int) -> Decision:
        toy.park(ticket, b"a", now_ms + 100)
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)

    if slowly:
        long = kit.runner.call(lambda toy, ticket, _: toy.put_slowly(ticket, b"b", b"1", 2))
        refused = kit.runner.call(ask)
        await broker.advance(0)
        assert long.result() == b"1"
        assert refused.exception().code == ErrorCode.UNKNOWN_MEMBER_ID
    else:
        assert refusal(lambda: kit.runner.call(ask)) == ErrorCode.UNKNOWN_MEMBER_ID
    await broker.advance(100)
    assert ticket.answer == b"1"


@scenario(topics=ONE)
async def test_a_deadline_of_a_look_that_fails_is_met(broker: MemoryBroker) -> None:
    kit = Kit(broker)
    ticket = Ticket()

    def look(toy: Toy, now_ms: int) -> None:
        toy.park(ticket, b"a", now_ms + 100)
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND)

    assert refusal(lambda: kit.runner.read(look)) == ErrorCode.GROUP_ID_NOT_FOUND
    await broker.advance(100)
    assert ticket.answer == b"1"


@scenario(topics=ONE)
async def test_a_marker_that_can_not_be_applied_is_not_the_writers_fault(
    broker: MemoryBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """It is in the log: who wrote it would only write it again."""
    kit = Kit(broker)
    kit.put(producer=Producer(7, 1, NOT_NEEDED))
    kit.toy.pending[7].insert(0, Record(BROKEN, b""))
    kit.runner.marker_appended(7, 1, True)
    assert "t-0: a transaction marker of producer 7 could not be applied" in caplog.text
    assert kit.put(value=b"2") == b"2"


# -- who waits when a directory fails -----------------------------------------------------

GROUP_ID = "g"
MEMBER: dict[str, Any] = {"group_id": GROUP_ID, "member_id": "", "group_instance_id": "i"}
JOIN: dict[str, Any] = {
    **MEMBER,
    "session_timeout_ms": 10_000,
    "rebalance_timeout_ms": 60_000,
    "protocol_type": "consumer",
    "protocols": [{"name": "range", "metadata": b""}],
}
COMMIT: dict[str, Any] = {
    "group_id": GROUP_ID,
    "generation_id_or_member_epoch": -1,
    "member_id": "",
    "topics": [
        {
            "name": "t",
            "partitions": [
                {"partition_index": 0, "committed_offset": 1, "committed_leader_epoch": -1}
            ],
        }
    ],
}
BEAT: dict[str, Any] = {
    "group_id": GROUP_ID,
    "member_id": "m",
    "member_epoch": 0,
    "rebalance_timeout_ms": 60_000,
    "subscribed_topic_names": ["t"],
    "topic_partitions": [],
}
INIT: dict[str, Any] = {
    "transactional_id": GROUP_ID,
    "transaction_timeout_ms": 10_000,
    "producer_id": -1,
    "producer_epoch": -1,
}
SYNC: dict[str, Any] = {
    **MEMBER,
    "generation_id": 1,
    "protocol_type": "consumer",
    "protocol_name": "range",
    "assignments": [],
}
LEAVE: dict[str, Any] = {"group_id": GROUP_ID, "members": [{"member_id": "no such"}]}
FETCH: dict[str, Any] = {"groups": [{"group_id": GROUP_ID, "topics": None}]}
DELETE: dict[str, Any] = {"groups_names": [GROUP_ID]}


def codes(answer: Any) -> set[int]:
    """All error codes in an answer."""
    return set(map(int, re.findall(r"error_code=(-?\d+)", str(answer))))


@pytest.mark.parametrize(
    ("api", "version", "values"),
    [
        ("JoinGroup", 9, JOIN),
        ("SyncGroup", 5, SYNC),
        ("OffsetCommit", 8, COMMIT),
        ("ConsumerGroupHeartbeat", 0, BEAT),
        ("LeaveGroup", 5, LEAVE),
        ("OffsetFetch", 8, FETCH),
        ("DeleteGroups", 2, DELETE),
        ("InitProducerId", 4, INIT),
    ],
    ids=lambda one: one if isinstance(one, str) else None,
)
@scenario(
    f"log.dirs={DATA},/more",
    "offsets.topic.num.partitions=1",
    "transaction.state.log.num.partitions=1",
    topics=ONE,
)
async def test_who_waits_when_a_directory_fails_looks_elsewhere(
    broker: MemoryBroker,
    caplog: pytest.LogCaptureFixture,
    api: str,
    version: int,
    values: dict[str, Any],
) -> None:
    """As Apache Kafka answers when the coordinator's partition is unloaded; it is no failure of
    the request, and worth no traceback."""
    kind: Kind = OfTransactions() if api == "InitProducerId" else OfGroups()
    await make(broker, kind)
    broker.share((1, 2), kind.topic, 0)
    kind.write(broker)
    waiting = broker.tasks.spawn(broker.connect().ask(api, version, **values), name=api)
    await broker.advance(10)
    assert not waiting.done()
    replica = broker.replica(kind.topic, 0)
    with caplog.at_level(logging.INFO):
        replica.read_failed(OSError(errno.EIO, "broken"))
        await broker.advance(0)
    answer = await waiting
    assert codes(answer) - {0} == {ErrorCode.NOT_COORDINATOR}
    assert not any(record.exc_info for record in caplog.records)


# -- markers ------------------------------------------------------------------------------


def _writer(broker: MemoryBroker) -> MarkerWriter:
    found = broker.parts.transaction_markers
    assert found is not None
    return found


@scenario(topics={"t": 2})
async def test_a_marker_is_written_in_the_end_whatever_fails_first(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    one = await Transactor(broker).init()
    other = await Transactor(broker, "other").init()
    for who, place in ((one, PLACE), (other, ("t", 1))):
        await who.write(place)
    assert await one.end(commit=True) == ErrorCode.NONE
    await settle()
    writer = _writer(broker)
    await one.write(PLACE)
    failures: list[Any] = [ValueError("broken")]
    done = writer._partition_done

    def fail_once(*args: Any) -> None:
        if failures:
            raise failures.pop()
        done(*args)

    monkeypatch.setattr(writer, "_partition_done", fail_once)
    assert await one.end(commit=True) == ErrorCode.NONE
    assert await other.end(commit=True) == ErrorCode.NONE
    with caplog.at_level(logging.ERROR, marker_writer.__name__):
        await settle()
    assert "broken" in caplog.text
    assert await committed(broker, ("t", 1)) == [b"v"], "the other transaction has ended"
    await broker.advance(RETRY_S * 1000)
    runner = broker.parts.transactions.runner_for("tx")
    assert runner is not None
    assert runner.machine.state.transactions["tx"].state.name == "COMPLETE_COMMIT"


@scenario(topics=ONE)
async def test_work_on_markers_that_fails_keeps_none_that_is_behind_it(
    broker: MemoryBroker, caplog: pytest.LogCaptureFixture
) -> None:
    one = await Transactor(broker).init()
    await one.write(PLACE)
    await one.end(commit=True)
    await settle()

    def broken() -> Any:
        yield
        raise ValueError("broken")

    done: list[int] = []

    def good() -> Any:
        done.append(1)
        yield

    writer = _writer(broker)
    writer._queue.enqueue(broken())
    writer._queue.enqueue(good())
    await settle()
    assert done and "broken" in caplog.text
