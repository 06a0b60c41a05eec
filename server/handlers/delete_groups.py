"""DeleteGroups: deletes empty groups, with their offsets (KIP-229).

Promises: each group that can be deleted is, independently of the others. Up to
`kavka.groupcoord.listing.OFFSETS_MAX` offsets are deleted together with their group; more are
deleted before it, in parts.
"""

from __future__ import annotations

from typing import Any, Final

from kavka.groupcoord import listing
from kavka.groupcoord.shard import GroupShard
from kavka.log.journal import Decision, ReplyFuture
from kavka.server.auth.authorizer import Operation, ResourceType
from kavka.server.broker import Broker
from kavka.server.handlers.common.group_calls import GroupCalls
from kavka.server.request.context import RequestContext
from kavka.wire.apis.delete_groups import API, DeleteGroupsResponse, GroupResult
from kavka.wire.errors import ErrorCode
from kavka.wire.steps import Steps

GROUPS_PER_STEP: Final = 50
"""Groups handled in one slice."""


def handle(broker: Broker, context: RequestContext, request: Any) -> Any:
    calls = GroupCalls(broker, API)
    deletions: list[_Deletion] = []

    def respond() -> DeleteGroupsResponse:
        ordered = sorted(deletions, key=lambda deletion: not deletion.may)
        return DeleteGroupsResponse([deletion.result for deletion in ordered])

    def steps() -> Steps[None]:
        for number, group_id in enumerate(dict.fromkeys(request.groups_names), 1):
            deletion = _Deletion(broker, context, group_id)
            deletions.append(deletion)
            yield from deletion.steps(calls)
            if number % GROUPS_PER_STEP == 0:
                yield None

    return calls.run(context, steps(), respond)


class _Deletion:
    """The deletion of one group."""

    def __init__(self, broker: Broker, context: RequestContext, group_id: str) -> None:
        allows = broker.authorizer.allows
        self.may: Final = allows(context, Operation.DELETE, ResourceType.GROUP, group_id)
        self.result: Final = GroupResult(group_id)
        if not self.may:
            self._failed(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        self._waits = self._done = False

    def steps(self, calls: GroupCalls) -> Steps[None]:
        """Delete the group, and before it its offsets, in parts."""
        while not self._done and not self.result.error_code:
            self._waits = True
            calls.call(self.result.group_id, self._delete, _nothing, self._failed)
            if self._waits:  # the call is still queued
                yield from calls.wait_for_results()
            elif not self._done:
                yield None

    def _delete(self, shard: GroupShard, future: ReplyFuture, now_ms: int) -> Steps[Decision]:
        group_id = self.result.group_id
        decision = yield from listing.delete_group(shard.state, shard.offsets, group_id, future)
        self._done = decision.replies[0].response
        self._waits = False
        return decision

    def _failed(self, code: ErrorCode) -> None:
        self.result.error_code = code


def _nothing(result: object) -> None:
    """`_delete` has stored the result already."""
