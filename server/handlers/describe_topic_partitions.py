"""DescribeTopicPartitions: topics in the order of their names, a page at a time (KIP-966).

Promises: all topics, or the requested ones, with an error code for unknown ones; no more partitions
than the client, or `max.request.partition.size.limit`, allows, and a cursor to the next page.
Authorized operations are always given. There are no eligible leader replicas outside the ISR: the
two lists of them are empty.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import merge
from typing import Any, Final

from kavka.server.auth.allowed_operations import TOPIC_OPERATIONS, allowed_bits
from kavka.server.auth.authorizer import Operation, ResourceType
from kavka.server.broker import Broker
from kavka.server.cluster.control_messages import NO_LEADER
from kavka.server.cluster.metadata_cache import (
    INTERNAL_TOPICS,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from kavka.server.controller.topic_validation import check_topic_name
from kavka.server.handlers.common.described import once_described
from kavka.server.request.context import RequestContext
from kavka.server.runtime import cooperative
from kavka.wire.apis.describe_topic_partitions import (
    CursorResponse,
    DescribeTopicPartitionsResponse,
    PartitionResponse,
    TopicResponse,
)
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.steps import Steps

NAMES_PER_STEP: Final = 1000
"""Names sorted in one slice."""

ROWS_PER_STEP: Final = 250
"""Topics and partitions described in one slice."""


def handle(broker: Broker, context: RequestContext, request: Any) -> Any:
    cursor = request.cursor
    if cursor is not None:
        if request.topics and cursor.topic_name not in (topic.name for topic in request.topics):
            raise ApiError(ErrorCode.INVALID_REQUEST)
        if cursor.partition_index < 0:
            raise ApiError(ErrorCode.INVALID_REQUEST)
    return once_described(
        broker, lambda: cooperative.run(broker.tasks, _page(broker, context, request), context)
    )


def _page(
    broker: Broker, context: RequestContext, request: Any
) -> Steps[DescribeTopicPartitionsResponse]:
    image, by_name, cursor = broker.metadata.image, bool(request.topics), request.cursor
    selected = {topic.name: None for topic in request.topics} if by_name else image.topics
    names = yield from _in_order(list(selected), cursor.topic_name if cursor else "")
    response, topics, hidden = DescribeTopicPartitionsResponse(), [], []
    left = max(1, min(request.response_partition_limit, _limit(broker)))
    for count, name in enumerate(names):
        if count % ROWS_PER_STEP == ROWS_PER_STEP - 1:
            yield None
        topic = image.topics.get(name)
        if not broker.authorizer.allows(context, Operation.DESCRIBE, ResourceType.TOPIC, name):
            if by_name:
                hidden.append(TopicResponse(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name))
        elif not left:
            response.next_cursor = CursorResponse(name, 0)
            break
        elif topic is not None:
            start = cursor.partition_index if cursor and cursor.topic_name == name else 0
            end = min(start + left, len(topic.partitions))
            partitions = yield from _partitions(image, context, topic, range(start, end))
            topics.append(_known(broker, context, topic, partitions))
            if end < len(topic.partitions):
                response.next_cursor = CursorResponse(name, end)
                break
            left -= len(partitions)
        elif by_name:
            topics.append(_unknown(broker, context, name))
    response.topics = topics + hidden
    return response


def _limit(broker: Broker) -> int:
    return broker.settings.max_request_partition_size_limit


def _in_order(names: Sequence[str], first: str) -> Steps[Iterator[str]]:
    """The names from `first` on: sorted in slices, which are merged on iteration."""
    runs = []
    for start in range(0, len(names), NAMES_PER_STEP):
        if start:
            yield None
        part = names[start : start + NAMES_PER_STEP]
        runs.append(sorted(name for name in part if name >= first))
    return merge(*runs)


def _partitions(
    image: MetadataImage, context: RequestContext, topic: TopicImage, indexes: range
) -> Steps[list[PartitionResponse]]:
    found: list[PartitionResponse] = []
    for index in indexes:
        if len(found) % ROWS_PER_STEP == ROWS_PER_STEP - 1:
            yield None
        partition = topic.partition(index)
        if partition is not None:
            found.append(_partition(image, context, partition))
    return found


def _partition(
    image: MetadataImage, context: RequestContext, partition: PartitionImage
) -> PartitionResponse:
    leader = image.brokers.get(partition.leader)
    reachable = leader is not None and context.peer.listener in leader.endpoints
    return PartitionResponse(
        partition.partition,
        leader_id=partition.leader if reachable else NO_LEADER,
        leader_epoch=partition.leader_epoch,
        replica_nodes=partition.replicas,
        isr_nodes=partition.isr,
        eligible_leader_replicas=(),
        last_known_elr=(),
        offline_replicas=partition.offline_replicas,
    )


def _known(
    broker: Broker,
    context: RequestContext,
    topic: TopicImage,
    partitions: Sequence[PartitionResponse],
) -> TopicResponse:
    return TopicResponse(
        ErrorCode.NONE,
        topic.name,
        topic.topic_id,
        topic.name in INTERNAL_TOPICS,
        partitions,
        allowed_bits(broker.authorizer, context, ResourceType.TOPIC, topic.name, TOPIC_OPERATIONS),
    )


def _unknown(broker: Broker, context: RequestContext, name: str) -> TopicResponse:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    try:
        check_topic_name(name)
    except ApiError as error:
        code = error.code
    bits = allowed_bits(broker.authorizer, context, ResourceType.TOPIC, name, TOPIC_OPERATIONS)
    return TopicResponse(
        code, name, is_internal=name in INTERNAL_TOPICS, topic_authorized_operations=bits
    )
