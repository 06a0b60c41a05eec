"""Produce: append batches to the partitions that this broker leads.

Promises: a batch is checked (size, magic, CRC, count) and appended whole or refused with its
partition's code; a repeated batch of an idempotent producer is acknowledged with its first
offset; with acks=all the answer waits for the high watermark. With acks=0 there is no answer,
and an error closes the connection, as in Apache Kafka.
Left out until transactions are served: transactional batches are refused (INVALID_TXN_STATE).
"""

from __future__ import annotations

from typing import Any, Final

from kavka.server.auth.authorizer import Operation, ResourceType
from kavka.server.broker import Broker
from kavka.server.context import BadRequest, RequestContext
from kavka.server.replica.manager import Replica
from kavka.server.topics import INTERNAL_TOPICS
from kavka.wire.apis.produce import (
    API,
    LeaderIdAndEpoch,
    PartitionResponse,
    ProduceResponse,
    TopicResponse,
)
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.records import LZ4, TRANSACTIONAL, ZSTD, check_batch

ALL: Final = -1
NO_ANSWER: Final = 0
LEADER_ONLY: Final = 1

_ZSTD_SINCE: Final = 7
_TOPIC_IDS_SINCE: Final = 13
_CURRENT_LEADER_SINCE: Final = 10


def handle(broker: Broker, context: RequestContext, request: Any) -> Any:
    acks = request.acks
    if acks not in (ALL, NO_ANSWER, LEADER_ONLY):
        return API.error_response(request, ErrorCode.INVALID_REQUIRED_ACKS, context.version)
    uncommitted: list[tuple[Replica, int, PartitionResponse]] = []
    topics = []
    for topic in request.topic_data:
        name, refusal = _resolve(broker, context, topic)
        partitions = [
            _append(broker, context, name, data, acks, uncommitted)
            if refusal is None
            else PartitionResponse(data.index, refusal)
            for data in topic.partition_data
        ]
        topics.append(TopicResponse(name, topic.topic_id, partitions))
    if acks == NO_ANSWER:
        return _no_answer(topics)
    response = ProduceResponse(topics)
    if uncommitted:
        return _when_committed(broker, response, uncommitted, request.timeout_ms)
    return response


def _resolve(broker: Broker, context: RequestContext, topic: Any) -> tuple[str, ErrorCode | None]:
    """The topic's name, and why nothing may be written to it."""
    name = topic.name
    if context.version >= _TOPIC_IDS_SINCE:
        name = broker.metadata.image.names_by_id.get(topic.topic_id)
        if name is None:
            return "", ErrorCode.UNKNOWN_TOPIC_ID
    if not broker.authorizer.allows(context, Operation.WRITE, ResourceType.TOPIC, name):
        return name, ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if name in INTERNAL_TOPICS:
        return name, ErrorCode.INVALID_TOPIC_EXCEPTION
    return name, None


def _append(
    broker: Broker,
    context: RequestContext,
    name: str,
    data: Any,
    acks: int,
    uncommitted: list[tuple[Replica, int, PartitionResponse]],
) -> PartitionResponse:
    """Append one partition's batch; its place in the answer."""
    try:
        replica = broker.replicas.leader(name, data.index)
        records = data.records
        if records is None:
            raise ApiError(ErrorCode.INVALID_RECORD, "there must be a record batch")
        codec_max = ZSTD if context.version >= _ZSTD_SINCE else LZ4
        header = check_batch(records, codec_max)
        if header.attributes & TRANSACTIONAL:
            raise ApiError(ErrorCode.INVALID_TXN_STATE, "transactions are not served yet")
        settings = replica.log.settings
        if len(records) > settings.max_message_bytes:
            raise ApiError(ErrorCode.MESSAGE_TOO_LARGE)
        if acks == ALL and len(replica.partition.isr) < settings.min_insync_replicas:
            raise ApiError(ErrorCode.NOT_ENOUGH_REPLICAS)
        appended = replica.append(records, header)
    except ApiError as refusal:
        return _refused(broker, context, name, data.index, refusal)
    response = PartitionResponse(
        data.index,
        0,
        appended.base_offset,
        appended.log_append_time_ms,
        replica.log.start_offset,
    )
    if acks == ALL and replica.partition.high_watermark <= appended.last_offset:
        uncommitted.append((replica, appended.last_offset, response))
    return response


def _refused(
    broker: Broker, context: RequestContext, name: str, index: int, refusal: ApiError
) -> PartitionResponse:
    response = PartitionResponse(index, refusal.code, error_message=refusal.message)
    if (
        refusal.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        and context.version >= _CURRENT_LEADER_SINCE
    ):
        known = broker.metadata.image.topics[name].partitions[index]
        response.current_leader = LeaderIdAndEpoch(known.leader, known.leader_epoch)
    return response


def _no_answer(topics: list[TopicResponse]) -> None:
    """With acks=0 the only way to tell a producer of a failure is to hang up."""
    for topic in topics:
        for partition in topic.partition_responses:
            if partition.error_code:
                code = ErrorCode(partition.error_code)
                raise BadRequest(
                    f"Produce with acks=0 to {topic.name}-{partition.index} failed: {code.name}"
                )


async def _when_committed(
    broker: Broker,
    response: ProduceResponse,
    uncommitted: list[tuple[Replica, int, PartitionResponse]],
    timeout_ms: int,
) -> ProduceResponse:
    """Wait until every replica in sync has the records (acks=all), or time runs out."""

    def settled() -> bool:
        return all(
            replica.partition.high_watermark > last_offset or not replica.partition.is_leader
            for replica, last_offset, _ in uncommitted
        )

    keys = [replica.key for replica, _, _ in uncommitted]
    await broker.purgatory.wait(keys, settled, timeout_ms / 1000)
    for replica, last_offset, partition in uncommitted:
        if not replica.partition.is_leader:
            partition.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        elif replica.partition.high_watermark <= last_offset:
            partition.error_code = ErrorCode.REQUEST_TIMED_OUT
    return response
