"""LeaveGroup: members leave, or an administrator has static ones leave.

Promises: who has left counts no more at once; the others are to join again.
"""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial
from typing import Any, Final

from kavka.groupcoord.classic.requests import Leaver, LeaveRequest
from kavka.groupcoord.shard import GroupShard
from kavka.log.journal import Made, Ticket
from kavka.server.auth.authorizer import Operation
from kavka.server.broker import Broker
from kavka.server.context import RequestContext
from kavka.server.group_calls import check_group
from kavka.wire.apis.leave_group import BATCHED_SINCE, LeaveGroupResponse

_REASON_SINCE: Final = 5


def handle(broker: Broker, context: RequestContext, request: Any) -> Any:
    group_id = request.group_id
    check_group(broker, context, Operation.READ, group_id)
    asked = LeaveRequest(group_id, _leavers(context.version, request))
    answer = broker.groups.call(group_id, partial(_ask, asked))
    if isinstance(answer, LeaveGroupResponse):
        return _shaped(answer, context.version)
    return _later(answer, context.version)


def _leavers(version: int, request: Any) -> list[Leaver]:
    if version < BATCHED_SINCE:
        return [Leaver(request.member_id)]
    return [
        Leaver(
            one.member_id, one.group_instance_id, one.reason if version >= _REASON_SINCE else None
        )
        for one in request.members
    ]


def _ask(asked: LeaveRequest, shard: GroupShard, ticket: Ticket, now_ms: int) -> Made:
    return shard.classic_of(asked.group_id, now_ms).leave(asked, ticket, now_ms)


async def _later(answer: Awaitable[LeaveGroupResponse], version: int) -> LeaveGroupResponse:
    return _shaped(await answer, version)


def _shaped(answer: LeaveGroupResponse, version: int) -> LeaveGroupResponse:
    """A single member's code is that of the request."""
    if version < BATCHED_SINCE and not answer.error_code:
        return LeaveGroupResponse(answer.members[0].error_code)
    return answer
