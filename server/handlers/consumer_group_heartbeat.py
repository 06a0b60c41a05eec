"""ConsumerGroupHeartbeat: a member of a consumer group joins, stays, or leaves (KIP-848).

Promises: the epoch and assignment in a response are durable.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from functools import partial
from typing import Any, Final
from uuid import UUID

from kavka.groupcoord.consumer.heartbeats import Heartbeat, HeartbeatResult
from kavka.groupcoord.consumer.member import JOIN_EPOCH, LEAVE_EPOCH, LEAVE_STATIC_EPOCH, UNSET
from kavka.groupcoord.shard import GroupShard
from kavka.log.journal import DecisionOrSteps, ReplyFuture
from kavka.server.auth.authorizer import Operation, ResourceType
from kavka.server.broker import Broker
from kavka.server.request.context import RequestContext, Response
from kavka.server.request.sliced_responses import encode_in_slices
from kavka.wire.apis.consumer_group_heartbeat import (
    API,
    OWN_ID_SINCE,
    Assignment,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kavka.wire.errors import ApiError, ErrorCode

TOPICS_AT_ONCE_MAX: Final = 500
"""An assignment of more topics is encoded in slices."""


def handle(broker: Broker, context: RequestContext, request: Any) -> Any:
    try:
        _check_access(broker, context, request)
        _check(broker, context.version, request)
        heartbeat = _heartbeat(broker, context, request)
        result = broker.groups.call(heartbeat.group_id, partial(_call_shard, heartbeat))
    except ApiError as failure:
        return _failed(failure)
    return (
        _response(result)
        if isinstance(result, HeartbeatResult)
        else _await_response(broker, context, result)
    )


def _check_access(broker: Broker, context: RequestContext, request: Any) -> None:
    if not broker.groups.has_consumer_protocol:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
    allows = broker.authorizer.allows
    if not allows(context, Operation.READ, ResourceType.GROUP, request.group_id):
        raise ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    for topic in request.subscribed_topic_names or ():
        if not allows(context, Operation.DESCRIBE, ResourceType.TOPIC, topic):
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)


_NOT_BLANK: Final = (
    ("group_id", "GroupId can't be empty."),
    ("instance_id", "InstanceId can't be empty."),
    ("rack_id", "RackId can't be empty."),
)


def _check(broker: Broker, version: int, request: Any) -> None:
    """ApiError INVALID_REQUEST, UNSUPPORTED_ASSIGNOR; checks and order are Apache Kafka's."""
    epoch = request.member_epoch
    if version >= OWN_ID_SINCE or epoch > JOIN_EPOCH or epoch == LEAVE_EPOCH:
        _check_text(request.member_id, "MemberId can't be empty.")
    for name, reason in _NOT_BLANK:
        _check_text(getattr(request, name), reason)
    if epoch == JOIN_EPOCH:
        _check_first(version, request)
    elif epoch == LEAVE_STATIC_EPOCH:
        if request.instance_id is None:
            raise _invalid("InstanceId can't be null.")
    elif epoch < LEAVE_STATIC_EPOCH:
        raise _invalid("MemberEpoch is invalid.")
    assignor, known = request.server_assignor, broker.settings.group_consumer_assignors
    if assignor is not None and assignor not in known:
        raise ApiError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {assignor} is not supported. Supported assignors: {', '.join(known)}.",
        )


def _check_text(text: str | None, reason: str) -> None:
    if text is not None and not text.strip():
        raise _invalid(reason)


def _check_first(version: int, request: Any) -> None:
    """ApiError INVALID_REQUEST unless the first request of a joining member has all fields."""
    if request.rebalance_timeout_ms == UNSET:
        raise _invalid("RebalanceTimeoutMs must be provided in first request.")
    if request.topic_partitions is None or request.topic_partitions:
        raise _invalid("TopicPartitions must be empty when (re-)joining.")
    if request.subscribed_topic_names is None and _regex(version, request) is None:
        raise _invalid(
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when "
            "(re-)joining."
        )


def _invalid(reason: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, reason)


def _regex(version: int, request: Any) -> str | None:
    regex: str | None = request.subscribed_topic_regex if version >= OWN_ID_SINCE else None
    return regex


def _heartbeat(broker: Broker, context: RequestContext, request: Any) -> Heartbeat:
    reported = request.topic_partitions
    return Heartbeat(
        request.group_id,
        request.member_id,
        request.member_epoch,
        context.client_id or "",
        context.peer.host,
        request.instance_id,
        request.rack_id,
        request.rebalance_timeout_ms,
        request.subscribed_topic_names,
        _regex(context.version, request),
        request.server_assignor,
        None if reported is None else _reported(reported),
        partial(broker.authorizer.allows, context, Operation.DESCRIBE, ResourceType.TOPIC),
    )


def _reported(topics: Any) -> dict[UUID, Sequence[int]]:
    """Owned partitions by topic; those of a topic that is named twice are merged."""
    found: dict[UUID, Sequence[int]] = {}
    for topic in topics:
        before = found.get(topic.topic_id)
        found[topic.topic_id] = topic.partitions if before is None else [*before, *topic.partitions]
    return found


def _call_shard(
    heartbeat: Heartbeat, shard: GroupShard, future: ReplyFuture, now_ms: int
) -> DecisionOrSteps:
    return shard.consumer.heartbeat(heartbeat, future, now_ms)


async def _await_response(
    broker: Broker, context: RequestContext, pending: Awaitable[HeartbeatResult]
) -> Response:
    try:
        result = await pending
    except ApiError as failure:
        return _failed(failure)
    response = _response(result)
    if result.assignment is not None and len(result.assignment) > TOPICS_AT_ONCE_MAX:
        return await encode_in_slices(broker.tasks, API, context, response)
    return response


def _response(result: HeartbeatResult) -> ConsumerGroupHeartbeatResponse:
    assignment = None
    if result.assignment is not None:
        assignment = Assignment(
            [TopicPartitions(*assigned) for assigned in result.assignment.items()]
        )
    return ConsumerGroupHeartbeatResponse(
        member_id=result.member_id,
        member_epoch=result.member_epoch,
        heartbeat_interval_ms=result.heartbeat_interval_ms,
        assignment=assignment,
    )


def _failed(failure: ApiError) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(failure.code, failure.message)
