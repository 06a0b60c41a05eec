"""ListPartitionReassignments: the ongoing reassignments, from the controller.

As in Apache Kafka, `timeout_ms` has no effect.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kavka.server.auth.authorizer import CLUSTER_NAME, Operation, ResourceType
from kavka.server.broker import Broker
from kavka.server.cluster.control_messages import TopicPartition
from kavka.server.request.context import RequestContext
from kavka.wire.apis.list_partition_reassignments import (
    ListPartitionReassignmentsResponse,
    PartitionResponse,
    TopicResponse,
)
from kavka.wire.errors import ApiError, ErrorCode


def handle(broker: Broker, context: RequestContext, request: Any) -> Any:
    allows = broker.authorizer.allows
    if not allows(context, Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    requested = None
    if request.topics is not None:
        requested = [
            TopicPartition(topic.name, index)
            for topic in request.topics
            for index in topic.partition_indexes
        ]
    return _list(broker, requested)


async def _list(
    broker: Broker, requested: Sequence[TopicPartition] | None
) -> ListPartitionReassignmentsResponse:
    topics: dict[str, list[PartitionResponse]] = {}
    for tp, assignment in await broker.controller.reassignments(requested):
        topics.setdefault(tp.topic, []).append(PartitionResponse(tp.partition, *assignment))
    return ListPartitionReassignmentsResponse(
        [TopicResponse(name, partitions) for name, partitions in topics.items()]
    )
