"""Writes a record to each broker, in a topic made only for that, and so reads its clock."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from uuid import UUID

from kavka.tools.admin.cluster_client import MetadataRequest, RequestedTopic
from kavka.tools.doctor.clocks import Reading
from kavka.tools.doctor.cluster import Cluster, Unanswered
from kavka.tools.doctor.requests import (
    Assignment,
    Config,
    CreateTopicsRequest,
    DeletedTopic,
    DeleteTopicsRequest,
    NewTopic,
    PartitionData,
    ProduceRequest,
    TopicData,
)
from kavka.wire.apis import create_topics, delete_topics, metadata, produce
from kavka.wire.building import NewRecord, build_batch
from kavka.wire.errors import ErrorCode

TRIES_MAX: Final = 40
RETRY_S: Final = 0.1
AGAIN: Final = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
)


class TopicIdPartition(NamedTuple):
    """A partition of the topic."""

    name: str
    topic_id: UUID
    partition: int


async def write_to_all(cluster: Cluster) -> Mapping[int, Reading | str]:
    """The clock of each broker that can be reached, or why it took no record. Unanswered if there
    can be no topic for it."""
    name = f"kavka-doctor-{cluster.seams.random.getrandbits(64):016x}"
    brokers = sorted(cluster.ways)
    controller = cluster.metadata.controller_id
    if controller not in cluster.ways:
        raise Unanswered("the controller can't be reached")
    new = NewTopic(
        name,
        [Assignment(number, [broker]) for number, broker in enumerate(brokers)],
        [
            Config("message.timestamp.type", "LogAppendTime"),
            Config("min.insync.replicas", "1"),
            Config("cleanup.policy", "delete"),
        ],
    )
    answer = await cluster.ask(controller, create_topics.API, CreateTopicsRequest([new]))
    (created,) = answer.topics
    if created.error_code:
        raise Unanswered(_said(created.error_code, created.error_message))
    try:
        topic_id = await _known(cluster, name)
        return {
            broker: await _write(cluster, broker, TopicIdPartition(name, topic_id, number))
            for number, broker in enumerate(brokers)
        }
    finally:
        request = DeleteTopicsRequest([DeletedTopic(name)], [name])
        await cluster.ask(controller, delete_topics.API, request)


async def _known(cluster: Cluster, name: str) -> UUID:
    """The topic's id, once brokers know it."""
    for _ in range(TRIES_MAX):
        answer = await cluster.ask_any(metadata.API, MetadataRequest([RequestedTopic(name)]))
        (topic,) = answer.topics
        if not topic.error_code and all(partition.leader_id >= 0 for partition in topic.partitions):
            return topic.topic_id or UUID(int=0)
        await cluster.seams.tasks.sleep(RETRY_S)
    raise Unanswered(f"the topic {name} was created, but gets no leaders")


async def _write(cluster: Cluster, broker: int, partition: TopicIdPartition) -> Reading | str:
    clock = cluster.seams.clock
    said = ""
    for _ in range(TRIES_MAX):
        before_ms = clock.now_ms()
        batch = bytes(build_batch([NewRecord(before_ms, None, b"kavka doctor")]))
        data = TopicData(
            partition.name, partition.topic_id, [PartitionData(partition.partition, batch)]
        )
        try:
            answer = await cluster.ask(broker, produce.API, ProduceRequest([data]))
        except Unanswered as failure:
            return str(failure)
        after_ms = clock.now_ms()
        response = answer.responses[0].partition_responses[0]
        if not response.error_code:
            return Reading(response.log_append_time_ms, before_ms, after_ms)
        said = _said(response.error_code, response.error_message)
        if response.error_code not in AGAIN:
            return said
        await cluster.seams.tasks.sleep(RETRY_S)
    return said


def _said(code: int, message: Any) -> str:
    return f"{ErrorCode(code).name}{f': {message}' if message else ''}"
