"""SyncGroup to a classic group: stores the leader's assignment and returns each member's. Pure."""

from __future__ import annotations

import logging
from typing import Final

from kavka.groupcoord.classic.group import ClassicGroup, GroupState
from kavka.groupcoord.classic.group_requests import SyncRequest
from kavka.groupcoord.classic.members import ClassicGroupMember
from kavka.groupcoord.classic.pending_generations import PendingGenerations
from kavka.groupcoord.classic.rebalancing import Rebalancing
from kavka.groupcoord.state import GroupsState
from kavka.log.journal import Decision, DecisionOrSteps, Reply, ReplyFuture
from kavka.wire.apis.sync_group import SyncGroupResponse
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.steps import Steps, each, run_at_once

logger = logging.getLogger(__name__)


class Syncing:
    """Handles SyncGroup."""

    def __init__(
        self, state: GroupsState, rebalancing: Rebalancing, pending_generations: PendingGenerations
    ) -> None:
        self._timers: Final = state.timers
        self._counts: Final = state.counts
        self._rebalancing: Final = rebalancing
        self._pending_generations: Final = pending_generations

    def sync(
        self, group: ClassicGroup, request: SyncRequest, future: ReplyFuture, now_ms: int
    ) -> DecisionOrSteps:
        """Reply with a member's assignment, as soon as the leader's is stored."""
        out = Decision()
        error_code = _error_code(group, request)
        if error_code is not None:
            out.replies.append(Reply(future, SyncGroupResponse(error_code)))
            return out
        member = group.members[request.member_id]
        group.pending_sync.pop(member.member_id, None)
        if not group.pending_sync:
            self._timers.cancel(group.sync_timer)
        if group.current is GroupState.STABLE:
            out.replies.append(Reply(future, _assigned(group, member.assignment)))
            return out
        if member.sync is not None:
            response = SyncGroupResponse(ErrorCode.REBALANCE_IN_PROGRESS)
            out.replies.append(Reply(member.sync, response))
        member.sync = future
        if group.leader == member.member_id:
            return self._store(group, member, request, out, now_ms)
        return out

    def _store(
        self,
        group: ClassicGroup,
        leader: ClassicGroupMember,
        request: SyncRequest,
        out: Decision,
        now_ms: int,
    ) -> Steps[Decision]:
        logger.info(
            "Assignment received from leader %s for group %s for generation %d. The group has %d "
            "members, %d of which are static.",
            leader.member_id,
            group.group_id,
            group.generation,
            len(group.members),
            len(group.static),
        )
        assignments = request.assignments
        without = [member_id for member_id in group.members if member_id not in assignments]
        if without:
            logger.warning(
                "Setting empty assignments for members %s of %s for generation %d.",
                without,
                group.group_id,
                group.generation,
            )

        waited: list[tuple[ClassicGroupMember, ReplyFuture]] = []

        def assign(member: ClassicGroupMember) -> None:
            member.assignment = assignments.get(member.member_id, b"")
            future, member.sync = member.sync, None
            if future is not None:
                out.replies.append(Reply(future, _assigned(group, member.assignment)))
                waited.append((member, future))
                # Its session may have expired meanwhile; that is ignored for waiting members.
                group.touch(member, now_ms)

        yield from each(group.members.values(), assign)

        def done() -> None:
            group.enter(GroupState.STABLE, now_ms)
            self._counts.classic_rebalances += 1

        def refused(code: ErrorCode, now_ms: int) -> Decision:
            for member, future in waited:
                member.sync = future
            return self._assignment_not_stored(group, leader, code, now_ms)

        record = yield from group.record()
        self._pending_generations.propose(out, record, done=done, refused=refused)
        return out

    def _assignment_not_stored(
        self, group: ClassicGroup, leader: ClassicGroupMember, code: ErrorCode, now_ms: int
    ) -> Decision:
        out = Decision()
        run_at_once(self._rebalancing.fail_sync(group, code, now_ms, out))
        reason = (
            f"Error {code.name} when storing group assignment during SyncGroup "
            f"(member: {leader.member_id})."
        )
        run_at_once(self._rebalancing.prepare_or_complete(group, reason, now_ms, out))
        return out


def _error_code(group: ClassicGroup, request: SyncRequest) -> ErrorCode | None:
    if group.current is GroupState.EMPTY:
        return ErrorCode.UNKNOWN_MEMBER_ID
    try:
        group.check_member(request.member_id, request.instance_id, "sync-group")
    except ApiError as failure:
        return failure.code
    if request.generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if _differs(request.protocol_type, group.protocol_type or None) or _differs(
        request.protocol, group.protocol
    ):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.current is GroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return None


def _differs(named: str | None, actual: str | None) -> bool:
    return named is not None and actual is not None and named != actual


def _assigned(group: ClassicGroup, assignment: bytes) -> SyncGroupResponse:
    return SyncGroupResponse(0, group.protocol_type, group.protocol, assignment)
