"""AlterPartitionReassignments (KIP-455), carried out by the controller.

The response is sent when the reassignments have begun.
"""

from __future__ import annotations

from typing import Any

from kavka.server.auth.authorizer import CLUSTER_NAME, Operation, ResourceType
from kavka.server.broker import Broker
from kavka.server.cluster.control_messages import TopicPartition
from kavka.server.controller.reassignment_requests import Reassignment
from kavka.server.request.context import RequestContext
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
    if request.timeout_ms <= 0:  # expires before the controller handles it
        return API.error_response(request, ErrorCode.REQUEST_TIMED_OUT, context.version)
    return _reassign(broker, request)


async def _reassign(broker: Broker, request: Any) -> AlterPartitionReassignmentsResponse:
    may_change_factor = request.allow_replication_factor_change
    reassignments = [
        Reassignment(
            TopicPartition(topic.name, partition.partition_index),
            partition.replicas,
            may_change_factor,
        )
        for topic in request.topics
        for partition in topic.partitions
    ]
    errors = await broker.controller.reassign(reassignments, timeout_ms=request.timeout_ms)
    remaining = iter(errors)
    response = AlterPartitionReassignmentsResponse(
        [
            TopicResponse(
                topic.name,
                [
                    _partition(partition.partition_index, next(remaining))
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
    response.allow_replication_factor_change = request.allow_replication_factor_change
    return response


def _partition(index: int, error: ApiError | None) -> PartitionResponse:
    if error is None:
        return PartitionResponse(index)
    return PartitionResponse(index, error.code, error.message)
