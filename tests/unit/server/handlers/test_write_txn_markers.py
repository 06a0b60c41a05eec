"""WriteTxnMarkers: transactions ended by a coordinator elsewhere, or by an operator.

The codes of Apache Kafka 4.3.1: `tests/differential/cases/write_txn_markers.py`; which markers a
partition takes: `tests/broker/test_transaction_rules.py`.
"""

from __future__ import annotations

from typing import Any

import pytest

from kavka.server.auth.authorizer import Operation
from kavka.server.handlers import write_txn_markers
from kavka.server.replica.partition_state import LeaderAndIsrState
from kavka.wire.apis.write_txn_markers import API
from kavka.wire.errors import ErrorCode as Code
from support.denied import Denied
from support.logs import Producer
from support.memory_broker import MemoryBroker, scenario
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
from support.virtual import run_until_idle

VERSIONS = range(API.lowest, API.highest + 1)
OTHER = ("t", 1)
TOPICS = {"t": 2}


async def opened(broker: MemoryBroker, *places: tuple[str, int]) -> Producer:
    """A producer with an open transaction."""
    producer = await Transactor(broker).init()
    for place in places or (PLACE,):
        assert (await producer.write(place)).code == Code.NONE
    return producer.now


def marker(producer: Producer, *indexes: int, commit: bool = True) -> dict[str, Any]:
    """A marker of version 2 for partitions of t."""
    return {
        "producer_id": producer.id,
        "producer_epoch": producer.epoch,
        "transaction_result": commit,
        "topics": [{"name": "t", "partition_indexes": list(indexes)}],
        "coordinator_epoch": 0,
        "transaction_version": 0,
    }


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("commit", [True, False])
@scenario(topics=TOPICS)
async def test_transactions_end(broker: MemoryBroker, version: int, commit: bool) -> None:
    producer = await opened(broker, PLACE, OTHER)
    received = await write_markers(broker, producer, PLACE, OTHER, commit=commit, version=version)
    assert received == [Code.NONE, Code.NONE]
    for place in (PLACE, OTHER):
        assert await committed(broker, place) == [b"v"] * commit
        entry = broker.replica(*place).log.producers.get(producer.id)
        assert entry is not None
        assert entry.txn_first_offset == -1 and entry.last_timestamp == broker.clock.now_ms()


@scenario(topics=TOPICS)
async def test_which_protocol_a_transaction_followed(broker: MemoryBroker) -> None:
    """In the newer one its end has a newer epoch; version 1 can't say so (KIP-890)."""
    producer = await opened(broker)
    raised = producer._replace(epoch=producer.epoch + 1)

    async def received(sender: Producer, version: int) -> Code:
        (code,) = await write_markers(
            broker, sender, PLACE, commit=True, version=version, protocol=2
        )
        return code

    assert await received(producer, 2) == Code.INVALID_PRODUCER_EPOCH
    assert await received(raised, 2) == Code.NONE
    assert await received(raised, 2) == Code.NONE, "sent again"
    assert await received(raised, 1) == Code.NONE
    assert await received(producer, 1) == Code.INVALID_PRODUCER_EPOCH


@scenario(topics=TOPICS)
async def test_partitions_that_take_none(broker: MemoryBroker) -> None:
    await broker.create("s", configs={"min.insync.replicas": "2"})
    broker.share((1,), "s")
    producer = await opened(broker)
    other = broker.replica(*OTHER).partition
    other.follow(
        LeaderAndIsrState(1, 2, other.leader_epoch + 1, (2,), other.partition_epoch + 1, (1, 2))
    )
    places = [PLACE, OTHER, ("t", 2), ("nowhere", 0), ("s", 0)]
    received = await write_markers(broker, producer, *places, commit=True)
    assert dict(zip(places, received, strict=True)) == {
        PLACE: Code.NONE,
        OTHER: Code.NOT_LEADER_OR_FOLLOWER,
        ("t", 2): Code.UNKNOWN_TOPIC_OR_PARTITION,
        ("nowhere", 0): Code.UNKNOWN_TOPIC_OR_PARTITION,
        ("s", 0): Code.NOT_ENOUGH_REPLICAS,
    }


@scenario(topics=TOPICS)
async def test_an_old_coordinator(broker: MemoryBroker) -> None:
    producer = await opened(broker)
    for epoch, code in ((5, Code.NONE), (4, Code.TRANSACTION_COORDINATOR_FENCED), (5, Code.NONE)):
        received = await write_markers(
            broker, producer, PLACE, commit=True, coordinator_epoch=epoch
        )
        assert received == [code]


@scenario(topics=TOPICS)
async def test_it_is_answered_when_it_is_safe(broker: MemoryBroker) -> None:
    producer = await opened(broker)
    hold(broker, *PLACE)
    answer = broker.client.send("WriteTxnMarkers", 2, markers=[marker(producer, 0, 1)])
    later = broker.client.send("Metadata", 12, topics=None)
    await run_until_idle()
    assert not answer.done()
    assert broker.replica().log.end_offset == 2, "it is written"
    release(broker, *PLACE)
    await until(later.done, "the answers")
    (found,) = answer.result().markers
    assert [partition.error_code for partition in found.topics[0].partitions] == [0, 0]


@scenario("request.timeout.ms=500", topics=TOPICS)
async def test_or_when_it_took_too_long(broker: MemoryBroker) -> None:
    producer = await opened(broker)
    hold(broker, *PLACE)
    answer = broker.client.send("WriteTxnMarkers", 2, markers=[marker(producer, 0)])
    await broker.advance(499)
    assert not answer.done()
    await broker.advance(1)
    (found,) = answer.result().markers
    assert found.topics[0].partitions[0].error_code == Code.REQUEST_TIMED_OUT


@scenario(topics=TOPICS)
async def test_or_when_another_leads(broker: MemoryBroker) -> None:
    producer = await opened(broker)
    hold(broker, *PLACE)
    answer = broker.client.send("WriteTxnMarkers", 2, markers=[marker(producer, 0)])
    await run_until_idle()
    now = broker.replica().partition
    now.follow(LeaderAndIsrState(1, 2, now.leader_epoch + 1, (2,), now.partition_epoch + 1, (1, 2)))
    broker.replica().role_changed()
    await until(answer.done, "the answer")
    (found,) = answer.result().markers
    assert found.topics[0].partitions[0].error_code == Code.NOT_LEADER_OR_FOLLOWER


@scenario(topics=TOPICS)
async def test_one_answer_for_each_producer(broker: MemoryBroker) -> None:
    producer = await opened(broker, PLACE, OTHER)
    unknown = producer._replace(id=producer.id + 100)
    markers = [marker(producer, 0), marker(unknown, 0), marker(producer, 1)]
    answer = await broker.ask("WriteTxnMarkers", 2, markers=markers)
    received = {
        found.producer_id: [
            (topic.name, partition.partition_index, partition.error_code)
            for topic in found.topics
            for partition in topic.partitions
        ]
        for found in answer.markers
    }
    assert received == {producer.id: [("t", 0, 0), ("t", 1, 0)], unknown.id: [("t", 0, 0)]}
    assert len(answer.markers) == 2
    assert not (await broker.ask("WriteTxnMarkers", 1, markers=[])).markers


@pytest.mark.parametrize("size", [1, 2, 3, 100])
@scenario(topics={"t": 7})
async def test_many_are_written_in_slices(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(write_txn_markers, "MARKERS_PER_STEP", size)
    places = [("t", index) for index in range(7)]
    producer = await opened(broker, *places)
    answer = broker.client.send("WriteTxnMarkers", 2, markers=[marker(producer, *range(7))])
    await until(lambda: broker.replica("t", 0).log.end_offset == 2, "the first is written")
    last = broker.replica("t", 6).log.end_offset
    assert last == (2 if size > 7 else 1)
    await until(answer.done, "the answer")
    (found,) = answer.result().markers
    assert [partition.error_code for partition in found.topics[0].partitions] == [0] * 7


@scenario(topics=TOPICS)
async def test_authorization(broker: MemoryBroker) -> None:
    producer = await opened(broker)
    for denied in ([Operation.ALTER], [Operation.CLUSTER_ACTION]):
        broker.parts.authorizer = Denied(*denied)
        assert await write_markers(broker, producer, PLACE, commit=True) == [Code.NONE]
    broker.parts.authorizer = Denied(Operation.ALTER, Operation.CLUSTER_ACTION)
    received = await write_markers(broker, producer, PLACE, commit=True)
    assert received == [Code.CLUSTER_AUTHORIZATION_FAILED]


@scenario(topics=TOPICS)
async def test_an_unexpected_failure_is_one_partition_s(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = await opened(broker, PLACE, OTHER)
    let_markers_fail(monkeypatch)
    received = await write_markers(broker, producer, PLACE, OTHER, commit=True)
    assert received == [Code.UNKNOWN_SERVER_ERROR, Code.NONE]


@scenario(topics=TOPICS)
async def test_a_marker_without_a_producer(broker: MemoryBroker) -> None:
    producer = await opened(broker)
    for invalid in (producer._replace(id=-1), producer._replace(epoch=-1)):
        received = await write_markers(broker, invalid, PLACE, commit=True)
        assert received == [Code.INVALID_REQUEST]
    assert broker.replica().log.end_offset == 1
