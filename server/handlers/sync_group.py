"""SyncGroup: the leader sends the assignment, and each member gets its part.

Promises: an assignment in a response is durable.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from kavka.groupcoord.classic.group_requests import SyncRequest
from kavka.groupcoord.shard import GroupShard
from kavka.log.journal import DecisionOrSteps, ReplyFuture
from kavka.server.auth.authorizer import Operation
from kavka.server.broker import Broker
from kavka.server.handlers.common.group_calls import check_group
from kavka.server.request.context import RequestContext
from kavka.wire.apis.sync_group import PROTOCOL_SINCE
from kavka.wire.errors import ApiError, ErrorCode


def handle(broker: Broker, context: RequestContext, request: Any) -> Any:
    if context.version >= PROTOCOL_SINCE and None in (request.protocol_type, request.protocol_name):
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    group_id = request.group_id
    check_group(broker, context, Operation.READ, group_id)
    sync_request = _sync_request(context.version, request)
    return broker.groups.call(group_id, partial(_call_shard, sync_request))


def _sync_request(version: int, request: Any) -> SyncRequest:
    is_named = version >= PROTOCOL_SINCE
    return SyncRequest(
        request.group_id,
        request.generation_id,
        request.member_id,
        request.group_instance_id if version >= 3 else None,
        request.protocol_type if is_named else None,
        request.protocol_name if is_named else None,
        {member.member_id: member.assignment for member in request.assignments},
    )


def _call_shard(
    sync_request: SyncRequest, shard: GroupShard, future: ReplyFuture, now_ms: int
) -> DecisionOrSteps:
    return shard.classic_requests_for(sync_request.group_id, now_ms).sync(
        sync_request, future, now_ms
    )
