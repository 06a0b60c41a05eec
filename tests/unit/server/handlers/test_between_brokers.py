"""What brokers of a cluster ask each other: whose requests are refused, and what comes of them."""

from __future__ import annotations

import asyncio
from collections.abc import Container
from typing import Any
from uuid import UUID

import pytest

from kavka.compat_tests.raw.codec.batches import Written, build
from kavka.server.auth.authorizer import AllowAll, Operation
from kavka.server.cluster.control_messages import (
    LeaderAndIsr,
    LeaderAndIsrPartitionState,
    LeaderAndIsrTopicState,
    StopReplica,
    UpdateMetadata,
    UpdateMetadataBroker,
    UpdateMetadataPartitionState,
    UpdateMetadataTopicState,
)
from kavka.server.cluster.control_wire import (
    leader_and_isr_request,
    stop_replica_request,
    update_metadata_request,
)
from kavka.server.replica.partition_state import PartitionState
from kavka.server.replica.replica import Replica
from kavka.wire.apis import (
    alter_partition,
    controlled_shutdown,
    leader_and_isr,
    stop_replica,
    update_metadata,
)
from kavka.wire.errors import ErrorCode as Code
from support.asked_by_brokers import ask
from support.config_requests import BROKER, SET, TOPIC, change
from support.denied import Denied
from support.memory_broker import MemoryBroker, fetching, producing, scenario
from support.metrics import ON, look
from support.virtual import run_until_idle

APIS = (leader_and_isr, update_metadata, stop_replica)


def request_of(api: Any, *, controller_epoch: int = 1, broker_epoch: int = -1) -> Any:
    head = 1, controller_epoch, broker_epoch
    if api is leader_and_isr:
        return leader_and_isr_request(LeaderAndIsr(*head, (), ()))
    if api is update_metadata:
        return update_metadata_request(UpdateMetadata(*head, (), ()))
    return stop_replica_request(StopReplica(*head, ()))


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.API.name)
@scenario(in_cluster=True)
async def test_requests_for_an_earlier_process_or_of_an_earlier_controller(
    broker: MemoryBroker, api: Any
) -> None:
    epoch = broker.parts.epoch
    for broker_epoch, code in ((-1, 0), (epoch, 0), (epoch + 1, 0), (epoch - 1, 77)):
        answer = await ask(broker, api.API, request_of(api, broker_epoch=broker_epoch))
        assert answer.error_code == code
    stale = await ask(broker, api.API, request_of(api, controller_epoch=0))
    assert stale.error_code == Code.STALE_CONTROLLER_EPOCH


@pytest.mark.parametrize(
    "api", (*APIS, alter_partition, controlled_shutdown), ids=lambda api: api.API.name
)
@scenario(topics={"t": 1}, in_cluster=True)
async def test_only_brokers_may_ask(broker: MemoryBroker, api: Any) -> None:
    broker.parts.authorizer = Denied(Operation.CLUSTER_ACTION)
    own: dict[Any, Any] = {alter_partition: altering, controlled_shutdown: leaving}
    request = own[api](broker) if api in own else request_of(api)
    assert (await ask(broker, api.API, request)).error_code == Code.CLUSTER_AUTHORIZATION_FAILED


def altering(broker: MemoryBroker, **changes: Any) -> alter_partition.AlterPartitionRequest:
    """AlterPartition of this broker for its own partition of t, unchanged but for `changes`."""
    replica = broker.replica()
    isr = changes.pop("isr", replica.partition.isr)
    partition: dict[str, Any] = {
        "partition_index": 0,
        "leader_epoch": replica.partition.leader_epoch,
        "new_isr_with_epochs": [alter_partition.IsrMember(broker_id) for broker_id in isr],
        "partition_epoch": replica.partition.partition_epoch,
    } | changes
    topic = alter_partition.RequestedTopic(
        replica.topic_id, [alter_partition.RequestedPartition(**partition)]
    )
    return alter_partition.AlterPartitionRequest(
        broker.settings.broker_id, broker.parts.epoch, [topic]
    )


@scenario(topics={"t": 1}, in_cluster=True)
async def test_the_controller_answers_with_what_is_in_force(broker: MemoryBroker) -> None:
    answer = await ask(broker, alter_partition.API, altering(broker))
    (received,) = answer.topics[0].partitions
    partition = broker.replica().partition
    assert (received.error_code, received.leader_id, tuple(received.isr)) == (
        0,
        partition.leader,
        partition.isr,
    )
    answer = await ask(broker, alter_partition.API, altering(broker, isr=(0, 7)))
    assert answer.topics[0].partitions[0].error_code == Code.INELIGIBLE_REPLICA


def leaving(broker: MemoryBroker, **changes: int) -> controlled_shutdown.ControlledShutdownRequest:
    fields = {"broker_id": broker.settings.broker_id, "broker_epoch": broker.parts.epoch} | changes
    return controlled_shutdown.ControlledShutdownRequest(**fields)


@scenario("controlled.shutdown.enable=false", topics={"t": 1}, in_cluster=True)
async def test_a_broker_that_stops(broker: MemoryBroker) -> None:
    """What has no other replica does not count."""
    for changes, code in (
        ({"broker_id": 9}, Code.BROKER_NOT_AVAILABLE),
        ({"broker_epoch": broker.parts.epoch - 1}, Code.STALE_BROKER_EPOCH),
        ({}, Code.NONE),
        ({"broker_epoch": -1}, Code.NONE),
    ):
        answer = await ask(broker, controlled_shutdown.API, leaving(broker, **changes))
        assert (answer.error_code, list(answer.remaining_partitions)) == (code, [])
    assert broker.replica().partition.is_leader
    broker.parts.controller.close()
    answer = await ask(broker, controlled_shutdown.API, leaving(broker))
    assert answer.error_code == Code.NOT_CONTROLLER


@scenario(topics={"t": 1}, in_cluster=True)
async def test_a_follower_reads_beyond_the_high_watermark_and_moves_it(
    broker: MemoryBroker,
) -> None:
    leader, state = await with_follower(broker)
    await broker.ask("Produce", 9, **producing({("t", 0): build()}, acks=1))
    assert state.high_watermark == 0 < leader.log.end_offset
    assert not (await fetch(broker, -1, 0)).records, "a consumer waits"
    assert len((await fetch(broker, 2, 0)).records) == len(build())
    assert (await fetch(broker, 3, 0)).error_code == Code.UNKNOWN_LEADER_EPOCH, "it has no replica"
    broker.connect().send("Fetch", 12, **fetching_t(broker, 2, leader.log.end_offset))
    await broker.advance(1)
    assert state.high_watermark == leader.log.end_offset
    assert len((await fetch(broker, -1, 0)).records) == len(build())


async def with_follower(
    broker: MemoryBroker, *, in_sync: bool = True
) -> tuple[Replica, PartitionState]:
    """Broker 2 becomes a live follower of t-0."""
    leader = broker.replica()
    state = leader.partition
    isr = (state.leader, 2) if in_sync else (state.leader,)
    states = LeaderAndIsrPartitionState(
        0, 1, state.leader, state.leader_epoch, isr, state.partition_epoch + 1,
        (state.leader, 2), (), (), False, 0,
    )  # fmt: skip
    topic = LeaderAndIsrTopicState("t", leader.topic_id, (states,))
    request = leader_and_isr_request(LeaderAndIsr(state.leader, 1, -1, (topic,), ()))
    await ask(broker, leader_and_isr.API, request)
    live = tuple(UpdateMetadataBroker(broker_id, (), None) for broker_id in (state.leader, 2))
    known = update_metadata_request(UpdateMetadata(state.leader, 1, -1, (), live))
    await ask(broker, update_metadata.API, known)
    return leader, state


def fetching_t(broker: MemoryBroker, replica_id: int, offset: int, log_start: int = -1) -> Any:
    """A Fetch of t-0 of broker `replica_id`, or of a consumer (-1)."""
    epoch = broker.replica().partition.leader_epoch
    wait_ms = 0 if replica_id < 0 else 60_000
    request = fetching(
        {("t", 0): offset},
        current_leader_epoch=epoch,
        log_start_offset=log_start,
        max_wait_ms=wait_ms,
    )
    return request | {"replica_id": replica_id}


async def fetch(broker: MemoryBroker, replica_id: int, offset: int) -> Any:
    """What it is answered, if that is at once."""
    answer = await broker.ask("Fetch", 12, **fetching_t(broker, replica_id, offset))
    return answer.responses[0].partitions[0]


async def throttle(broker: MemoryBroker, replicas: str, rate: int = 1000) -> None:
    """The leader's replicas that are throttled, and its bytes a second."""
    alterations = (
        (TOPIC, "t", [("leader.replication.throttled.replicas", SET, replicas)]),
        (
            BROKER,
            str(broker.parts.broker_id),
            [("leader.replication.throttled.rate", SET, str(rate))],
        ),
    )
    for alteration in alterations:
        assert await change(broker, alteration) == [(Code.NONE, None)]


BIG = 50_000


async def with_much(broker: MemoryBroker, *, in_sync: bool) -> None:
    await with_follower(broker, in_sync=in_sync)
    for _ in range(2):
        batch = build([Written(value=bytes(BIG))])
        await broker.ask("Produce", 9, **producing({("t", 0): batch}, acks=1))


async def sent(broker: MemoryBroker, offset: int) -> int | None:
    """How many bytes a follower gets at once; None if it has to wait."""
    request = fetching_t(broker, 2, offset)
    request["topics"][0]["partitions"][0]["partition_max_bytes"] = BIG // 2
    waiting = broker.connect().send("Fetch", 12, **request)
    await broker.advance(1)
    if not waiting.done():
        return None
    return len(waiting.result().responses[0].partitions[0].records)


@pytest.mark.parametrize("named", ["*", "0:0", "7:0,0:1,0:0"])
@scenario(ON, topics={"t": 1}, in_cluster=True)
async def test_a_follower_out_of_sync_waits_for_the_quota(broker: MemoryBroker, named: str) -> None:
    await with_much(broker, in_sync=False)
    await throttle(broker, named.replace(":0", f":{broker.parts.broker_id}"))
    first = await sent(broker, 0)
    assert first is not None and first > BIG, "it was within the quota"
    quotas = broker.parts.replication_quotas
    assert quotas is not None
    assert quotas.leader.bytes_per_s == first, "in the first second"
    assert await sent(broker, 1) is None
    found = await look(broker)
    assert found["kafka_server_leaderreplication_byte_rate"] == first
    assert found["kafka_server_followerreplication_byte_rate"] == 0
    await throttle(broker, named, rate=first + 1)
    assert await sent(broker, 1) == first


@pytest.mark.parametrize("named", ["", "1:0,0:9"])
@scenario(topics={"t": 1}, in_cluster=True)
async def test_a_follower_whose_leader_is_not_named_does_not(
    broker: MemoryBroker, named: str
) -> None:
    await with_much(broker, in_sync=False)
    await throttle(broker, named.replace(":0", f":{broker.parts.broker_id}"), rate=0)
    assert [await sent(broker, 0), await sent(broker, 1)].count(None) == 0


@scenario(topics={"t": 1}, in_cluster=True)
async def test_a_follower_in_sync_does_not_but_what_it_gets_counts(broker: MemoryBroker) -> None:
    await with_much(broker, in_sync=True)
    await throttle(broker, "*", rate=0)
    total = 0
    for offset in (0, 1):
        size = await sent(broker, offset)
        assert size
        total += size
    quotas = broker.parts.replication_quotas
    assert quotas is not None and quotas.leader.bytes_per_s == total
    assert broker.replica().traffic.bytes_out == 0, "consumers got nothing"


@scenario(topics={"t": 1}, in_cluster=True)
async def test_a_follower_that_waits_is_answered_when_the_quota_has_room(
    broker: MemoryBroker,
) -> None:
    await with_much(broker, in_sync=False)
    await throttle(broker, "*", rate=BIG // 2)
    assert await sent(broker, 0)
    request = fetching_t(broker, 2, 1)
    waiting = broker.connect().send("Fetch", 12, **request)
    await broker.advance(1900)
    assert not waiting.done(), "50,000 bytes at 25,000 a second take two"
    await broker.advance(200)
    assert waiting.done()
    assert waiting.result().responses[0].partitions[0].records


def delete_before(broker: MemoryBroker, offset: int) -> asyncio.Future[Any]:
    partitions = [{"partition_index": 0, "offset": offset}]
    topics = [{"name": "t", "partitions": partitions}]
    return broker.connect().send("DeleteRecords", 2, topics=topics, timeout_ms=5000)


def outcome(deletion: asyncio.Future[Any]) -> tuple[int, Code]:
    (partition,) = deletion.result().topics[0].partitions
    return partition.low_watermark, Code(partition.error_code)


@scenario(topics={"t": 1}, in_cluster=True)
async def test_records_are_deleted_once_live_followers_have_deleted_them(
    broker: MemoryBroker,
) -> None:
    leader, _ = await with_follower(broker)
    await broker.ask("Produce", 9, **producing({("t", 0): build()}, acks=1))
    end = leader.log.end_offset
    follower = broker.connect()
    waiting = follower.send("Fetch", 12, **fetching_t(broker, 2, end, 0))
    await broker.advance(1)
    assert not waiting.done()
    deletion = delete_before(broker, 2)
    await broker.advance(1)
    assert not deletion.done()
    answer = waiting.result().responses[0].partitions[0]
    assert answer.log_start_offset == 2, "the follower learns of it at once"
    waiting = follower.send("Fetch", 12, **fetching_t(broker, 2, end, 2))
    await broker.advance(1)
    assert outcome(deletion) == (2, Code.NONE)
    assert not waiting.done()
    deletion = delete_before(broker, 3)
    await broker.advance(4000)
    assert not deletion.done()
    await broker.advance(2000)
    assert outcome(deletion) == (2, Code.REQUEST_TIMED_OUT)
    deletion = delete_before(broker, 3)
    await broker.advance(1)
    broker.parts.replicas.remove("t", 0)
    await broker.advance(1)
    assert outcome(deletion) == (-1, Code.NOT_LEADER_OR_FOLLOWER)


@scenario(topics={"t": 1})
async def test_a_consumer_that_gives_a_log_start_waits_all_the_same(broker: MemoryBroker) -> None:
    """Sarama's have 0 there, where only followers have something to say."""
    await broker.ask("Produce", 9, **producing({("t", 0): build()}))
    end = broker.replica().log.end_offset
    deletion = delete_before(broker, 2)
    await broker.advance(1)
    assert outcome(deletion) == (2, Code.NONE)
    request = fetching({("t", 0): end}, log_start_offset=0, max_wait_ms=500)
    waiting = broker.connect().send("Fetch", 12, **request)
    await broker.advance(400)
    assert not waiting.done()
    await broker.advance(200)
    assert waiting.done()


@scenario(topics={"t": 1}, in_cluster=True)
async def test_a_dead_follower_does_not_hold_up_a_deletion(broker: MemoryBroker) -> None:
    leader, state = await with_follower(broker)
    await broker.ask("Produce", 9, **producing({("t", 0): build()}, acks=1))
    broker.connect().send("Fetch", 12, **fetching_t(broker, 2, leader.log.end_offset, 0))
    await broker.advance(1)
    alone = (UpdateMetadataBroker(state.leader, (), None),)
    known = update_metadata_request(UpdateMetadata(state.leader, 1, -1, (), alone))
    await ask(broker, update_metadata.API, known)
    deletion = delete_before(broker, 2)
    await broker.advance(1)
    assert outcome(deletion) == (2, Code.NONE)


@scenario("controlled.shutdown.enable=false", in_cluster=True)
async def test_a_broker_gets_producer_ids_that_no_other_has(broker: MemoryBroker) -> None:
    own = {"broker_id": broker.settings.broker_id, "broker_epoch": broker.parts.epoch}
    blocks = [await broker.ask("AllocateProducerIds", 0, **own) for _ in range(2)]
    assert [block.error_code for block in blocks] == [0, 0]
    assert blocks[1].producer_id_start == blocks[0].producer_id_start + blocks[0].producer_id_len
    for changes, code in (
        ({"broker_id": 9}, Code.BROKER_ID_NOT_REGISTERED),
        ({"broker_epoch": broker.parts.epoch - 1}, Code.STALE_BROKER_EPOCH),
    ):
        answer = await broker.ask("AllocateProducerIds", 0, **own | changes)
        assert (answer.error_code, answer.producer_id_len) == (code, 0)
    broker.parts.authorizer = Denied(Operation.CLUSTER_ACTION)
    answer = await broker.ask("AllocateProducerIds", 0, **own)
    assert answer.error_code == Code.CLUSTER_AUTHORIZATION_FAILED
    broker.parts.authorizer = AllowAll()
    broker.parts.controller.close()
    answer = await broker.ask("AllocateProducerIds", 0, **own)
    assert answer.error_code == Code.NOT_CONTROLLER


async def lives(broker: MemoryBroker, *live: int) -> None:
    """The first of these brokers, the controller, says that they are live."""
    brokers = tuple(UpdateMetadataBroker(broker_id, (), None) for broker_id in live)
    known = update_metadata_request(UpdateMetadata(live[0], 1, -1, (), brokers))
    await ask(broker, update_metadata.API, known)


@scenario(topics={"t": 20}, in_cluster=True)
async def test_only_partitions_that_changed_are_looked_at_again(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a deletion waits for the followers of many partitions."""
    looked_at: list[int] = []
    original = PartitionState.low_watermark

    def noting(state: PartitionState, log_start: int, live: Container[int]) -> int:
        looked_at.append(log_start)
        return original(state, log_start, live)

    for index in range(20):
        leader = broker.replica("t", index)
        broker.share((leader.partition.leader, 2), "t", index)
        await broker.produce(build(), "t", index, acks=1)
        leader.fetched_by(2, leader.log.end_offset, 0)
    own = broker.replica().partition.leader
    await lives(broker, own, 2)
    partitions = [{"partition_index": index, "offset": 2} for index in range(20)]
    request = {"topics": [{"name": "t", "partitions": partitions}], "timeout_ms": 5000}
    deletion = broker.connect().send("DeleteRecords", 2, **request)
    await run_until_idle()
    monkeypatch.setattr(PartitionState, "low_watermark", noting)
    for index in range(20):
        assert not deletion.done()
        leader = broker.replica("t", index)
        leader.fetched_by(2, leader.log.end_offset, 2)
        await run_until_idle()
        assert len(looked_at) <= index + 1
    assert {partition.low_watermark for partition in deletion.result().topics[0].partitions} == {2}


@scenario(topics={"t": 2}, in_cluster=True)
async def test_a_follower_that_dies_is_waited_for_no_longer(broker: MemoryBroker) -> None:
    own = broker.replica().partition.leader
    for index in range(2):
        leader = broker.replica("t", index)
        broker.share((own, 2), "t", index)
        await broker.produce(build(), "t", index, acks=1)
        leader.fetched_by(2, leader.log.end_offset, 0)
    await lives(broker, own, 2)
    partitions = [{"partition_index": index, "offset": 2} for index in range(2)]
    request = {"topics": [{"name": "t", "partitions": partitions}], "timeout_ms": 5000}
    deletion = broker.connect().send("DeleteRecords", 2, **request)
    await run_until_idle()
    assert not deletion.done()
    await lives(broker, own)
    broker.unshare("t", 1)  # a change of one of them is enough
    await run_until_idle()
    assert {partition.low_watermark for partition in deletion.result().topics[0].partitions} == {2}


@scenario(in_cluster=True)
async def test_all_partitions_of_a_cluster_in_one_request(broker: MemoryBroker) -> None:
    """As Apache Kafka's controllers send them: 10,000 partitions with three replicas each, in one
    UpdateMetadata, and in one LeaderAndIsr."""
    replicas, topics, partitions = (7, 8, 9), 20, 500
    ids = [UUID(int=number + 1) for number in range(topics)]
    known = tuple(
        UpdateMetadataPartitionState(index, 1, 8, 4, replicas, 6, replicas, ())
        for index in range(partitions)
    )
    live = tuple(UpdateMetadataBroker(broker_id, (), None) for broker_id in (0, *replicas))
    update = UpdateMetadata(
        0,
        1,
        -1,
        tuple(
            UpdateMetadataTopicState(f"t{number}", ids[number], known) for number in range(topics)
        ),
        live,
    )
    answer = await ask(broker, update_metadata.API, update_metadata_request(update))
    assert answer.error_code == Code.NONE
    image = broker.parts.metadata.image
    assert image.brokers.keys() == {0, 7, 8, 9}
    assert [len(image.topics[f"t{number}"].partitions) for number in range(topics)] == [
        500
    ] * topics
    assert {partition.isr for partition in image.topics["t19"].partitions} == {replicas}

    stale = update._replace(controller_epoch=0)
    answer = await ask(broker, update_metadata.API, update_metadata_request(stale))
    assert answer.error_code == Code.STALE_CONTROLLER_EPOCH
    refused = LeaderAndIsrTopicState(
        "t0",
        ids[0],
        tuple(
            LeaderAndIsrPartitionState(index, 1, 8, 4, replicas, 6, replicas, (), (), False, 0)
            for index in range(10_000)
        ),
    )
    decision = LeaderAndIsr(0, 0, -1, (refused,), ())
    answer = await ask(broker, leader_and_isr.API, leader_and_isr_request(decision))
    assert answer.error_code == Code.STALE_CONTROLLER_EPOCH, "read, and then refused"
