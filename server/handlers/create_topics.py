"""CreateTopics: authorized here, carried out by the controller.

Promises: `validate_only`, explicit assignments, configs, defaults, and from version 5 the topic's
effective configs in the response (KIP-525), which is sent when this broker serves the topic.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from kavka.server.auth.authorizer import CLUSTER_NAME, Operation, ResourceType
from kavka.server.broker import Broker
from kavka.server.config import describe, topic_warnings
from kavka.server.controller.topic_validation import CLUSTER_METADATA, NewTopic, TopicResult
from kavka.server.request.context import RequestContext
from kavka.wire.apis.create_topics import (
    API,
    CreateTopicsResponse,
    TopicConfig,
    TopicResponse,
)
from kavka.wire.errors import ErrorCode

logger = logging.getLogger(__name__)

_SETTINGS_SINCE: Final = 5

READ_PER_STEP: Final = 500
"""Topics checked in one slice, at a microsecond each."""

RESPONSES_PER_STEP: Final = 10
"""Topics put into the response in one slice, at 250 us each with their configs."""


def handle(broker: Broker, context: RequestContext, request: Any) -> Any:
    if not broker.controller.is_active:
        return API.error_response(request, ErrorCode.NOT_CONTROLLER, context.version)
    refused = _refused(broker, context, request)
    accepted = [topic for topic in request.topics if topic.name not in refused]
    if not accepted:
        return CreateTopicsResponse(list(refused.values()))
    if request.timeout_ms <= 0:  # expires before the controller handles it: nothing is changed
        return API.error_response(request, ErrorCode.REQUEST_TIMED_OUT, context.version)
    return _create(broker, context, request, accepted, refused)


def _refused(broker: Broker, context: RequestContext, request: Any) -> dict[str, TopicResponse]:
    """The responses for topics that are refused before the controller is called."""
    times = Counter(topic.name for topic in request.topics)
    refused: dict[str, TopicResponse] = {}

    def refuse(name: str, code: ErrorCode, message: str) -> None:
        refused[name] = TopicResponse(name, error_code=code, error_message=message)

    for name, count in times.items():
        if count > 1:
            refuse(name, ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    for name in times:
        if name in refused:
            continue
        if name == CLUSTER_METADATA:
            message = f"Creation of internal topic {name} is prohibited."
            refuse(name, ErrorCode.INVALID_REQUEST, message)
        elif not _may_create(broker, context, name):
            refuse(name, ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")
    return refused


def _may_create(broker: Broker, context: RequestContext, name: str) -> bool:
    allows = broker.authorizer.allows
    return allows(context, Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME) or allows(
        context, Operation.CREATE, ResourceType.TOPIC, name
    )


async def _create(
    broker: Broker,
    context: RequestContext,
    request: Any,
    accepted: list[Any],
    refused: Mapping[str, TopicResponse],
) -> CreateTopicsResponse:
    new: list[NewTopic] = []
    for topic in accepted:
        if len(new) % READ_PER_STEP == READ_PER_STEP - 1:
            await broker.tasks.sleep(0)
        new.append(_new_topic(topic))
    results = await broker.controller.create_topics(
        new,
        timeout_ms=request.timeout_ms,
        validate_only=context.version >= 1 and request.validate_only,
    )
    responses: list[TopicResponse] = []
    for topic in accepted:
        if len(responses) % RESPONSES_PER_STEP == RESPONSES_PER_STEP - 1:
            await broker.tasks.sleep(0)
        responses.append(_topic_response(broker, context, topic, results[topic.name]))
    return CreateTopicsResponse([*responses, *refused.values()])


def _new_topic(topic: Any) -> NewTopic:
    return NewTopic(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        [
            (assignment.partition_index, tuple(assignment.broker_ids))
            for assignment in topic.assignments
        ],
        _configs(topic),
    )


def _configs(topic: Any) -> dict[str, str | None]:
    """The requested configs; of a duplicate name null takes precedence, else the last value."""
    configs: dict[str, str | None] = {}
    for config in topic.configs:
        if configs.get(config.name, "") is not None:
            configs[config.name] = config.value
    return configs


def _topic_response(
    broker: Broker, context: RequestContext, topic: Any, result: TopicResult
) -> TopicResponse:
    response = TopicResponse(
        topic.name,
        result.topic_id,
        error_code=result.code,
        error_message=result.message,
    )
    if result.code != ErrorCode.NONE:
        return response
    overrides = {config.name: config.value for config in topic.configs}
    for warning in topic_warnings(overrides):
        logger.warning("topic %s: %s", topic.name, warning)
    if context.version < _SETTINGS_SINCE:
        return response
    if not broker.authorizer.allows(
        context, Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, topic.name
    ):
        response.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return response
    response.num_partitions = result.num_partitions
    response.replication_factor = result.replication_factor
    response.configs = [
        TopicConfig(entry.name, entry.value, entry.read_only, entry.source, entry.is_sensitive)
        for entry in describe.topic_entries(broker.settings, overrides)
    ]
    return response
