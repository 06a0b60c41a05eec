"""CreateTopics: checked here for who may, done by the controller.

Promises: `validate_only`, explicit assignments, configs, defaults, and from version 5 the topic's
resulting settings in the answer (KIP-525). The answer comes when this broker serves the topic.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import Any, Final

from kavka.server.auth.authorizer import CLUSTER_NAME, Operation, ResourceType
from kavka.server.broker import Broker
from kavka.server.config import describe, topic_warnings
from kavka.server.context import RequestContext
from kavka.server.controller.new_topics import NewTopic, TopicResult
from kavka.wire.apis.create_topics import CreateTopicsResponse, TopicConfig, TopicResponse
from kavka.wire.errors import ErrorCode

logger = logging.getLogger(__name__)

_SETTINGS_SINCE: Final = 5
_RAFT_METADATA_TOPIC: Final = "__cluster_metadata"


def handle(broker: Broker, context: RequestContext, request: Any) -> Any:
    answers = {topic.name: TopicResponse(topic.name) for topic in request.topics}
    times_named = Counter(topic.name for topic in request.topics)
    if not broker.controller.is_active:
        for answer in answers.values():
            answer.error_code = ErrorCode.NOT_CONTROLLER
        return CreateTopicsResponse(list(answers.values()))
    for name, answer in answers.items():
        if name == _RAFT_METADATA_TOPIC:
            answer.error_code = ErrorCode.INVALID_REQUEST
            answer.error_message = f"Creation of internal topic {name} is prohibited."
        elif times_named[name] > 1:
            answer.error_code = ErrorCode.INVALID_REQUEST
            answer.error_message = "Found multiple entries for this topic."
        elif not _may_create(broker, context, name):
            answer.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            answer.error_message = "Authorization failed."
    _check_assignments(request, answers)
    wanted = [t for t in request.topics if answers[t.name].error_code == ErrorCode.NONE]
    if not wanted:
        return CreateTopicsResponse(list(answers.values()))
    return _create(broker, context, request, wanted, answers)


def _check_assignments(request: Any, answers: dict[str, TopicResponse]) -> None:
    """A partition that is assigned twice can't be told to the controller."""
    for topic in request.topics:
        answer = answers[topic.name]
        times = Counter(assignment.partition_index for assignment in topic.assignments)
        twice = [index for index, count in times.items() if count > 1]
        if twice and answer.error_code == ErrorCode.NONE:
            answer.error_code = ErrorCode.INVALID_REPLICA_ASSIGNMENT
            answer.error_message = (
                f"Found multiple manual partition assignments for partition {twice[0]}"
            )


def _may_create(broker: Broker, context: RequestContext, name: str) -> bool:
    allows = broker.authorizer.allows
    return allows(context, Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME) or allows(
        context, Operation.CREATE, ResourceType.TOPIC, name
    )


async def _create(
    broker: Broker,
    context: RequestContext,
    request: Any,
    wanted: list[Any],
    answers: dict[str, TopicResponse],
) -> CreateTopicsResponse:
    results = await broker.controller.create_topics(
        [_new_topic(topic) for topic in wanted],
        timeout_ms=request.timeout_ms,
        validate_only=context.version >= 1 and request.validate_only,
    )
    for topic in wanted:
        _fill(broker, context, answers[topic.name], topic, results[topic.name])
    return CreateTopicsResponse(list(answers.values()))


def _new_topic(topic: Any) -> NewTopic:
    return NewTopic(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        {a.partition_index: tuple(a.broker_ids) for a in topic.assignments} or None,
        {config.name: config.value for config in topic.configs},
    )


def _fill(
    broker: Broker, context: RequestContext, answer: TopicResponse, topic: Any, result: TopicResult
) -> None:
    answer.error_code = result.code
    answer.error_message = result.message
    if result.code != ErrorCode.NONE:
        return
    answer.topic_id = result.topic_id
    overrides = {config.name: config.value for config in topic.configs}
    for warning in topic_warnings(overrides):
        logger.warning("topic %s: %s", topic.name, warning)
    if context.version < _SETTINGS_SINCE:
        return
    if not broker.authorizer.allows(
        context, Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, topic.name
    ):
        answer.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return
    answer.num_partitions = result.num_partitions
    answer.replication_factor = result.replication_factor
    answer.configs = [
        TopicConfig(entry.name, entry.value, entry.read_only, entry.source, entry.is_sensitive)
        for entry in describe.topic_entries(broker.settings, overrides)
    ]
