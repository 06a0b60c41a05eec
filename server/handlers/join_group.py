"""JoinGroup: a member joins a group, and its next generation.

Promises: the response is sent when the join phase of the rebalance ends, or at once on an error.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Awaitable
from functools import partial
from typing import Any, Final

from kavka.groupcoord.classic.group_requests import JoinRequest
from kavka.groupcoord.classic.members import OfferedProtocol
from kavka.groupcoord.java_strings import MEMBER_ID_BYTES, fits
from kavka.groupcoord.shard import GroupShard
from kavka.log.journal import DecisionOrSteps, ReplyFuture
from kavka.server.auth.authorizer import Operation, ResourceType
from kavka.server.broker import Broker
from kavka.server.request.context import RequestContext, Response
from kavka.server.request.sliced_responses import encode_in_slices
from kavka.wire.apis.join_group import API, JoinGroupResponse
from kavka.wire.errors import ApiError, ErrorCode

MEMBERS_AT_ONCE_MAX: Final = 500
"""A leader's response with more members is encoded in slices."""


def handle(broker: Broker, context: RequestContext, request: Any) -> Any:
    group_id = request.group_id
    if not broker.authorizer.allows(context, Operation.READ, ResourceType.GROUP, group_id):
        raise ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    error_code = _error_code(broker, context, request)
    if error_code is not None:
        return JoinGroupResponse(request.member_id, error_code).for_version(context.version)
    result = broker.groups.call(group_id, partial(_call_shard, _join_request(context, request)))
    if isinstance(result, JoinGroupResponse):
        return result.for_version(context.version)
    if isinstance(result, Future):
        context.wait(result)
    return _await_response(broker, context, result)


def _error_code(broker: Broker, context: RequestContext, request: Any) -> ErrorCode | None:
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    if not _is_storable(context, request):
        return ErrorCode.INVALID_REQUEST
    settings = broker.settings
    least_ms, most_ms = settings.group_min_session_timeout_ms, settings.group_max_session_timeout_ms
    if not least_ms <= request.session_timeout_ms <= most_ms:
        return ErrorCode.INVALID_SESSION_TIMEOUT
    return None


def _is_storable(context: RequestContext, request: Any) -> bool:
    """Whether all strings fit into the group's record. A member that can't be stored would keep its
    group from ever becoming stable; Apache Kafka then writes a record that it can't read."""
    begins_id = (context.client_id, request.group_instance_id)
    return (
        fits(request.group_id)
        and fits(request.protocol_type)
        and all(text is None or fits(text, MEMBER_ID_BYTES) for text in begins_id)
        and all(fits(protocol.name) for protocol in request.protocols)
    )


def _join_request(context: RequestContext, request: Any) -> JoinRequest:
    version = context.version
    session_timeout_ms = request.session_timeout_ms
    protocols = {
        protocol.name: OfferedProtocol(protocol.name, protocol.metadata)
        for protocol in request.protocols
    }
    return JoinRequest(
        request.group_id,
        request.member_id,
        request.group_instance_id if version >= 5 else None,
        context.client_id or "",
        context.peer.host,
        session_timeout_ms,
        request.rebalance_timeout_ms if version else session_timeout_ms,
        request.protocol_type,
        tuple(protocols.values()),
        request.reason if version >= 8 else None,
        version,
    )


def _call_shard(
    join_request: JoinRequest, shard: GroupShard, future: ReplyFuture, now_ms: int
) -> DecisionOrSteps:
    return shard.classic_requests_for(join_request.group_id, now_ms).join(
        join_request, future, now_ms
    )


async def _await_response(
    broker: Broker, context: RequestContext, pending: Awaitable[JoinGroupResponse]
) -> Response:
    response = (await pending).for_version(context.version)
    if len(response.members) > MEMBERS_AT_ONCE_MAX:
        return await encode_in_slices(broker.tasks, API, context, response)
    return response
