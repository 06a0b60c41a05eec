"""The transaction coordinator on a broker: verification, commands and producer ids. The rest:
`test_base`."""

from __future__ import annotations

from collections.abc import Awaitable

import pytest

from kavka.log.journal import Decision, Reply, ReplyFuture
from kavka.server.coordinators import serial_queue
from kavka.txncoord.transaction_requests import ReserveProducerIds, WriteMarkers
from kavka.wire.errors import ErrorCode as Code
from kavka.wire.steps import Steps
from support.memory_broker import MemoryBroker, scenario
from support.transaction_requests import ID, Producer, add, begun, described, end, find, init

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
async def test_refused_verifications(broker: MemoryBroker, adds: bool) -> None:
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
async def test_a_verification_waits_for_uncommitted_records(
    broker: MemoryBroker, adds: bool
) -> None:
    await find(broker)
    producer = await begun(broker)
    transactions = broker.parts.transactions
    partition = transactions.partition_of(ID)
    await add(broker, producer, {"t": [0, 1]})
    broker.share((1, 2), transactions.topic, partition)
    ending = broker.tasks.spawn(end(broker, producer, version=5), name="end")
    await broker.advance(0)
    waiting = broker.tasks.spawn(verified(broker, producer, adds=adds), name="verification")
    await broker.advance(0)
    at_once = adds  # a refusal without records depends on nothing that a fail-over could revert
    assert waiting.done() == at_once
    broker.unshare(transactions.topic, partition)
    await broker.advance(0)
    assert (await ending).error_code == Code.NONE
    # what only verifies checks the epoch first
    code = Code.CONCURRENT_TRANSACTIONS if adds else Code.PRODUCER_FENCED
    assert await waiting == [code] * 2


@scenario(topics={"t": 2})
async def test_a_verification_fails_if_the_commit_takes_too_long(broker: MemoryBroker) -> None:
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
async def test_markers_are_requested_with_the_coordinator_epoch(broker: MemoryBroker) -> None:
    await find(broker)
    transactions = broker.parts.transactions
    requested: list[tuple[WriteMarkers, int]] = []
    transactions.on_markers = lambda markers, epoch: requested.append((markers, epoch))
    producer = await begun(broker)
    await add(broker, producer, {"t": [1, 0]})
    await end(broker, producer)
    ((markers, epoch),) = requested
    assert (markers.transactional_id, markers.committed) == (ID, True)
    assert list(markers.partitions) == PLACES
    replica = broker.replica(transactions.topic, transactions.partition_of(ID))
    assert epoch == replica.partition.leader_epoch
    assert (await described(broker)).transaction_state == "PrepareCommit"
    await broker.kill()
    await broker.advance(0)
    assert (await described(broker)).transaction_state == "CompleteCommit", "after a new start"


@scenario()
async def test_resignations_are_reported(broker: MemoryBroker) -> None:
    await find(broker)
    gone: list[int] = []
    broker.parts.transactions.on_resigned = gone.append
    answer = await broker.ask(
        "DeleteTopics", 5, topic_names=[broker.parts.transactions.topic], timeout_ms=10_000
    )
    assert answer.responses[0].error_code == Code.NONE
    assert sorted(gone) == list(range(50))


@scenario()
async def test_producer_ids_are_reserved_on_command(broker: MemoryBroker) -> None:
    await find(broker)
    assert broker.parts.producer_ids.try_next() is None
    reserve = Decision(commands=[ReserveProducerIds()])
    broker.parts.transactions.call(ID, lambda shard, future, now_ms: reserve)
    await broker.advance(0)
    assert broker.parts.producer_ids.try_next() is not None


@scenario()
async def test_a_request_that_needs_a_producer_id_behind_a_long_one_is_to_be_retried(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The handler can't reserve ids and call the coordinator again by then."""
    monkeypatch.setattr(serial_queue, "TICK_SLICE_S", -1.0)  # one step in each loop iteration
    await find(broker)
    transactions = broker.parts.transactions

    def slowly(shard: object, future: ReplyFuture, now_ms: int) -> Steps[Decision]:
        for _ in range(3):
            yield None
        return Decision(replies=[Reply(future, None)])

    work = transactions.call(ID, slowly)
    answer = await init(broker)
    await work
    assert answer.error_code == Code.COORDINATOR_NOT_AVAILABLE, "which producers retry"
    assert (await init(broker)).error_code == Code.NONE
