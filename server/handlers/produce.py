"""Produce: append batches to the partitions that this broker leads.

Promises: a batch is checked (size, magic, CRC, count) and appended whole or refused with its
partition's code; a repeated batch of an idempotent producer is acknowledged with its first
offset; with acks=all the answer waits for the high watermark. With acks=0 there is no answer,
and an error closes the connection, as in Apache Kafka. Of a partition named twice the last batch
counts, and an unreadable first batch spoils the whole request, as there.
Left out until transactions are served: transactional batches are refused (INVALID_TXN_STATE).
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, NamedTuple

from kavka.server.auth.authorizer import Operation, ResourceType
from kavka.server.broker import Broker
from kavka.server.context import BadRequest, RequestContext
from kavka.server.replica.manager import Replica
from kavka.server.topics import INTERNAL_TOPICS
from kavka.wire.apis.produce import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionResponse,
    ProduceResponse,
    TopicResponse,
)
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.records import (
    LENGTH_PREFIX_BYTES,
    LZ4,
    TRANSACTIONAL,
    ZSTD,
    BatchHeader,
    Unacceptable,
    attributes_of_first,
    check_batch,
)

ALL: Final = -1
NO_ANSWER: Final = 0
LEADER_ONLY: Final = 1

_ZSTD_SINCE: Final = 7
_TOPIC_IDS_SINCE: Final = 13
_CURRENT_LEADER_SINCE: Final = 10

_START_UNTOLD: Final = (
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.RECORD_LIST_TOO_LARGE,
    ErrorCode.KAFKA_STORAGE_ERROR,
)
"""With any other refusal by the log comes its start offset, as in Apache Kafka."""


class _Waiting(NamedTuple):
    """An appended batch that may not be acknowledged yet."""

    replica: Replica
    last_offset: int
    answer: PartitionResponse
    needs_commit: bool
    needs_flush: bool

    def is_settled(self) -> bool:
        """Whether there is nothing left to wait for."""
        partition = self.replica.partition
        if self.replica.offline or not partition.is_leader:
            return True
        if self.needs_commit and partition.high_watermark <= self.last_offset:
            return False
        return not self.needs_flush or partition.is_safe_here(self.last_offset)

    def settle(self) -> None:
        """Put what became of the batch into the answer."""
        if self.replica.offline:
            self.answer.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        elif not self.replica.partition.is_leader:
            self.answer.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        elif not self.is_settled():
            self.answer.error_code = ErrorCode.REQUEST_TIMED_OUT


def handle(broker: Broker, context: RequestContext, request: Any) -> Any:
    acks = request.acks
    asked = request.topic_data
    if not _each_once(asked):
        asked = _last_of_each(asked)
    try:
        _check_first_batches(request, asked)
    except ApiError as refusal:
        return _refuse_whole(request, asked, refusal)
    append = _append if acks in (ALL, NO_ANSWER, LEADER_ONLY) else _refuse_acks
    by_id = context.version >= _TOPIC_IDS_SINCE
    waiting: list[_Waiting] = []
    topics = []
    for topic in asked:
        name, refusal_code = _resolve(broker, context, topic, by_id)
        partitions = [
            append(broker, context, name, data, acks, waiting)
            if refusal_code is None
            else PartitionResponse(data.index, refusal_code)
            for data in topic.partition_data
        ]
        topics.append(TopicResponse(name, topic.topic_id if by_id else None, partitions))
    if acks == NO_ANSWER:
        return _no_answer(topics)
    response = ProduceResponse(topics, node_endpoints=_endpoints(broker, context, topics))
    if waiting:
        return _wait(broker, response, waiting, request.timeout_ms)
    return response


# -- the request as a whole ---------------------------------------------------------------


class _Topic(NamedTuple):
    """A topic of a request in which something was named twice."""

    name: str
    topic_id: Any
    partition_data: list[Any]


def _each_once(topics: Any) -> bool:
    """Whether no partition is named twice, and no topic named for nothing."""
    if len(topics) > 1 and len({(topic.name, topic.topic_id) for topic in topics}) < len(topics):
        return False
    for topic in topics:
        count = len(topic.partition_data)
        if count != 1 and (not count or len({data.index for data in topic.partition_data}) < count):
            return False
    return True


def _last_of_each(topics: Any) -> list[_Topic]:
    """What is named last counts, as in Apache Kafka, which keeps a map by partition."""
    merged: dict[tuple[str, Any], dict[int, Any]] = {}
    for topic in topics:
        for data in topic.partition_data:
            merged.setdefault((topic.name, topic.topic_id), {})[data.index] = data
    return [_Topic(*key, list(partitions.values())) for key, partitions in merged.items()]


def _check_first_batches(request: Any, topics: Any) -> None:
    """What Apache Kafka refuses the whole request for: looking for transactions, it reads the
    start of every partition's first batch."""
    for topic in topics:
        for data in topic.partition_data:
            records = data.records
            if records is None:
                continue
            transactional = attributes_of_first(records) & TRANSACTIONAL
            if transactional and request.transactional_id is None:
                raise ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)


def _refuse_whole(request: Any, topics: Any, refusal: ApiError) -> ProduceResponse:
    if request.acks == NO_ANSWER:
        raise BadRequest(f"Produce with acks=0 failed: {refusal}")
    return ProduceResponse(
        [
            TopicResponse(
                topic.name,
                topic.topic_id,
                [
                    PartitionResponse(data.index, refusal.code, error_message=refusal.message)
                    for data in topic.partition_data
                ],
            )
            for topic in topics
        ]
    )


def _endpoints(
    broker: Broker, context: RequestContext, topics: list[TopicResponse]
) -> list[NodeEndpoint]:
    """Where the leaders are that the answer names (KIP-951)."""
    leaders: dict[int, None] = {}
    for topic in topics:
        for partition in topic.partition_responses:
            if partition.current_leader is not None:
                leaders[partition.current_leader.leader_id] = None
    if not leaders:
        return []
    brokers = broker.metadata.image.brokers
    return [
        NodeEndpoint(known.broker_id, *address, known.rack)
        for known in (brokers[leader] for leader in leaders if leader in brokers)
        if (address := broker.address_of(known, context.peer)) is not None
    ]


# -- topics and partitions ----------------------------------------------------------------


def _resolve(
    broker: Broker, context: RequestContext, topic: Any, by_id: bool
) -> tuple[str, ErrorCode | None]:
    """The topic's name, and why nothing may be written to it."""
    if by_id:
        name = broker.metadata.image.names_by_id.get(topic.topic_id)
        if name is None:
            return "", ErrorCode.UNKNOWN_TOPIC_ID
    else:
        name = topic.name
    if not broker.authorizer.allows(context, Operation.WRITE, ResourceType.TOPIC, name):
        return name, ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if name in INTERNAL_TOPICS and name in broker.metadata.image.topics:
        return name, ErrorCode.INVALID_TOPIC_EXCEPTION
    return name, None


def _append(
    broker: Broker,
    context: RequestContext,
    name: str,
    data: Any,
    acks: int,
    waiting: list[_Waiting],
) -> PartitionResponse:
    """Append one partition's batch; its place in the answer."""
    replica: Replica | None = None
    try:
        replica = broker.replicas.leader(name, data.index)
        records = data.records
        if records is None:
            raise Unacceptable(ErrorCode.INVALID_RECORD, "there must be a record batch")
        header = admit(replica, records, acks, codec_max(context.version))
        if header.batch_length + LENGTH_PREFIX_BYTES != len(records):
            records = records[: header.size]
        appended = replica.append(records, header)
    except ApiError as refusal:
        if (hosted := broker.replicas.find(name, data.index)) is not None:
            hosted.traffic.refuse(refusal.code, len(data.records or b""))
        return _refused(broker, context, name, data.index, replica, refusal)
    response = PartitionResponse(
        data.index,
        0,
        appended.base_offset,
        appended.log_append_time_ms,
        replica.log.start_offset,
    )
    needs_commit = acks == ALL and replica.partition.high_watermark <= appended.last_offset
    needs_flush = acks == LEADER_ONLY and not replica.partition.is_safe_here(appended.last_offset)
    if needs_commit or needs_flush:
        waiting.append(_Waiting(replica, appended.last_offset, response, needs_commit, needs_flush))
    return response


def codec_max(version: int) -> int:
    """The highest compression codec that a request of this version may use (KIP-110)."""
    return ZSTD if version >= _ZSTD_SINCE else LZ4


def admit(replica: Replica, records: memoryview, acks: int, codec: int) -> BatchHeader:
    """The header of a batch that may be appended; ApiError for one that may not."""
    settings = replica.log.settings
    header = check_batch(records, codec, settings.max_message_bytes)
    if header.attributes & TRANSACTIONAL:
        raise ApiError(ErrorCode.INVALID_TXN_STATE, "transactions are not served yet")
    if acks == ALL:
        partition = replica.partition
        in_sync = len(partition.isr)
        # a partition can't have more replicas in sync than it has (Apache Kafka's effectiveMinIsr)
        if in_sync < settings.min_insync_replicas and in_sync < len(partition.replicas):
            raise ApiError(ErrorCode.NOT_ENOUGH_REPLICAS)
    return header


def _refuse_acks(
    broker: Broker,
    context: RequestContext,
    name: str,
    data: Any,
    acks: int,
    waiting: list[_Waiting],
) -> PartitionResponse:
    """In the place of `_append`, for a number of acks that there is not."""
    try:
        broker.replicas.leader(name, data.index)
    except ApiError as refusal:
        return _refused(broker, context, name, data.index, None, refusal)
    return PartitionResponse(data.index, ErrorCode.INVALID_REQUIRED_ACKS)


def _refused(
    broker: Broker,
    context: RequestContext,
    name: str,
    index: int,
    replica: Replica | None,
    refusal: ApiError,
) -> PartitionResponse:
    """The reason is for the log: Apache Kafka has a text only for records refused one by one."""
    response = PartitionResponse(index, refusal.code)
    if replica is not None:
        broker.replicas.refusals.line(
            "refused a batch of %s for %s-%d: %s", context.peer.address, name, index, refusal
        )
        if refusal.code not in _START_UNTOLD and not isinstance(refusal, Unacceptable):
            response.log_start_offset = replica.log.start_offset
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


def _wait(
    broker: Broker, response: ProduceResponse, waiting: list[_Waiting], timeout_ms: int
) -> Coroutine[Any, Any, ProduceResponse]:
    """Wait for the replicas in sync (acks=all) and the disk (`flush.messages`), or the timeout.
    What changes from now on counts, even before the coroutine gets its first turn."""

    def settled() -> bool:
        return all(batch.is_settled() for batch in waiting)

    keys = [batch.replica.key for batch in waiting]
    woken = broker.purgatory.wait(keys, settled, timeout_ms / 1000, "Produce")
    return _when_settled(response, waiting, woken)


async def _when_settled(
    response: ProduceResponse, waiting: list[_Waiting], woken: asyncio.Future[Any]
) -> ProduceResponse:
    await woken
    for batch in waiting:
        batch.settle()
    return response
