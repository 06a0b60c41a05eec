"""AlterPartitionReassignments, on a cluster of a single broker.

There is nowhere to move a partition to: reassigning to the current replicas succeeds, other brokers
are refused as unknown, and there is no reassignment to cancel. `allow_replication_factor_change`
(version 1) makes no difference, as a replication factor other than 1 is refused before.
"""

from __future__ import annotations

from typing import Any, Final

from kavka.server.auth.authorizer import CLUSTER_NAME, Operation, ResourceType
from kavka.server.broker import Broker
from kavka.server.cluster.control_messages import TopicPartition
from kavka.server.request.context import RequestContext
from kavka.server.runtime import cooperative
from kavka.wire.apis.alter_partition_reassignments import (
    API,
    AlterPartitionReassignmentsResponse,
    PartitionResponse,
    TopicResponse,
)
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.steps import Steps

PARTITIONS_PER_STEP: Final = 200
"""Partitions handled in one slice; a refusal takes 15 us."""


def handle(broker: Broker, context: RequestContext, request: Any) -> Any:
    if not broker.authorizer.allows(context, Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME):
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if not request.topics:
        return AlterPartitionReassignmentsResponse([], error_message="")  # not null: as Kafka's
    if request.timeout_ms <= 0:  # expires before the controller handles it
        return API.error_response(request, ErrorCode.REQUEST_TIMED_OUT, context.version)
    return cooperative.run(broker.tasks, _reassign(broker, request), context)


def _reassign(broker: Broker, request: Any) -> Steps[AlterPartitionReassignmentsResponse]:
    targets = [
        (TopicPartition(topic.name, one.partition_index), one.replicas)
        for topic in request.topics
        for one in topic.partitions
    ]
    errors = list(broker.controller.reassign(targets[:PARTITIONS_PER_STEP]))
    for start in range(PARTITIONS_PER_STEP, len(targets), PARTITIONS_PER_STEP):
        yield None
        errors += broker.controller.reassign(targets[start : start + PARTITIONS_PER_STEP])
    remaining = iter(errors)
    answer = AlterPartitionReassignmentsResponse(
        [
            TopicResponse(
                topic.name,
                [_partition(one.partition_index, next(remaining)) for one in topic.partitions],
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
