"""AlterPartitionReassignments, as a lone broker answers it.

There is nowhere to move a partition to: what is so already succeeds, other brokers are refused
as unknown, and there is nothing to call off. `allow_replication_factor_change` (version 1) makes
no difference, since a number of replicas that one broker can't have is refused before.
"""

from __future__ import annotations

from typing import Any

from kavka.server.auth.authorizer import CLUSTER_NAME, Operation, ResourceType
from kavka.server.broker import Broker
from kavka.server.context import RequestContext
from kavka.server.controller.messages import TopicPartition
from kavka.wire.apis.alter_partition_reassignments import (
    API,
    AlterPartitionReassignmentsResponse,
    PartitionResponse,
    TopicResponse,
)
from kavka.wire.errors import ApiError, ErrorCode


def handle(broker: Broker, context: RequestContext, request: Any) -> Any:
    if not broker.authorizer.allows(context, Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME):
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if not request.topics:
        return AlterPartitionReassignmentsResponse([], error_message="")  # not null: as Kafka's
    if request.timeout_ms <= 0:  # over before the controller has looked at it
        return API.error_response(request, ErrorCode.REQUEST_TIMED_OUT, context.version)
    errors = iter(
        broker.controller.reassign(
            [
                (TopicPartition(topic.name, partition.partition_index), partition.replicas)
                for topic in request.topics
                for partition in topic.partitions
            ]
        )
    )
    answer = AlterPartitionReassignmentsResponse(
        [
            TopicResponse(
                topic.name,
                [_partition(one.partition_index, next(errors)) for one in topic.partitions],
            )
            for topic in request.topics
        ]
    )
    answer.allow_replication_factor_change = request.allow_replication_factor_change
    return answer


def _partition(index: int, error: ApiError | None) -> PartitionResponse:
    if error is None:
        return PartitionResponse(index)
    return PartitionResponse(index, error.code, error.message)
