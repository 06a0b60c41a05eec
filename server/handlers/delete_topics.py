"""DeleteTopics: by name, or from version 6 by id (KIP-516); carried out by the controller.

The response to an id does not reveal the topic's name to a client that may not describe it.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final, NamedTuple
from uuid import UUID

from kavka.server.auth.authorizer import CLUSTER_NAME, Operation, ResourceType
from kavka.server.broker import Broker
from kavka.server.request.context import RequestContext
from kavka.wire.apis.delete_topics import (
    API,
    DeleteTopicsResponse,
    TopicResponse,
    requested_topics,
)
from kavka.wire.errors import ErrorCode

_DISABLED_SINCE: Final = 3

_MESSAGES: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "This server does not host this topic-partition.",
    ErrorCode.UNKNOWN_TOPIC_ID: "This server does not host this topic ID.",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Topic authorization failed.",
}


def handle(broker: Broker, context: RequestContext, request: Any) -> Any:
    if not broker.controller.is_active:
        return API.error_response(request, ErrorCode.NOT_CONTROLLER, context.version)
    if not broker.settings.delete_topic_enable:
        newer = context.version >= _DISABLED_SINCE
        code = ErrorCode.TOPIC_DELETION_DISABLED if newer else ErrorCode.INVALID_REQUEST
        return API.error_response(request, code, context.version)
    validated = _each_once(requested_topics(request, context.version))
    if not validated.names and not validated.ids:
        return DeleteTopicsResponse(validated.responses)
    if request.timeout_ms <= 0:  # expires before the controller handles it: nothing is changed
        return API.error_response(request, ErrorCode.REQUEST_TIMED_OUT, context.version)
    to_delete = _permitted(broker, context, validated)
    if not to_delete:
        return DeleteTopicsResponse(validated.responses)
    return _delete(broker, request.timeout_ms, to_delete, validated.responses)


class _ValidatedRequest(NamedTuple):
    """A validated request; `responses` has those so far."""

    responses: list[TopicResponse]
    names: list[str]
    ids: list[UUID]
    ids_twice: list[UUID]


def _each_once(requested: list[tuple[str | None, UUID | None]]) -> _ValidatedRequest:
    """Refuse ambiguous and duplicate topics, and return the rest."""
    responses: list[TopicResponse] = []
    names: Counter[str] = Counter()
    ids: Counter[UUID] = Counter()

    def refuse(name: str | None, topic_id: UUID | None, message: str) -> None:
        responses.append(TopicResponse(name, topic_id, ErrorCode.INVALID_REQUEST, message))

    for name, topic_id in requested:
        if name is not None and topic_id is not None:
            refuse(name, topic_id, "You may not specify both topic name and topic id.")
        elif name is not None:
            names[name] += 1
        elif topic_id is not None:
            ids[topic_id] += 1
        else:
            refuse(None, None, "Neither topic name nor id were specified.")
    for name in [name for name, count in names.items() if count > 1]:
        refuse(name, None, "Duplicate topic name.")
    ids_twice = [topic_id for topic_id, count in ids.items() if count > 1]
    for topic_id in ids_twice:
        refuse(None, topic_id, "Duplicate topic id.")
    return _ValidatedRequest(
        responses,
        [name for name, count in names.items() if count == 1],
        [topic_id for topic_id, count in ids.items() if count == 1],
        ids_twice,
    )


def _permitted(
    broker: Broker, context: RequestContext, validated: _ValidatedRequest
) -> dict[str, UUID]:
    """The topics to delete, with their ids; the others are refused."""
    image = broker.metadata.image
    to_delete: dict[str, UUID] = {}

    def refuse(name: str | None, topic_id: UUID | None, code: ErrorCode) -> None:
        validated.responses.append(TopicResponse(name, topic_id, code, _MESSAGES[code]))

    for topic_id in validated.ids:
        name = image.names_by_id.get(topic_id)
        if name is None:
            refuse(None, topic_id, ErrorCode.UNKNOWN_TOPIC_ID)
        elif not _may(broker, context, Operation.DELETE, name):
            shown = name if _may(broker, context, Operation.DESCRIBE, name) else None
            refuse(shown, topic_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        else:
            to_delete[name] = topic_id
    for name in validated.names:
        known = image.topics.get(name)
        if not _may(broker, context, Operation.DESCRIBE, name):
            refuse(name, None, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        elif known is None:
            refuse(name, None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        elif not _may(broker, context, Operation.DELETE, name):
            refuse(name, None, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        elif name in to_delete or known.topic_id in validated.ids_twice:
            to_delete.pop(name, None)
            message = "The provided topic name maps to an ID that was already supplied."
            validated.responses.append(
                TopicResponse(name, known.topic_id, ErrorCode.INVALID_REQUEST, message)
            )
        else:
            to_delete[name] = known.topic_id
    return to_delete


def _may(broker: Broker, context: RequestContext, operation: Operation, name: str) -> bool:
    """Whether the client has the permission; with DELETE on the cluster it may delete and describe
    any topic here."""
    allows = broker.authorizer.allows
    return allows(context, Operation.DELETE, ResourceType.CLUSTER, CLUSTER_NAME) or allows(
        context, operation, ResourceType.TOPIC, name
    )


async def _delete(
    broker: Broker,
    timeout_ms: int,
    to_delete: dict[str, UUID],
    responses: list[TopicResponse],
) -> DeleteTopicsResponse:
    codes = await broker.controller.delete_topics(list(to_delete), timeout_ms=timeout_ms)
    for name, topic_id in to_delete.items():
        responses.append(TopicResponse(name, topic_id, codes[name]))
    return DeleteTopicsResponse(responses)
