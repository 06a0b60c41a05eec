"""OffsetForLeaderEpoch: where an epoch ends in this leader's log (KIP-101, KIP-320)."""

from __future__ import annotations

from typing import Any

from kavka.server.auth.authorizer import CHECK_ITEMS, Operation, ResourceType
from kavka.server.broker import Broker
from kavka.server.request.context import RequestContext
from kavka.server.request.sliced_responses import respond
from kavka.wire.apis.offset_for_leader_epoch import (
    API,
    OffsetForLeaderEpochResponse,
    PartitionResponse,
    TopicResponse,
)
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.steps import PauseCounter, Steps


def handle(broker: Broker, context: RequestContext, request: Any) -> Any:
    return respond(broker.tasks, API, context, _look_up(broker, context, request))


def _look_up(
    broker: Broker, context: RequestContext, request: Any
) -> Steps[OffsetForLeaderEpochResponse]:
    topics, pauses = [], PauseCounter()
    for topic in request.topics:
        partitions: list[PartitionResponse] = []
        topics.append(TopicResponse(topic.topic, partitions))
        for partition in topic.partitions:
            partitions.append(_end_offset(broker, context, topic.topic, partition))
            if pauses.is_due(CHECK_ITEMS):
                yield None
    return OffsetForLeaderEpochResponse(topics)


def _end_offset(
    broker: Broker, context: RequestContext, name: str, partition: Any
) -> PartitionResponse:
    if not broker.authorizer.allows(context, Operation.DESCRIBE, ResourceType.TOPIC, name):
        return PartitionResponse(partition.partition, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    try:
        replica = broker.replicas.leader(name, partition.partition)
        replica.check_epoch(partition.current_leader_epoch)
    except ApiError as error:
        return PartitionResponse(partition.partition, error.code)
    epoch, end_offset = replica.log.end_offset_for_epoch(partition.leader_epoch)
    return PartitionResponse(partition.partition, 0, epoch, end_offset)
