"""DeleteTopics: by name, or from version 6 by id (KIP-516); done by the controller."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final
from uuid import UUID

from kavka.server.auth.authorizer import Operation, ResourceType
from kavka.server.broker import Broker
from kavka.server.context import RequestContext
from kavka.wire.apis.delete_topics import (
    API,
    DeleteTopicsResponse,
    TopicResponse,
    asked_topics,
)
from kavka.wire.errors import ErrorCode

_DISABLED_SINCE: Final = 3


def handle(broker: Broker, context: RequestContext, request: Any) -> Any:
    if not broker.controller.is_active:
        return API.error_response(request, ErrorCode.NOT_CONTROLLER, context.version)
    if not broker.settings.delete_topic_enable:
        newer = context.version >= _DISABLED_SINCE
        code = ErrorCode.TOPIC_DELETION_DISABLED if newer else ErrorCode.INVALID_REQUEST
        return API.error_response(request, code, context.version)
    answers = _answers(broker, context, asked_topics(request, context.version))
    if all(answer.error_code for answer in answers):
        return DeleteTopicsResponse(answers)
    return _delete(broker, request.timeout_ms, answers)


def _answers(
    broker: Broker, context: RequestContext, asked: list[tuple[str | None, UUID | None]]
) -> list[TopicResponse]:
    """An answer to each topic, once; one that is named twice, or by name and id, is refused."""
    image = broker.metadata.image
    times = Counter(asked)
    answers = []
    for (name, topic_id), count in times.items():
        known = None if name is None else image.topics.get(name)
        if name is not None and topic_id is not None:
            answer = _invalid(name, topic_id, "You may not specify both topic name and topic id.")
        elif name is None and topic_id is None:
            answer = _invalid(None, None, "Neither topic name nor id were specified.")
        elif count > 1:
            kind = "id" if name is None else "name"
            answer = _invalid(name, topic_id, f"Duplicate topic {kind}.")
        elif known is not None and (None, known.topic_id) in times:
            message = "The provided topic name maps to an ID that was already supplied."
            answer = _invalid(name, known.topic_id, message)
        elif topic_id is not None and (image.names_by_id.get(topic_id), None) in times:
            continue  # answered under its name
        else:
            answer = _check(broker, context, name, topic_id)
        answers.append(answer)
    return answers


def _invalid(name: str | None, topic_id: UUID | None, message: str) -> TopicResponse:
    return TopicResponse(name, topic_id, ErrorCode.INVALID_REQUEST, message)


def _check(
    broker: Broker, context: RequestContext, name: str | None, topic_id: UUID | None
) -> TopicResponse:
    """The topic's place in the answer, with why it can't be deleted if it can't."""
    image = broker.metadata.image
    by_id = topic_id is not None
    if topic_id is not None:
        name = image.names_by_id.get(topic_id)
    answer = TopicResponse(name, topic_id)
    if name is None:
        answer.error_code = (
            ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )
        return answer
    allows = broker.authorizer.allows
    if by_id and not allows(context, Operation.DESCRIBE, ResourceType.TOPIC, name):
        answer.name = None
        answer.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    elif not allows(context, Operation.DELETE, ResourceType.TOPIC, name):
        answer.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    elif name not in image.topics:
        answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    elif not by_id:
        answer.topic_id = image.topics[name].topic_id
    return answer


async def _delete(
    broker: Broker, timeout_ms: int, answers: list[TopicResponse]
) -> DeleteTopicsResponse:
    names = {a.name: None for a in answers if a.name is not None and not a.error_code}
    codes = await broker.controller.delete_topics(list(names), timeout_ms=timeout_ms)
    for answer in answers:
        if not answer.error_code and answer.name is not None:
            answer.error_code = codes[answer.name]
    return DeleteTopicsResponse(answers)
