"""Heartbeat: keeps a member's session alive, and tells it when it must rejoin.

Promises: while groups are being loaded Heartbeats succeed, as members could do nothing about it.
"""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial
from typing import Any

from kavka.groupcoord.classic.group_requests import HeartbeatRequest
from kavka.groupcoord.shard import GroupShard
from kavka.server.auth.authorizer import Operation
from kavka.server.broker import Broker
from kavka.server.handlers.common.group_calls import check_group
from kavka.server.request.context import RequestContext
from kavka.wire.apis.heartbeat import HeartbeatResponse
from kavka.wire.errors import ApiError, ErrorCode


def handle(broker: Broker, context: RequestContext, request: Any) -> Any:
    group_id = request.group_id
    check_group(broker, context, Operation.READ, group_id)
    try:
        code = broker.groups.read(
            group_id, partial(check_heartbeat, group_request(context, request))
        )
    except ApiError as failure:
        return _failed(failure)
    return HeartbeatResponse(code) if isinstance(code, ErrorCode) else _await_response(code)


def group_request(context: RequestContext, request: Any) -> HeartbeatRequest:
    """The group coordinator's form of the request."""
    instance_id = request.group_instance_id if context.version >= 3 else None
    return HeartbeatRequest(request.group_id, request.generation_id, request.member_id, instance_id)


def check_heartbeat(group_request: HeartbeatRequest, shard: GroupShard, now_ms: int) -> ErrorCode:
    """Carry out the heartbeat in the group's shard: its code, or ApiError."""
    return shard.classic_requests_for(group_request.group_id, now_ms).heartbeat(
        group_request, now_ms
    )


async def _await_response(code: Awaitable[ErrorCode]) -> HeartbeatResponse:
    try:
        return HeartbeatResponse(await code)
    except ApiError as failure:
        return _failed(failure)


def _failed(failure: ApiError) -> HeartbeatResponse:
    if failure.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        return HeartbeatResponse()
    return HeartbeatResponse(failure.code)
