"""Consumers that read from the replica nearest to them (KIP-392): the leader names it, and
followers serve what they know to be committed. As Apache Kafka 3.9's ReplicaManager.readFromLog
has it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kavka.compat_tests.raw.codec.batches import build
from kavka.server.cluster.control_messages import (
    LeaderAndIsr,
    LeaderAndIsrPartitionState,
    LeaderAndIsrTopicState,
    UpdateMetadata,
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
)
from kavka.server.cluster.control_wire import leader_and_isr_request, update_metadata_request
from kavka.server.config.cluster_rows import LEADER_SELECTOR, RACK_SELECTOR
from kavka.server.replica.replica import Replica
from kavka.wire.apis import leader_and_isr, update_metadata
from kavka.wire.errors import ErrorCode as Code
from support.asked_by_brokers import ask
from support.memory_broker import MemoryBroker, fetching, producing, scenario

BATCH = build()
RECORDS = 3
OTHER = 2
BY_RACK = f"replica.selector.class={RACK_SELECTOR}"
HERE, THERE = "here", "there"


async def decide(
    broker: MemoryBroker,
    *,
    leads: bool = True,
    in_sync: bool = True,
    rack: str = THERE,
    others: tuple[int, ...] = (OTHER,),
) -> Replica:
    """What the controller decides about t-0, which has replicas on others, too: on broker 2, which
    is in this rack. `leads`: this broker, or else broker 2, in the next leader epoch."""
    replica, own_id = broker.replica(), broker.parts.broker_id
    state = replica.partition
    leader = own_id if leads else OTHER
    isr = (own_id, *others) if in_sync else (leader,)
    states = LeaderAndIsrPartitionState(
        0, 1, leader, state.leader_epoch + (not leads), isr, state.partition_epoch + 1,
        (own_id, *others), (), (), False, 0,
    )  # fmt: skip
    topic = LeaderAndIsrTopicState("t", replica.topic_id, (states,))
    await ask(
        broker,
        leader_and_isr.API,
        leader_and_isr_request(LeaderAndIsr(own_id, 1, -1, (topic,), ())),
    )
    endpoints = (UpdateMetadataEndpoint(9092, "other", "PLAINTEXT", "PLAINTEXT"),)
    live = (
        UpdateMetadataBroker(own_id, endpoints, HERE),
        UpdateMetadataBroker(OTHER, endpoints if leads else (), rack),
    )
    known = update_metadata_request(UpdateMetadata(own_id, 1, -1, (), live))
    await ask(broker, update_metadata.API, known)
    return replica


async def has_fetched(broker: MemoryBroker, offset: int, by: int = OTHER) -> asyncio.Future[Any]:
    """A follower has everything below an offset; its next answer."""
    request = fetching(
        {("t", 0): offset},
        current_leader_epoch=broker.replica().partition.leader_epoch,
        log_start_offset=0,
        max_wait_ms=60_000,
    )
    answer = broker.connect().send("Fetch", 12, **request | {"replica_id": by})
    await broker.advance(1)
    return answer


async def fetch(
    broker: MemoryBroker, offset: int, *, rack: str = THERE, version: int = 12, **values: Any
) -> Any:
    """The response to a consumer."""
    request = fetching({("t", 0): offset}, **values) | {"rack_id": rack}
    answer = await broker.ask("Fetch", version, **request)
    return answer.responses[0].partitions[0]


async def written(broker: MemoryBroker, batches: int = 2) -> None:
    for _ in range(batches):
        await broker.ask("Produce", 9, **producing({("t", 0): BATCH}, acks=1))


# -- the leader -------------------------------------------------------------------------------


@scenario(BY_RACK, topics={"t": 1}, in_cluster=True)
async def test_the_leader_names_the_replica_in_the_rack_and_gives_no_records(
    broker: MemoryBroker,
) -> None:
    leader = await decide(broker)
    await written(broker)
    await has_fetched(broker, RECORDS)
    answer = await fetch(broker, 0, max_wait_ms=60_000)
    assert (answer.error_code, answer.preferred_read_replica) == (Code.NONE, OTHER)
    assert not answer.records
    assert (answer.high_watermark, answer.last_stable_offset) == (RECORDS, RECORDS)
    assert answer.log_start_offset == leader.log.start_offset
    answer = await fetch(broker, RECORDS, max_wait_ms=60_000)
    assert answer.preferred_read_replica == OTHER, "it ends there; the consumer waits there"
    answer = await fetch(broker, 2 * RECORDS)
    assert answer.preferred_read_replica == -1, "the follower does not have it yet"
    for rack in ("", HERE, "elsewhere"):
        answer = await fetch(broker, 0, rack=rack)
        assert (answer.preferred_read_replica, len(answer.records)) == (-1, len(BATCH)), rack
    answer = await fetch(broker, 0, version=10)
    assert len(answer.records) == len(BATCH), "it has no rack"


@scenario(BY_RACK, topics={"t": 1}, in_cluster=True)
async def test_a_replica_that_is_not_in_sync_or_not_in_the_rack_is_not_named(
    broker: MemoryBroker,
) -> None:
    await written(broker)
    await decide(broker, in_sync=False)
    for previous in (-1, OTHER):
        assert (await fetch(broker, 0)).preferred_read_replica == -1
        await decide(broker)
        await has_fetched(broker, 2 * RECORDS)
        assert (await fetch(broker, 0)).preferred_read_replica == OTHER, previous
        await decide(broker, rack="elsewhere")


@pytest.mark.parametrize("selector", ["", f"replica.selector.class={LEADER_SELECTOR}"])
def test_without_a_selector_by_rack_nobody_is_directed(selector: str) -> None:
    @scenario(*[selector] * bool(selector), topics={"t": 1}, in_cluster=True)
    async def directed(broker: MemoryBroker) -> None:
        await decide(broker)
        await written(broker)
        await has_fetched(broker, 2 * RECORDS)
        answer = await fetch(broker, 0)
        assert (answer.preferred_read_replica, len(answer.records)) == (-1, 2 * len(BATCH))

    directed()


@scenario(BY_RACK, topics={"t": 1}, in_cluster=True)
async def test_a_session_tells_it_too(broker: MemoryBroker) -> None:
    """Also when nothing else has changed."""
    await decide(broker, rack="elsewhere")
    await written(broker)
    await has_fetched(broker, 2 * RECORDS)
    client = broker.connect()
    request = fetching({("t", 0): 2 * RECORDS}, session_epoch=0) | {"rack_id": THERE}
    first = await client.ask("Fetch", 12, **request)
    assert first.responses[0].partitions[0].preferred_read_replica == -1
    again = fetching({}, session_id=first.session_id, session_epoch=1) | {"rack_id": THERE}
    assert not (await client.ask("Fetch", 12, **again)).responses
    await decide(broker)
    answer = await client.ask("Fetch", 12, **again | {"session_epoch": 2, "max_wait_ms": 60_000})
    assert answer.responses[0].partitions[0].preferred_read_replica == OTHER


@scenario(BY_RACK, topics={"t": 1}, in_cluster=True)
async def test_a_consumer_of_another_epoch_is_refused_first(broker: MemoryBroker) -> None:
    leader = await decide(broker)
    await written(broker)
    await has_fetched(broker, 2 * RECORDS)
    answer = await fetch(broker, 0, current_leader_epoch=leader.partition.leader_epoch + 1)
    assert (answer.error_code, answer.preferred_read_replica) == (Code.UNKNOWN_LEADER_EPOCH, -1)


@scenario(BY_RACK, topics={"t": 1}, in_cluster=True)
async def test_followers_hear_of_a_new_high_watermark_at_once(broker: MemoryBroker) -> None:
    await decide(broker)
    await written(broker)
    first = await has_fetched(broker, 0)
    assert first.result().responses[0].partitions[0].high_watermark == 0
    second = await has_fetched(broker, 2 * RECORDS)
    answer = second.result().responses[0].partitions[0]
    assert (answer.high_watermark, answer.records) == (2 * RECORDS, b""), (
        "its own fetch has moved it"
    )
    waiting = await has_fetched(broker, 2 * RECORDS)
    await broker.advance(10_000)
    assert not waiting.done(), "now it knows"


@scenario(BY_RACK, topics={"t": 1}, in_cluster=True)
async def test_a_waiting_follower_is_answered_when_the_high_watermark_moves(
    broker: MemoryBroker,
) -> None:
    """Another follower was what held it back."""
    await decide(broker, others=(OTHER, 3))
    await written(broker)
    assert (await has_fetched(broker, 0)).done()
    waiting = await has_fetched(broker, 2 * RECORDS)
    for offset in (0, RECORDS):
        assert not waiting.done(), "it knows of 0"
        await has_fetched(broker, offset, by=3)
    answer = waiting.result().responses[0].partitions[0]
    assert (answer.high_watermark, answer.records) == (RECORDS, b"")


@scenario(topics={"t": 1}, in_cluster=True)
async def test_without_readers_followers_hear_of_it_with_the_next_records(
    broker: MemoryBroker,
) -> None:
    await decide(broker)
    await written(broker)
    await has_fetched(broker, 0)
    assert not (await has_fetched(broker, 2 * RECORDS)).done(), "it saves every second fetch"


# -- a follower -------------------------------------------------------------------------------


async def following(broker: MemoryBroker, high_watermark: int) -> Replica:
    """This broker follows, and has more than its high watermark says."""
    await written(broker)
    replica = await decide(broker, leads=False)
    assert not replica.partition.is_leader
    replica.partition.replicated(replica.log.end_offset, high_watermark)
    return replica


@scenario(topics={"t": 1}, in_cluster=True)
async def test_a_follower_serves_what_it_knows_to_be_committed(broker: MemoryBroker) -> None:
    replica = await following(broker, RECORDS)
    answer = await fetch(broker, 0)
    assert (answer.error_code, len(answer.records), answer.high_watermark) == (
        0,
        len(BATCH),
        RECORDS,
    )
    answer = await fetch(broker, RECORDS)
    assert (answer.error_code, bytes(answer.records)) == (0, b"")
    assert (await fetch(broker, 2 * RECORDS)).error_code == Code.NONE, "it has these"
    assert (await fetch(broker, 2 * RECORDS + 1)).error_code == Code.OFFSET_OUT_OF_RANGE
    epoch = replica.partition.leader_epoch
    for other, code in ((epoch, 0), (epoch - 1, 74), (epoch + 1, 75)):
        assert (await fetch(broker, 0, current_leader_epoch=other)).error_code == code
    assert (await fetch(broker, 0, version=10)).error_code == Code.NOT_LEADER_OR_FOLLOWER
    answer = await fetch(broker, 0, version=11, rack="")
    assert len(answer.records) == len(BATCH)


@scenario(topics={"t": 1}, in_cluster=True)
async def test_a_consumer_that_waits_there_gets_what_becomes_committed(
    broker: MemoryBroker,
) -> None:
    replica = await following(broker, RECORDS)
    for request in (
        fetching({("t", 0): RECORDS}, max_wait_ms=60_000),
        fetching({("t", 0): RECORDS}, max_wait_ms=60_000, session_epoch=0),
    ):
        replica.partition.replicated(replica.log.end_offset, RECORDS)
        waiting = broker.connect().send("Fetch", 12, **request)
        await broker.advance(10_000)
        assert not waiting.done()
        replica.append_fetched(memoryview(b""), 2 * RECORDS, 0)
        await broker.advance(1)
        answer = waiting.result().responses[0].partitions[0]
        assert (len(answer.records), answer.high_watermark) == (len(BATCH), 2 * RECORDS)


@scenario(topics={"t": 1}, in_cluster=True)
async def test_a_follower_reports_to_no_other_follower(broker: MemoryBroker) -> None:
    await following(broker, RECORDS)
    answer = await has_fetched(broker, 0)
    assert answer.result().responses[0].partitions[0].error_code == Code.NOT_LEADER_OR_FOLLOWER


@scenario(topics={"t": 1}, in_cluster=True)
async def test_idle_partitions_of_a_session_are_passed_over_there_too(
    broker: MemoryBroker,
) -> None:
    replica = await following(broker, RECORDS)
    client = broker.connect()
    request = fetching({("t", 0): RECORDS}, session_epoch=0)
    first = await client.ask("Fetch", 12, **request)
    again = fetching({}, session_id=first.session_id)
    assert not (await client.ask("Fetch", 12, **again | {"session_epoch": 1})).responses
    replica.append_fetched(memoryview(b""), 2 * RECORDS, 0)
    answer = await client.ask("Fetch", 12, **again | {"session_epoch": 2})
    assert len(answer.responses[0].partitions[0].records) == len(BATCH)
    broker.parts.replicas.remove("t", 0)
    answer = await client.ask("Fetch", 12, **again | {"session_epoch": 3})
    assert answer.responses[0].partitions[0].error_code == Code.NOT_LEADER_OR_FOLLOWER
