"""CreatePartitions: authorized here, carried out by the controller.

The response is sent when this broker serves the new partitions. A topic that is named twice is
refused, and so is one with more partitions than a request may create.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from kavka.server.auth.authorizer import Operation, ResourceType
from kavka.server.broker import Broker
from kavka.server.controller.partition_validation import NewPartitions
from kavka.server.request.context import RequestContext
from kavka.wire.apis.create_partitions import API, CreatePartitionsResponse, TopicResponse
from kavka.wire.errors import ErrorCode


def handle(broker: Broker, context: RequestContext, request: Any) -> Any:
    if not broker.controller.is_active:
        return API.error_response(request, ErrorCode.NOT_CONTROLLER, context.version)
    times = Counter(topic.name for topic in request.topics)
    message = "Duplicate topic name."
    refused = [
        TopicResponse(name, ErrorCode.INVALID_REQUEST, message)
        for name, count in times.items()
        if count > 1
    ]
    accepted = []
    for topic in request.topics:
        if times[topic.name] > 1:
            continue
        if broker.authorizer.allows(context, Operation.ALTER, ResourceType.TOPIC, topic.name):
            accepted.append(topic)
        else:
            refused.append(TopicResponse(topic.name, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    if not accepted:
        return CreatePartitionsResponse(refused)
    if request.timeout_ms <= 0:  # expires before the controller handles it: nothing is changed
        return API.error_response(request, ErrorCode.REQUEST_TIMED_OUT, context.version)
    return _create(broker, request, accepted, refused)


async def _create(
    broker: Broker, request: Any, accepted: list[Any], refused: list[TopicResponse]
) -> CreatePartitionsResponse:
    results = await broker.controller.create_partitions(
        [_new_partitions(topic) for topic in accepted],
        timeout_ms=request.timeout_ms,
        validate_only=request.validate_only,
    )
    responses = refused
    for name, error in results.items():
        response = TopicResponse(name)
        if error is not None:
            response.error_code, response.error_message = error.code, error.message
        responses.append(response)
    return CreatePartitionsResponse(responses)


def _new_partitions(topic: Any) -> NewPartitions:
    assignments = topic.assignments
    if assignments is not None:
        assignments = [tuple(assignment.broker_ids) for assignment in assignments]
    return NewPartitions(topic.name, topic.count, assignments)
