"""The transaction coordinator: what others ask it for, and what it asks of others. The rest:
`test_coordinator`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from kavka.log.journal import Decision, Reply, Ticket
from kavka.server.coordinators import serial_queue
from kavka.txncoord.requests import ReserveProducerIds, WriteMarkers
from kavka.txncoord.transaction import State
from kavka.wire.errors import ErrorCode as Code
from kavka.wire.steps import Steps
from support.memory_broker import MemoryBroker, scenario
from support.memory_transactions import PLACE, Transactor, committed, hold, release
from support.transaction_requests import ID, Producer, add, begun, described, end, find, init
from support.virtual import settle

PLACES = [("t", 0), ("t", 1)]


async def verified(
    broker: MemoryBroker, producer: Producer, transactional_id: str = ID, *, adds: bool = False
) -> list[Code]:
    found = broker.parts.transactions.verify(transactional_id, *producer, PLACES, add=adds)
    return list(await found if isinstance(found, Awaitable) else found)


@scenario(topics={"t": 2})
async def test_partitions_are_verified_at_once(broker: MemoryBroker) -> None:
    await find(broker)
    producer = await begun(broker)
    verify = broker.parts.transactions.verify
    assert verify(ID, *producer, PLACES, add=False) == [Code.TRANSACTION_ABORTABLE] * 2
    await add(broker, producer, {"t": [1]})
    assert verify(ID, *producer, PLACES, add=False) == [Code.TRANSACTION_ABORTABLE, Code.NONE]
    assert verify(ID, *producer, PLACES, add=True) == [Code.NONE, Code.NONE]
    assert verify(ID, *producer, PLACES, add=False) == [Code.NONE, Code.NONE]
    assert verify(ID, *producer, [], add=True) == []


@pytest.mark.parametrize("adds", [False, True])
@scenario(topics={"t": 2})
async def test_what_is_refused(broker: MemoryBroker, adds: bool) -> None:
    assert await verified(broker, Producer(0, 0), adds=adds) == [Code.NOT_COORDINATOR] * 2
    assert await verified(broker, Producer(0, 0), "", adds=adds) == [Code.INVALID_REQUEST] * 2
    await find(broker)
    for wrong, code in (
        (Producer(77, 0), Code.INVALID_PRODUCER_ID_MAPPING),
        (Producer((await begun(broker)).id, 7), Code.PRODUCER_FENCED),
    ):
        assert await verified(broker, wrong, adds=adds) == [code] * 2


@pytest.mark.parametrize("adds", [False, True])
@scenario(topics={"t": 2})
async def test_what_is_not_certain_is_waited_for(broker: MemoryBroker, adds: bool) -> None:
    await find(broker)
    producer = await begun(broker)
    transactions = broker.parts.transactions
    partition = transactions.partition_of(ID)
    await add(broker, producer, {"t": [0, 1]})
    broker.share((1, 2), transactions.topic, partition)
    name = "certain at last"
    ending = broker.tasks.spawn(end(broker, producer, version=5), name="end")
    await broker.advance(0)
    waiting = broker.tasks.spawn(verified(broker, producer, adds=adds), name=name)
    await broker.advance(0)
    at_once = adds  # a refusal without records tells nothing that a fail-over could take back
    assert waiting.done() == at_once
    broker.share((1,), transactions.topic, partition)
    await broker.advance(0)
    assert (await ending).error_code == Code.NONE
    # an older epoch is told so when all is over, or by who looks no further than that
    code = Code.CONCURRENT_TRANSACTIONS if adds else Code.PRODUCER_FENCED
    assert await waiting == [code] * 2


@scenario(topics={"t": 2})
async def test_what_does_not_become_certain_is_refused(broker: MemoryBroker) -> None:
    await find(broker)
    producer = await begun(broker)
    transactions = broker.parts.transactions
    broker.share((1, 2), transactions.topic, transactions.partition_of(ID))
    waiting = broker.tasks.spawn(verified(broker, producer, adds=True), name="added")
    await broker.advance(29_999)
    assert not waiting.done()
    await broker.advance(1)
    assert await waiting == [Code.COORDINATOR_NOT_AVAILABLE] * 2, "request.timeout.ms"


@scenario(topics={"t": 2})
async def test_markers_are_asked_for_in_the_coordinators_epoch(broker: MemoryBroker) -> None:
    await find(broker)
    transactions = broker.parts.transactions
    told: list[tuple[WriteMarkers, int]] = []
    transactions.on_markers = lambda markers, epoch: told.append((markers, epoch))
    producer = await begun(broker)
    await add(broker, producer, {"t": [1, 0]})
    await end(broker, producer)
    ((markers, epoch),) = told
    assert (markers.transactional_id, markers.committed) == (ID, True)
    assert list(markers.partitions) == PLACES
    replica = broker.replica(transactions.topic, transactions.partition_of(ID))
    assert epoch == replica.partition.leader_epoch
    assert (await described(broker)).transaction_state == "PrepareCommit"
    await broker.kill()
    await broker.advance(0)
    assert (await described(broker)).transaction_state == "CompleteCommit", "after a new start"


@scenario()
async def test_who_leads_no_more_is_told(broker: MemoryBroker) -> None:
    await find(broker)
    gone: list[int] = []
    broker.parts.transactions.on_resigned = gone.append
    answer = await broker.ask(
        "DeleteTopics", 5, topic_names=[broker.parts.transactions.topic], timeout_ms=10_000
    )
    assert answer.responses[0].error_code == Code.NONE
    assert sorted(gone) == list(range(50))


@scenario()
async def test_producer_ids_are_reserved_for_deadlines(broker: MemoryBroker) -> None:
    await find(broker)
    assert broker.parts.producer_ids.try_next() is None
    broker.parts.transactions._perform(0, ReserveProducerIds())
    await broker.advance(0)
    assert broker.parts.producer_ids.try_next() is not None


@scenario()
async def test_who_needs_a_producer_id_behind_long_work_is_to_ask_again(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is found out when nobody can ask the coordinator anew for it."""
    monkeypatch.setattr(serial_queue, "TICK_SLICE_S", -1.0)  # one step in each loop iteration
    await find(broker)
    transactions = broker.parts.transactions

    def slowly(shard: object, ticket: Ticket, now_ms: int) -> Steps[Decision]:
        for _ in range(3):
            yield None
        return Decision(replies=[Reply(ticket, None)])

    work = transactions.call(ID, slowly)
    answer = await init(broker)
    await work
    assert answer.error_code == Code.COORDINATOR_NOT_AVAILABLE, "with which producers ask again"
    assert (await init(broker)).error_code == Code.NONE


ONE_PARTITION = "transaction.state.log.num.partitions=1"
ONE_IN_SYNC = "transaction.state.log.min.isr=1"


def states(broker: MemoryBroker) -> dict[str, State]:
    runner: Any = broker.parts.transactions.runner_for("tx0")
    return {name: one.state for name, one in runner.machine.state.transactions.items()}


async def empty_and_written(broker: MemoryBroker) -> tuple[list[Transactor], Transactor]:
    """Transactions on connections of their own: three that have nothing to commit, and one."""
    ones = [await Transactor(broker, name=f"tx{number}").init() for number in range(4)]
    for one in ones:
        one.client = broker.connect()
    assert (await ones[-1].write()).code == Code.NONE
    return ones[:-1], ones[-1]


@scenario(ONE_PARTITION, ONE_IN_SYNC, topics={"t": 2})
async def test_ends_that_are_committed_together(broker: MemoryBroker) -> None:
    """What one of them leads to, where it has no partitions, is its completion: at once. That may
    not keep the others from theirs, nor anybody else who waits for a commit."""
    empty, written = await empty_and_written(broker)
    hold(broker, *PLACE)
    assert await written.end(commit=True) == Code.NONE
    await settle()
    hold(broker)
    ends = [asyncio.ensure_future(one.end(commit=False)) for one in empty]
    await settle()
    assert not any(one.done() for one in ends)
    release(broker)
    release(broker, *PLACE)
    await settle()
    assert [one.result() for one in ends] == [Code.NONE] * 3
    aborted = dict.fromkeys(("tx0", "tx1", "tx2"), State.COMPLETE_ABORT)
    assert states(broker) == {**aborted, "tx3": State.COMPLETE_COMMIT}
    assert await committed(broker) == [b"v"]


@scenario(ONE_PARTITION, ONE_IN_SYNC, topics={"t": 2})
async def test_ends_that_are_found_together_by_a_start(broker: MemoryBroker) -> None:
    empty, written = await empty_and_written(broker)
    hold(broker)
    for one in (*empty, written):
        values = {"producer_id": one.now.id, "producer_epoch": one.now.epoch}
        one.client.send("EndTxn", 5, transactional_id=one.name, committed=one is written, **values)
    await settle()
    await broker.kill()
    await settle()
    assert set(states(broker).values()) == {State.COMPLETE_ABORT, State.COMPLETE_COMMIT}
    assert await committed(broker) == [b"v"]


@scenario(ONE_PARTITION, "kavka.durability=fsync", topics={"t": 2})
async def test_ends_that_are_on_the_disk_together(broker: MemoryBroker) -> None:
    empty, written = await empty_and_written(broker)
    broker.jobs.hold("FlushPlan.run")
    ends = [asyncio.ensure_future(one.end(commit=one is written)) for one in (*empty, written)]
    await settle()
    broker.jobs.release()
    await settle()
    assert [one.result() for one in ends] == [Code.NONE] * 4
    await broker.advance(1000)
    assert set(states(broker).values()) == {State.COMPLETE_ABORT, State.COMPLETE_COMMIT}
