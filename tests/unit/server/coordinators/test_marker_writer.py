"""The writer of transaction markers: its slices, failures around it, and what the coordination tree
says of topics. When markers are written: `tests/scenarios/markers`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from kavka.server.coordinators.marker_writer import RETRY_S, MarkerWriter
from kavka.txncoord.transaction_requests import WriteMarkers
from kavka.wire.errors import ErrorCode as Code
from kavka.wire.record_batches import LOG_APPEND_TIME, read_header
from kavka.zktree import paths
from kavka.zktree.api import NoNode, Overloaded
from support.config_requests import change
from support.coordinator_machine import next_term
from support.memory_broker import MemoryBroker, scenario
from support.memory_transactions import (
    PLACE,
    Transactor,
    committed,
    hold,
    let_markers_fail,
    release,
)
from support.virtual import run_until_idle

OTHER = ("t", 1)
TOPICS = {"t": 2}
RETRY_MS = RETRY_S * 1000


def writer(broker: MemoryBroker) -> MarkerWriter:
    found = broker.parts.transaction_markers
    assert found is not None, "no transaction has ended yet"
    return found


def state(broker: MemoryBroker, name: str = "tx") -> str:
    runner = broker.parts.transactions.runner_for(name)
    assert runner is not None
    return runner.machine.state.transactions[name].state.title


async def written(broker: MemoryBroker, *places: tuple[str, int], name: str = "tx") -> Transactor:
    """A producer with one record in each partition."""
    producer = await Transactor(broker, name).init()
    for place in places:
        assert (await producer.write(place)).code == Code.NONE
    return producer


async def writer_after(broker: MemoryBroker, *places: tuple[str, int]) -> MarkerWriter:
    """The writer, after a first transaction."""
    producer = await written(broker, *places)
    assert await producer.end(commit=True) == Code.NONE
    await run_until_idle()
    return writer(broker)


def slow_clock(broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on a slice is over whenever the time is looked at."""
    read = broker.clock.monotonic_s

    def monotonic_s() -> float:
        broker.clock.elapsed_ms += 10
        return read()

    monkeypatch.setattr(broker.clock, "monotonic_s", monotonic_s)


@pytest.mark.parametrize("version", [11, 12])
@scenario(topics=TOPICS)
async def test_the_next_transaction_finds_the_one_before_completed(
    broker: MemoryBroker, version: int
) -> None:
    """Its markers are written in the loop iteration after the response."""
    producer = await Transactor(broker, version=version).init()
    for places in ((PLACE, OTHER), (PLACE,), (PLACE,)):
        if version < 12:
            assert set(await producer.add(*places)) == {Code.NONE}
        for place in places:
            assert (await producer.write(place)).code == Code.NONE
        assert await producer.end(commit=True) == Code.NONE
    await run_until_idle()
    assert state(broker) == "CompleteCommit" and writer(broker).waiting == 0
    assert (await committed(broker), await committed(broker, OTHER)) == ([b"v"] * 3, [b"v"])


@pytest.mark.parametrize("kind", ["CreateTime", "LogAppendTime"])
@scenario()
async def test_a_marker_has_the_kind_of_time_of_its_topic(broker: MemoryBroker, kind: str) -> None:
    """As those of Apache Kafka: `tests/broker/test_transactional_logs.py` compares all bytes."""
    await broker.create("t", configs={"message.timestamp.type": kind})
    producer = await written(broker, PLACE)
    assert await producer.end(commit=True) == Code.NONE
    await run_until_idle()
    marker = (await broker.fetch(1)).records
    header = read_header(bytes(marker))
    assert header.is_control
    assert bool(header.attributes & LOG_APPEND_TIME) == (kind == "LogAppendTime")


# -- slices ---------------------------------------------------------------------------------


async def reaches_in_slices(broker: MemoryBroker, progress: Callable[[], int], goal: int) -> None:
    """`progress` reaches `goal`, by at most one in one iteration of the event loop."""
    before = progress()
    while before != goal:
        await broker.tasks.sleep(0)
        assert abs(progress() - before) <= 1
        before = progress()


@pytest.mark.parametrize("by", ["replaced", "resigned", "deleted", "retried"])
@scenario(topics=TOPICS)
async def test_thousands_of_markers_are_processed_in_slices(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    found, count, topic = await writer_after(broker, PLACE), 40, "wide"
    tree = Tree(broker)
    if by == "deleted":
        found = tree.writer
    else:
        await broker.create(topic, count, configs={"min.insync.replicas": "2"})
        for index in range(count):
            broker.share((1,), topic, index)
    places = [(topic, index) for index in range(count)]
    slow_clock(broker, monkeypatch)
    found.send(WriteMarkers("tx", 77, 3, True, places, 0), 3)
    await reaches_in_slices(broker, lambda: found.waiting, count)
    if by == "replaced":
        found.send(WriteMarkers("tx", 77, 4, True, [], 0), 4)
    elif by == "resigned":
        found.resigned(broker.parts.transactions.partition_of("tx"))
    elif by == "deleted":
        tree.reads[0].set_exception(NoNode(topic))
    else:
        await change(broker, (2, topic, [("min.insync.replicas", 0, "1")]))
        advancing = asyncio.ensure_future(broker.advance(RETRY_MS))
        logs = [broker.replica(*place).log for place in places]
        await reaches_in_slices(broker, lambda: sum(log.end_offset for log in logs), count)
        await advancing
    await reaches_in_slices(broker, lambda: found.waiting, 0)


@pytest.mark.parametrize(("transactions", "partitions"), [(1, 100), (10, 10), (100, 1)])
@scenario(topics={"t": 1, "wide": 100})
async def test_markers_are_appended_in_slices(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch, transactions: int, partitions: int
) -> None:
    found = await writer_after(broker, PLACE)
    slow_clock(broker, monkeypatch)
    places = [("wide", index) for index in range(partitions)]
    for number in range(transactions):
        found.send(WriteMarkers(f"tx-{number}", 77 + number, 0, True, places, 0), 3)
    logs = [broker.replica(*place).log for place in places]
    await reaches_in_slices(broker, lambda: sum(log.end_offset for log in logs), 100)


# -- what is sent ---------------------------------------------------------------------------


@scenario(topics=TOPICS)
async def test_markers_sent_for_an_id_replace_those_before(broker: MemoryBroker) -> None:
    found = await writer_after(broker, PLACE)
    hold(broker, *OTHER)
    end = broker.replica(*OTHER).log.end_offset
    for epoch in (3, 4, 5):
        found.send(WriteMarkers("tx", 77, epoch, True, [OTHER], 0), epoch)
        await run_until_idle()
    assert found.waiting == 1
    assert broker.replica(*OTHER).log.end_offset == end + 3
    await broker.restart()
    assert found.waiting == 0, "they are left to the next start"


@scenario(topics=TOPICS)
async def test_a_resignation_stops_markers_that_are_about_to_be_written(
    broker: MemoryBroker,
) -> None:
    producer, replica = await written(broker, PLACE), broker.replica()
    replica.partition.follow(next_term(replica, leader=2))
    assert await producer.end(commit=True) == Code.NONE
    await run_until_idle()
    replica.partition.lead(next_term(replica, leader=1))
    replica.role_changed()
    writer(broker).resigned(broker.parts.transactions.partition_of("tx"))
    await run_until_idle()
    assert replica.log.end_offset == 1 and writer(broker).waiting == 0


@scenario(topics=TOPICS)
async def test_a_transaction_without_partitions_is_completed_at_once(broker: MemoryBroker) -> None:
    found = await writer_after(broker, PLACE)
    found.send(WriteMarkers("tx", 1, 1, True, [], 0), 0)
    await run_until_idle()
    assert state(broker) == "CompleteCommit" and found.waiting == 0


# -- the coordination tree -------------------------------------------------------------------


class Tree:
    """A coordination tree played by the test, and a broker's writer that reads it."""

    def __init__(self, broker: MemoryBroker) -> None:
        self.reads: list[asyncio.Future[Any]] = []
        parts = broker.parts
        tree: Any = self
        self.writer = MarkerWriter(parts.replicas, parts.groups, parts.transactions, tree)
        parts.transactions.on_markers = self.writer.send

    async def get(self, path: str, watch: object = None) -> Any:
        assert path in (paths.topic("t"), paths.topic("wide"))
        self.reads.append(asyncio.get_running_loop().create_future())
        return await self.reads[-1]


@scenario(topics=TOPICS)
async def test_a_topic_that_this_broker_does_not_know_yet_is_not_a_deleted_one(
    broker: MemoryBroker,
) -> None:
    """Its metadata may be behind, and so may what it has read from the tree."""
    producer = await written(broker, PLACE)
    tree, parts = Tree(broker), broker.parts
    replica = parts.replicas.remove(*PLACE)
    assert replica is not None
    known = parts.metadata.image
    parts.metadata.image = replace(known, topics={})
    assert await producer.end(commit=True) == Code.NONE
    await run_until_idle()
    (read,) = tree.reads
    parts.replicas.add(replica)
    parts.metadata.image = known
    read.set_exception(NoNode("t"))
    await run_until_idle()
    assert tree.writer.waiting == 1 and replica.log.end_offset == 1
    replica.partition.lead(next_term(replica, leader=1))
    replica.role_changed()
    await run_until_idle()
    assert state(broker) == "CompleteCommit" and replica.log.end_offset == 2


@scenario(topics=TOPICS)
async def test_a_tree_that_can_not_be_read_is_read_again(
    broker: MemoryBroker, caplog: pytest.LogCaptureFixture
) -> None:
    producer = await written(broker, PLACE)
    await broker.ask("DeleteTopics", 5, topic_names=["t"], timeout_ms=5000)
    tree = Tree(broker)
    assert await producer.end(commit=True) == Code.NONE
    await run_until_idle()
    tree.reads[0].set_exception(Overloaded("/t"))
    await run_until_idle()
    assert state(broker) == "PrepareCommit"
    await broker.advance(RETRY_MS)
    tree.reads[1].set_exception(NoNode("t"))
    await run_until_idle()
    assert state(broker) == "CompleteCommit"
    assert "can't find out whether topic t was deleted" in caplog.text


# -- failures that nothing here expects ---------------------------------------------------------


@scenario(topics=TOPICS)
async def test_a_failed_append_concerns_one_marker_and_is_retried(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    producer = await written(broker, PLACE, OTHER)
    let_markers_fail(monkeypatch)
    assert await producer.end(commit=True) == Code.NONE
    await run_until_idle()
    assert "writing a transaction marker to t-0 failed" in caplog.text
    assert await committed(broker, OTHER) == [b"v"]
    monkeypatch.undo()
    await broker.advance(RETRY_MS)
    assert state(broker) == "CompleteCommit"


@scenario(topics=TOPICS)
async def test_a_failure_after_the_append_is_retried_too(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    producer, other = await written(broker, PLACE), await written(broker, OTHER, name="other")
    hold(broker, *PLACE)
    with monkeypatch.context() as patch:
        patch.setattr(broker.parts.purgatory, "watch", failing("planted"))
        assert await producer.end(commit=True) == Code.NONE
        assert await other.end(commit=True) == Code.NONE
        await run_until_idle()
    assert "planted" in caplog.text
    assert state(broker, "other") == "CompleteCommit"
    await broker.advance(RETRY_MS)
    assert state(broker) == "PrepareCommit" and writer(broker).waiting == 1
    release(broker, *PLACE)
    await run_until_idle()
    assert state(broker) == "CompleteCommit" and writer(broker).waiting == 0


@scenario(topics=TOPICS)
async def test_failed_work_does_not_stop_the_work_behind_it(
    broker: MemoryBroker, caplog: pytest.LogCaptureFixture
) -> None:
    class BrokenList(list[tuple[str, int]]):
        """It can be iterated over once."""

        def __iter__(self) -> Iterator[tuple[str, int]]:
            items = list(super().__iter__())
            self.clear()
            assert items, "planted"
            return iter(items)

    found = await writer_after(broker, PLACE)
    end = broker.replica().log.end_offset
    found.send(WriteMarkers("bad", 77, 0, True, BrokenList([PLACE]), 0), 3)
    found.send(WriteMarkers("good", 78, 0, True, [PLACE], 0), 3)
    await run_until_idle()
    assert "planted" in caplog.text
    assert broker.replica().log.end_offset == end + 1


@pytest.mark.parametrize("resigned", [False, True])
@scenario(topics=TOPICS)
async def test_a_coordinator_that_fails_is_notified_again_unless_it_has_resigned(
    broker: MemoryBroker,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    resigned: bool,
) -> None:
    producer, other = await written(broker, PLACE), await written(broker, OTHER, name="other")
    transactions = broker.parts.transactions
    runner = transactions.runner_for("tx")
    assert runner is not None
    monkeypatch.setattr(runner.machine, "markers_written", failing("planted"))
    assert await producer.end(commit=True) == Code.NONE
    assert await other.end(commit=True) == Code.NONE
    await broker.advance(RETRY_MS)
    assert caplog.text.count("can't write completion of transaction 'tx'; retrying: planted") == 2
    assert state(broker, "other") == "CompleteCommit", "another partition's"
    monkeypatch.undo()
    if resigned:
        writer(broker).resigned(transactions.partition_of("tx"))
    await broker.advance(RETRY_MS)
    assert state(broker) == ("PrepareCommit" if resigned else "CompleteCommit")


def failing(message: str) -> Callable[..., Any]:
    def fail(*args: object) -> object:
        raise RuntimeError(message)

    return fail
