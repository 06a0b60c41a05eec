"""Markers are written as soon as they can be, and given up only where there is nothing to end."""

from __future__ import annotations

import errno
import logging
from functools import partial
from typing import Any

import pytest

from kavka.log.memfs import Fault
from kavka.server.coordinators import marker_writer, serial_queue
from kavka.server.coordinators.marker_writer import RETRY_S, MarkerWriter
from kavka.server.replica.partition_state import Leadership
from kavka.txncoord.requests import WriteMarkers
from kavka.wire.errors import ErrorCode as Code
from kavka.zktree import paths
from kavka.zktree.api import Overloaded
from support.memory_broker import DATA, MemoryBroker, scenario
from support.memory_network import until
from support.memory_transactions import (
    PLACE,
    Transactor,
    committed,
    hold,
    let_markers_fail,
    release,
    write_markers,
)
from support.virtual import settle

STATE = "__transaction_state"
OTHER = ("t", 1)
ONE_PARTITION = "transaction.state.log.num.partitions=1"
TOPICS = {"t": 2}


def writer(broker: MemoryBroker) -> MarkerWriter:
    found = broker.parts.transaction_markers
    assert found is not None, "nothing has ended yet"
    return found


def is_completed(broker: MemoryBroker, name: str = "tx") -> bool:
    """Whether the coordinator has nothing left to do for an id."""
    transactions = broker.parts.transactions
    runner = transactions._require_runner(name)
    return runner.machine.state.transactions[name].state.name.startswith("COMPLETE")


async def written(broker: MemoryBroker, *places: tuple[str, int], version: int = 12) -> Transactor:
    """A producer with one record in each partition."""
    one = await Transactor(broker, version=version).init()
    if version < 12:
        await one.add(*places)
    outcomes = await one.write_all({place: one.batch(place) for place in places})
    assert {outcome.code for outcome in outcomes} == {Code.NONE}
    return one


@pytest.mark.parametrize("version", [11, 12])
@scenario(topics=TOPICS)
async def test_markers_are_there_in_the_turn_after_the_answer(
    broker: MemoryBroker, version: int
) -> None:
    """So that the next transaction finds this one completed."""
    one = await written(broker, PLACE, OTHER, version=version)
    for number in range(3):
        if number:
            if version < 12:
                assert await one.add(PLACE) == [Code.NONE]
            assert (await one.write()).code == Code.NONE
        else:
            one.sequences = {PLACE: 1, OTHER: 1}
        assert await one.end(commit=True) == Code.NONE
    await settle()
    assert is_completed(broker)
    assert await committed(broker) == [b"v"] * 3
    assert await committed(broker, OTHER) == [b"v"]
    assert writer(broker).waiting == 0


@scenario(topics=TOPICS)
async def test_a_transaction_ends_when_all_its_markers_are_safe(broker: MemoryBroker) -> None:
    one = await written(broker, PLACE, OTHER)
    hold(broker, *OTHER)
    assert await one.end(commit=True) == Code.NONE
    await settle()
    assert await committed(broker) == [b"v"]
    assert not is_completed(broker) and writer(broker).waiting == 1
    assert broker.replica(*OTHER).log.end_offset == 2, "it is written"
    release(broker, *OTHER)
    await settle()
    assert is_completed(broker) and writer(broker).waiting == 0
    assert broker.replica(*OTHER).log.end_offset == 2, "once"


@scenario(topics=TOPICS)
async def test_a_marker_waits_for_a_leader(broker: MemoryBroker) -> None:
    one = await written(broker, PLACE)
    partition = broker.replica().partition
    epoch = partition.leader_epoch
    partition.follow(Leadership(1, 2, epoch + 1, (2,), partition.partition_epoch + 1, (1, 2)))
    assert await one.end(commit=True) == Code.NONE
    await settle()
    assert not is_completed(broker) and writer(broker).waiting == 1
    lead(broker, epoch + 2)
    await settle()
    assert is_completed(broker)
    assert await committed(broker) == [b"v"]


def lead(broker: MemoryBroker, epoch: int) -> None:
    """Let the broker lead t-0, as if LeaderAndIsr had said so."""
    replica = broker.replica()
    version = replica.partition.partition_epoch + 1
    for command in replica.partition.lead(Leadership(1, 1, epoch, (1,), version, (1, 2))):
        replica.log.assign_epoch(command.epoch, command.start_offset)
    replica.role_changed()


@scenario(topics=TOPICS)
async def test_a_marker_that_a_failover_may_have_taken_back_is_written_again(
    broker: MemoryBroker,
) -> None:
    one = await written(broker, PLACE)
    hold(broker, *PLACE)
    assert await one.end(commit=True) == Code.NONE
    await settle()
    assert broker.replica().log.end_offset == 2 and not is_completed(broker)
    lead(broker, broker.replica().partition.leader_epoch + 1)
    await settle()
    assert is_completed(broker)
    assert broker.replica().log.end_offset == 3


@scenario(topics=TOPICS)
async def test_a_marker_waits_for_replicas_in_sync(broker: MemoryBroker) -> None:
    await broker.create("s", configs={"min.insync.replicas": "2"})
    one = await written(broker, ("s", 0))
    release(broker, "s", 0)
    assert await one.end(commit=True) == Code.NONE
    await settle()
    assert broker.replica("s").log.end_offset == 1 and not is_completed(broker)
    hold(broker, "s", 0)
    await broker.advance(RETRY_S * 1000)
    assert broker.replica("s").log.end_offset == 2, "written, but not yet safe"
    release(broker, "s", 0)
    await settle()
    assert is_completed(broker)


@scenario(topics=TOPICS)
async def test_a_marker_waits_where_too_many_files_are_open(broker: MemoryBroker) -> None:
    one = await written(broker, PLACE)
    log = f"{DATA}/t-0/{0:020}.log"
    broker.fs.faults.append(Fault("pwrite", log, errno.EMFILE, times=2))
    assert await one.end(commit=False) == Code.NONE
    await broker.advance(RETRY_S * 1000)
    assert not is_completed(broker) and writer(broker).waiting == 1
    await broker.advance(RETRY_S * 1000)
    assert is_completed(broker)
    assert await committed(broker) == []


@scenario(topics=TOPICS)
async def test_after_a_kill_they_are_written(broker: MemoryBroker) -> None:
    """That the commit is certain is all that the client was told."""
    one = await written(broker, PLACE, OTHER)
    hold(broker, *OTHER)
    assert await one.end(commit=True) == Code.NONE
    await settle()
    assert not is_completed(broker)
    await broker.kill()
    await settle()
    assert is_completed(broker)
    assert await committed(broker) == [b"v"]
    assert await committed(broker, OTHER) == [b"v"]


@scenario(topics=TOPICS)
async def test_a_stop_leaves_them_to_the_next_start(broker: MemoryBroker) -> None:
    one = await written(broker, PLACE, OTHER)
    hold(broker, *OTHER)
    assert await one.end(commit=True) == Code.NONE
    await settle()
    found = writer(broker)
    assert found.waiting == 1
    await broker.restart()
    assert found.waiting == 0
    await settle()
    assert is_completed(broker)
    assert await committed(broker) == await committed(broker, OTHER) == [b"v"]


# -- deleted topics -------------------------------------------------------------------------


async def delete(broker: MemoryBroker, name: str = "t") -> None:
    answer = await broker.connect().ask("DeleteTopics", 5, topic_names=[name], timeout_ms=5000)
    assert answer.responses[0].error_code == Code.NONE


@scenario(topics=TOPICS)
async def test_a_marker_is_given_up_when_its_topic_is_deleted(
    broker: MemoryBroker, caplog: pytest.LogCaptureFixture
) -> None:
    await broker.create("u")
    one = await written(broker, PLACE, ("u", 0))
    hold(broker, *PLACE)
    assert await one.end(commit=True) == Code.NONE
    await settle()
    assert not is_completed(broker)
    with caplog.at_level(logging.WARNING, marker_writer.__name__):
        await delete(broker)
        await until(lambda: is_completed(broker), "the transaction is completed")
    assert "skipped marker of transaction 'tx' in t-0: the topic was deleted" in caplog.text
    assert await committed(broker, ("u", 0)) == [b"v"]


@scenario(topics=TOPICS)
async def test_so_it_is_when_it_had_been_deleted_before(broker: MemoryBroker) -> None:
    await broker.create("u")
    one = await written(broker, PLACE, OTHER, ("u", 0))
    await delete(broker)
    assert await one.end(commit=False) == Code.NONE
    await until(lambda: is_completed(broker), "the transaction is completed")


@scenario(topics=TOPICS)
async def test_a_topic_that_is_not_known_yet_is_not_a_deleted_one(broker: MemoryBroker) -> None:
    """What the broker has been told so far is not all: the coordination tree is."""
    one = await written(broker, PLACE)
    replicas = broker.parts.replicas
    replica = replicas.remove("t", 0)
    assert replica is not None
    cache = broker.parts.metadata
    before = cache.image
    topics = {name: topic for name, topic in before.topics.items() if name != "t"}
    object.__setattr__(cache.image, "topics", topics)
    assert await one.end(commit=True) == Code.NONE
    await settle()
    assert not is_completed(broker) and writer(broker).waiting == 1
    replicas.add(replica)
    writer(broker)._skip_if_deleted((), PLACE)
    assert writer(broker).waiting == 1, "what the tree told may be older"
    lead(broker, replica.partition.leader_epoch + 1)
    await settle()
    assert is_completed(broker)
    assert replica.log.end_offset == 2


@scenario(topics=TOPICS)
async def test_where_that_can_t_be_told_it_is_asked_again(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = await written(broker, PLACE)
    await delete(broker)
    coordination: Any = broker.instance._coordination
    get, asked = coordination.get, []

    async def overloaded(path: str, watch: object = None) -> Any:
        asked.append(path)
        if len(asked) == 1:
            raise Overloaded(path)
        return await get(path, watch)

    monkeypatch.setattr(coordination, "get", overloaded)
    assert await one.end(commit=True) == Code.NONE
    await settle()
    assert not is_completed(broker)
    await broker.advance(RETRY_S * 1000)
    await until(lambda: is_completed(broker), "the transaction is completed")
    assert asked == [paths.topic("t")] * 2


# -- who may not ----------------------------------------------------------------------------


@scenario(ONE_PARTITION, topics=TOPICS)
async def test_a_partition_where_the_producer_has_gone_on_needs_no_marker(
    broker: MemoryBroker,
) -> None:
    one = await written(broker, PLACE, OTHER)
    newer = one.now._replace(epoch=one.now.epoch + 5)
    assert await write_markers(broker, newer, PLACE, commit=False) == [Code.NONE]
    assert await one.end(commit=True) == Code.NONE
    await settle()
    assert is_completed(broker)
    assert (await committed(broker), await committed(broker, OTHER)) == ([], [b"v"])


@scenario(ONE_PARTITION, topics=TOPICS)
async def test_whom_a_partition_knows_as_deposed_writes_no_more(broker: MemoryBroker) -> None:
    one = await written(broker, PLACE, OTHER, version=11)
    elsewhere = await write_markers(broker, one.now, PLACE, commit=False, coordinator_epoch=50)
    assert elsewhere == [Code.NONE]
    assert await one.end(commit=True) == Code.NONE
    await settle()
    assert not is_completed(broker)
    assert writer(broker).waiting == 0


@scenario(ONE_PARTITION, topics=TOPICS)
async def test_who_coordinates_no_more_writes_none(broker: MemoryBroker) -> None:
    one = await written(broker, PLACE, OTHER)
    hold(broker, *OTHER)
    partition = broker.replica(*PLACE).partition
    partition.follow(Leadership(1, 2, 50, (2,), partition.partition_epoch + 1, (1, 2)))
    assert await one.end(commit=True) == Code.NONE
    await settle()
    assert writer(broker).waiting == 2
    state = broker.replica(STATE)
    now = state.partition
    now.follow(Leadership(1, 2, now.leader_epoch + 1, (2,), now.partition_epoch + 1, (1, 2)))
    state.role_changed()
    lead(broker, 51)
    await settle()
    assert writer(broker).waiting == 0
    await settle()
    assert broker.replica(*PLACE).log.end_offset == 1, "it is for another to write"


@scenario(topics=TOPICS)
async def test_what_is_handed_over_anew_takes_the_place_of_what_was(broker: MemoryBroker) -> None:
    one = await written(broker, PLACE)
    assert await one.end(commit=True) == Code.NONE
    await settle()
    hold(broker, *OTHER)
    found, end = writer(broker), broker.replica(*OTHER).log.end_offset
    for epoch in (3, 4, 5):
        found.send(WriteMarkers("tx", 77, epoch, True, [OTHER], 0), epoch)
        await settle()
    assert found.waiting == 1
    assert broker.replica(*OTHER).log.end_offset == end + 3
    found.resigned(broker.parts.transactions.partition_of("tx"))
    await settle()
    assert found.waiting == 0


@pytest.mark.parametrize("by", ["another", "elsewhere", "deleted", "known"])
@scenario(topics=TOPICS)
async def test_thousands_of_markers_take_turns(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    one = await written(broker, PLACE)
    assert await one.end(commit=True) == Code.NONE
    await settle()
    found = writer(broker)
    monkeypatch.setattr(serial_queue, "TICK_SLICE_S", 0)
    monkeypatch.setattr(found, "_read_topic", looks_for_nothing)
    places = [("nowhere", number) for number in range(40)]

    async def turns() -> int:
        count = 0
        while found._queue.work:
            await broker.tasks.sleep(0)
            count += 1
        return count

    found.send(WriteMarkers("tx", 77, 3, True, places, 0), 3)
    assert await turns() >= len(places)
    assert found.waiting == len(places)
    if by == "another":
        found.send(WriteMarkers("tx", 77, 4, True, [], 0), 4)
    elif by == "elsewhere":
        found.resigned(broker.parts.transactions.partition_of("tx"))
    elif by == "deleted":
        found._queue.enqueue(
            found._for_each_waiting("nowhere", partial(found._skip_if_deleted, ()))
        )
    else:
        for place in places:
            found._schedule_retry(place)
        found._retry()
    assert found.waiting == len(places), "nothing is done at once"
    assert await turns() >= len(places)
    assert found.waiting == (len(places) if by == "known" else 0)


@scenario(topics=TOPICS)
async def test_thousands_that_end_at_once_take_turns(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = await written(broker, PLACE)
    assert await one.end(commit=True) == Code.NONE
    await settle()
    found = writer(broker)
    monkeypatch.setattr(serial_queue, "TICK_SLICE_S", 0)
    first = broker.replica().log.end_offset
    for number in range(5):
        found.send(WriteMarkers(f"tx-{number}", 77 + number, 0, True, [PLACE], 0), 3)
    for end in range(first + 1, first + 6):
        await broker.tasks.sleep(0)
        assert broker.replica().log.end_offset == end, "one a slice"


async def looks_for_nothing(topic: str) -> None:
    """The topic is not known so far."""


@scenario(topics=TOPICS)
async def test_a_failure_that_nobody_expects_is_one_marker_s(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    one = await written(broker, PLACE, OTHER)
    let_markers_fail(monkeypatch)
    assert await one.end(commit=True) == Code.NONE
    await settle()
    assert "writing a transaction marker to t-0 failed" in caplog.text
    assert await committed(broker, OTHER) == [b"v"]
    monkeypatch.undo()
    await broker.advance(RETRY_S * 1000)
    assert is_completed(broker)


@scenario(topics=TOPICS)
async def test_a_coordinator_that_has_no_time_is_told_again(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the transaction would not be complete before the next start."""
    one = await written(broker, PLACE)
    hold(broker, *PLACE)
    assert await one.end(commit=True) == Code.NONE
    monkeypatch.setattr(serial_queue, "QUEUED_MAX", 0)
    release(broker, *PLACE)
    await broker.advance(3 * RETRY_S * 1000)
    assert not is_completed(broker)
    monkeypatch.undo()
    await broker.advance(RETRY_S * 1000)
    assert is_completed(broker)
    assert broker.replica(*PLACE).log.end_offset == 2, "the marker is written once"


@pytest.mark.parametrize("fate", ["later", "elsewhere"])
@scenario(topics=TOPICS)
async def test_one_that_fails_to_take_it_down_is_told_again_while_it_is_one(
    broker: MemoryBroker,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    fate: str,
) -> None:
    one, other = await written(broker, PLACE), await Transactor(broker, "other").init()
    assert (await other.write(OTHER)).code == Code.NONE
    shard = broker.parts.transactions._require_runner("tx").machine
    told: list[WriteMarkers] = []

    def fails(markers: WriteMarkers, *asked: object) -> object:
        told.append(markers)
        raise RuntimeError("planted")

    monkeypatch.setattr(shard, "markers_written", fails)
    assert await one.end(commit=True) == Code.NONE
    assert await other.end(commit=True) == Code.NONE
    await broker.advance(RETRY_S * 1000)
    assert len(told) == 2 and told[0] is told[1], "and told again"
    assert "planted" in caplog.text
    assert is_completed(broker, "other"), "it is in nobody's way"
    monkeypatch.undo()
    if fate == "elsewhere":
        writer(broker).resigned(broker.parts.transactions.partition_of("tx"))
    await broker.advance(RETRY_S * 1000)
    assert is_completed(broker) == (fate == "later")


@scenario("num.partitions=1", topics={"wide": 300})
async def test_many_markers_are_written_in_slices(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = await Transactor(broker).init()
    places = [("wide", index) for index in range(300)]
    assert {out.code for out in await one.write_all({p: one.batch(p) for p in places})} == {0}
    monkeypatch.setattr(serial_queue, "TICK_SLICE_S", -1.0)  # each takes all of it
    turns = 0
    assert await one.end(commit=True) == Code.NONE
    ends = [broker.replica(*place) for place in places]
    seen: list[int] = []
    while not is_completed(broker):
        seen.append(sum(replica.log.end_offset == 2 for replica in ends))
        await settle(1)
        turns += 1
    assert turns >= 100 and sorted(seen) == seen


@scenario(topics=TOPICS)
async def test_nobody_hears_of_an_empty_transaction(broker: MemoryBroker) -> None:
    one = await written(broker, PLACE)
    assert await one.end(commit=True) == Code.NONE
    await settle()
    writer(broker).send(WriteMarkers("tx", 1, 1, True, [], 0), 0)
    assert is_completed(broker)
