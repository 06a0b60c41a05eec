"""LeaveGroup: members leave, or an administrator removes static members.

Promises: a member that leaves is removed at once, and the group rebalances.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator
from functools import partial
from typing import Any, Final

from kavka.groupcoord.classic.group_requests import LeaveRequest, LeavingMember
from kavka.groupcoord.shard import GroupShard
from kavka.log.journal import DecisionOrSteps, ReplyFuture
from kavka.server.auth.authorizer import Operation
from kavka.server.broker import Broker
from kavka.server.handlers.common.group_calls import check_group
from kavka.server.request.context import RequestContext, Response
from kavka.server.request.sliced_responses import encode_in_slices
from kavka.wire.apis.leave_group import API, BATCHED_SINCE, LeaveGroupResponse

MEMBERS_AT_ONCE_MAX: Final = 500
"""A response with more members is encoded in slices."""

_REASON_SINCE: Final = 5


def handle(broker: Broker, context: RequestContext, request: Any) -> Any:
    group_id = request.group_id
    check_group(broker, context, Operation.READ, group_id)
    leave_request = LeaveRequest(group_id, _leaving_members(context.version, request))
    result = broker.groups.call(group_id, partial(_call_shard, leave_request))
    if isinstance(result, LeaveGroupResponse):
        return _shaped(result, context.version)
    return _await_response(broker, context, result)


def _leaving_members(version: int, request: Any) -> Iterator[LeavingMember]:
    """Generated on demand, as there may be thousands."""
    if version < BATCHED_SINCE:
        yield LeavingMember(request.member_id)
        return
    for member in request.members:
        reason = member.reason if version >= _REASON_SINCE else None
        yield LeavingMember(member.member_id, member.group_instance_id, reason)


def _call_shard(
    leave_request: LeaveRequest, shard: GroupShard, future: ReplyFuture, now_ms: int
) -> DecisionOrSteps:
    return shard.classic_requests_for(leave_request.group_id, now_ms).leave(
        leave_request, future, now_ms
    )


async def _await_response(
    broker: Broker, context: RequestContext, pending: Awaitable[LeaveGroupResponse]
) -> Response:
    response = _shaped(await pending, context.version)
    if len(response.members) > MEMBERS_AT_ONCE_MAX:
        return await encode_in_slices(broker.tasks, API, context, response)
    return response


def _shaped(response: LeaveGroupResponse, version: int) -> LeaveGroupResponse:
    """Before batching the single member's code is that of the whole response."""
    if version < BATCHED_SINCE and not response.error_code:
        return LeaveGroupResponse(response.members[0].error_code)
    return response
