"""ElectLeaders: preferred and unclean elections, carried out by the controller.

The response is sent when this broker's metadata has the new leaders. For a request of all
partitions it leaves out those that already have the right leader.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kavka.server.auth.authorizer import CLUSTER_NAME, Operation, ResourceType
from kavka.server.broker import Broker
from kavka.server.cluster.control_messages import TopicPartition
from kavka.server.request.context import RequestContext
from kavka.wire.apis.elect_leaders import (
    API,
    PREFERRED,
    UNCLEAN,
    ElectLeadersResponse,
    PartitionResponse,
    TopicResponse,
    error_response,
)
from kavka.wire.errors import ApiError, ErrorCode


def handle(broker: Broker, context: RequestContext, request: Any) -> Any:
    if not broker.authorizer.allows(context, Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME):
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if not broker.controller.is_active:
        return API.error_response(request, ErrorCode.NOT_CONTROLLER, context.version)
    requested = request.topic_partitions
    if requested is not None and not requested:
        return ElectLeadersResponse([])  # before other checks, as in Apache Kafka
    if request.timeout_ms <= 0:  # expires before the controller handles it: nothing is changed
        return API.error_response(request, ErrorCode.REQUEST_TIMED_OUT, context.version)
    kind = PREFERRED if context.version == 0 else request.election_type
    if kind not in (PREFERRED, UNCLEAN):
        message = f"Unknown election type {kind}"
        return error_response(request, ErrorCode.INVALID_REQUEST, context.version, message)
    return _elect(broker, request, unclean=kind == UNCLEAN)


async def _elect(broker: Broker, request: Any, *, unclean: bool) -> ElectLeadersResponse:
    requested = request.topic_partitions
    partitions = None
    if requested is not None:
        partitions = [
            TopicPartition(topic.topic, index) for topic in requested for index in topic.partitions
        ]
    results = await broker.controller.elect_leaders(
        partitions, unclean=unclean, timeout_ms=request.timeout_ms
    )
    if requested is None:
        return ElectLeadersResponse(_of_all(results))
    return ElectLeadersResponse(
        [
            TopicResponse(
                topic.topic,
                [
                    _partition(index, results[TopicPartition(topic.topic, index)])
                    for index in topic.partitions
                ],
            )
            for topic in requested
        ]
    )


def _of_all(results: Mapping[TopicPartition, ApiError | None]) -> list[TopicResponse]:
    """Every topic, with its partitions except those that needed no election."""
    topics: dict[str, list[PartitionResponse]] = {}
    for (topic, index), error in results.items():
        partitions = topics.setdefault(topic, [])
        if error is None or error.code is not ErrorCode.ELECTION_NOT_NEEDED:
            partitions.append(_partition(index, error))
    return [TopicResponse(topic, partitions) for topic, partitions in topics.items()]


def _partition(index: int, error: ApiError | None) -> PartitionResponse:
    if error is None:
        return PartitionResponse(index)
    return PartitionResponse(index, error.code, error.message)
