"""JoinGroup to a classic group: new, rejoining and static members. Pure."""

from __future__ import annotations

import logging
from typing import Final
from uuid import UUID

from kavka.groupcoord.classic.group import ClassicGroup, GroupState
from kavka.groupcoord.classic.group_requests import JoinRequest
from kavka.groupcoord.classic.members import ClassicGroupMember, member_timer
from kavka.groupcoord.classic.pending_generations import PendingGenerations
from kavka.groupcoord.classic.rebalancing import (
    NEW_MEMBER_JOIN_TIMEOUT_MS,
    Rebalancing,
    join_error,
    join_response,
    joined_members,
    with_error_reply,
)
from kavka.groupcoord.state import GroupsState
from kavka.log.journal import Decision, Reply, ReplyFuture
from kavka.wire.apis.join_group import JoinGroupResponse
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.steps import Steps

logger = logging.getLogger(__name__)

_MEMBER_ID_REQUIRED_SINCE: Final = 4
"""From this version on a new member must rejoin with its member id (KIP-394)."""

PENDING_MAX: Final = 10_000
"""Limit of a group's pending members; beyond it the oldest is removed, and its client is given
another id. Apache Kafka keeps all of them for the session timeout."""

_SKIPS_ASSIGNMENT_SINCE: Final = 9
"""From this version on a static leader can be asked to skip the assignment (KIP-814)."""


class Joining:
    """Handles JoinGroup."""

    def __init__(
        self, state: GroupsState, rebalancing: Rebalancing, pending_generations: PendingGenerations
    ) -> None:
        self._state: Final = state
        self._rebalancing: Final = rebalancing
        self._pending_generations: Final = pending_generations

    def join(
        self, group: ClassicGroup, request: JoinRequest, future: ReplyFuture, now_ms: int
    ) -> Steps[Decision]:
        """Join a member; the response comes now or when the rebalance completes. The group may be
        a new one that is not registered yet."""
        out = Decision()
        if not self._has_room(group, request.member_id):
            group.remove(request.member_id)
            _refuse(out, future, ErrorCode.GROUP_MAX_SIZE_REACHED)
            yield from self._rebalancing.complete_if_joined(group, now_ms, out)
        elif not group.supports(request.protocol_type, request.protocols):
            _refuse(out, future, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request.member_id)
        elif not request.member_id:
            yield from self._join_new(group, request, future, now_ms, out)
        elif request.member_id in group.pending:
            yield from self._join_pending(group, request, future, now_ms, out)
        else:
            yield from self._join_known(group, request, future, now_ms, out)
        return with_error_reply(out, future)

    def _has_room(self, group: ClassicGroup, member_id: str) -> bool:
        """During a rebalance only members that have rejoined count, so that the last members of an
        oversized group are rejected."""
        size_max = self._state.settings().group_max_size
        if group.current is GroupState.EMPTY:
            return True
        member = group.members.get(member_id)
        if group.current is GroupState.PREPARING_REBALANCE:
            return (member is not None and member.join is not None) or group.joining < size_max
        return member is not None or len(group.members) < size_max

    def _new_id(self, prefix: str) -> str:
        return f"{prefix}-{UUID(int=self._state.random.getrandbits(128), version=4)}"

    def _join_new(
        self,
        group: ClassicGroup,
        request: JoinRequest,
        future: ReplyFuture,
        now_ms: int,
        out: Decision,
    ) -> Steps[None]:
        if request.instance_id is not None:
            yield from self._join_static(group, request, future, now_ms, out)
            return
        member_id = self._new_id(request.client_id)
        if request.version < _MEMBER_ID_REQUIRED_SINCE:
            logger.info(
                "Dynamic member with unknown member id joins group %s in state %s. Created a new "
                "member id %s and added the member to the group.",
                group.group_id,
                group.current,
                member_id,
            )
            yield from self._add(group, member_id, request, future, now_ms, out)
            return
        logger.info(
            "Dynamic member with unknown member id joins group %s in %s state. Created a new "
            "member id %s and requesting the member to rejoin with this id.",
            group.group_id,
            group.current,
            member_id,
        )
        if len(group.pending) >= PENDING_MAX:
            group.remove(next(iter(group.pending)))
        group.pending[member_id] = None
        timer = member_timer(group.group_id, member_id)
        self._state.timers.set(timer, now_ms + request.session_timeout_ms)
        _refuse(out, future, ErrorCode.MEMBER_ID_REQUIRED, member_id)

    def _join_static(
        self,
        group: ClassicGroup,
        request: JoinRequest,
        future: ReplyFuture,
        now_ms: int,
        out: Decision,
    ) -> Steps[None]:
        instance_id = request.instance_id or ""
        known = group.static.get(instance_id)
        member_id = self._new_id(instance_id)
        if known is None:
            logger.info(
                "Static member with groupInstanceId=%s and unknown member id joins group %s in %s "
                "state. Created a new member id %s for this member and added to the group.",
                instance_id,
                group.group_id,
                group.current,
                member_id,
            )
            yield from self._add(group, member_id, request, future, now_ms, out)
            return
        logger.info(
            "Static member with groupInstanceId=%s and unknown member id joins group %s in %s "
            "state. Replacing previously mapped member %s with this groupInstanceId.",
            instance_id,
            group.group_id,
            group.current,
            known,
        )
        old = group.members[known]
        new = _with_member_id(group.group_id, old, member_id)
        code = ErrorCode.FENCED_INSTANCE_ID
        self._rebalancing.respond_waiting(group, old, code, known, out)
        was_leader = group.leader
        group.replace(old, new)
        self._update(group, new, request)
        group.touch(new, now_ms)
        if group.current is GroupState.STABLE:
            if (yield from group.choose_protocol()) == group.protocol:
                yield from self._keep_generation(
                    group, old, new, was_leader, request, future, now_ms, out
                )
                return
            reason = (
                f"Group's selectedProtocol will change because static member {member_id} with "
                f"instance id {instance_id} joined with change of protocol; "
                f"client reason: {_reason(request)}"
            )
        else:
            # The leader may know only the old id, and assign partitions to that.
            reason = (
                f"Updating metadata for static member {member_id} with instance id "
                f"{instance_id}; client reason: {_reason(request)}"
            )
        group.set_join_future(new, future)
        yield from self._rebalancing.prepare_or_complete(group, reason, now_ms, out)

    def _keep_generation(
        self,
        group: ClassicGroup,
        old: ClassicGroupMember,
        new: ClassicGroupMember,
        was_leader: str | None,
        request: JoinRequest,
        future: ReplyFuture,
        now_ms: int,
        out: Decision,
    ) -> Steps[None]:
        """A static member rejoins without changes: only its new member id is stored."""
        logger.info(
            "Static member which joins during Stable stage and doesn't affect the selected "
            "protocol will not trigger a rebalance."
        )
        if request.version >= _SKIPS_ASSIGNMENT_SINCE:
            leads = group.leader == new.member_id
            members = (yield from joined_members(group)) if leads else ()
            response = join_response(group, new, members, skips=leads)
        else:
            # If it believed to be the leader it would compute an assignment that is not used.
            response = join_response(group, new)
            response.leader = was_leader or ""
        out.replies.append(Reply(future, response))

        def refused(code: ErrorCode, now_ms: int) -> Decision:
            logger.warning(
                "Failed to persist metadata for group %s static member %s with group instance id "
                "%s due to %s. Reverting to old member id %s.",
                group.group_id,
                new.member_id,
                new.instance_id,
                code.name,
                old.member_id,
            )
            group.update(new, old.protocols, old.rebalance_timeout_ms, old.session_timeout_ms)
            group.replace(new, old)
            group.touch(old, now_ms)
            failed = join_response(group, new)
            failed.member_id, failed.error_code = "", code
            return Decision(replies=[Reply(future, failed)])

        self._pending_generations.propose(out, (yield from group.record()), refused=refused)

    def _join_pending(
        self,
        group: ClassicGroup,
        request: JoinRequest,
        future: ReplyFuture,
        now_ms: int,
        out: Decision,
    ) -> Steps[None]:
        if request.instance_id is not None:
            # Static members are never asked to rejoin with an id, so this can't be one.
            _refuse(out, future, ErrorCode.UNKNOWN_SERVER_ERROR)
            return
        logger.info(
            "Pending dynamic member with id %s joins group %s in %s state. Adding to the group "
            "now.",
            request.member_id,
            group.group_id,
            group.current,
        )
        yield from self._add(group, request.member_id, request, future, now_ms, out)

    def _add(
        self,
        group: ClassicGroup,
        member_id: str,
        request: JoinRequest,
        future: ReplyFuture,
        now_ms: int,
        out: Decision,
    ) -> Steps[None]:
        member = ClassicGroupMember(
            group.group_id,
            member_id,
            request.instance_id,
            request.client_id,
            request.client_host,
            request.rebalance_timeout_ms,
            request.session_timeout_ms,
            request.protocols,
        )
        member.is_new = True
        if group.current is GroupState.PREPARING_REBALANCE and group.previous is GroupState.EMPTY:
            group.new_member_added = True
        group.add(member, request.protocol_type, future)
        group.touch(member, now_ms, NEW_MEMBER_JOIN_TIMEOUT_MS)
        reason = (
            f"Adding new member {member_id} with group instance id {request.instance_id}; "
            f"client reason: {_reason(request)}"
        )
        yield from self._rebalancing.prepare_or_complete(group, reason, now_ms, out)

    def _join_known(
        self,
        group: ClassicGroup,
        request: JoinRequest,
        future: ReplyFuture,
        now_ms: int,
        out: Decision,
    ) -> Steps[None]:
        member_id = request.member_id
        try:
            group.check_member(member_id, request.instance_id, "join-group")
        except ApiError as failure:
            _refuse(out, future, failure.code, member_id)
            return
        member = group.members[member_id]
        why = self._rejoins_because(group, member, request)
        if why is None:
            # It may be a retry after a lost response, or a follower that checks for changes.
            out.replies.append(Reply(future, (yield from _current_generation(group, member))))
            return
        self._update(group, member, request)
        waited = group.set_join_future(member, future)
        if waited is not None:
            response = join_error(ErrorCode.REBALANCE_IN_PROGRESS, member_id)
            out.replies.append(Reply(waited, response))
        reason = f"{why}; client reason: {_reason(request)}"
        yield from self._rebalancing.prepare_or_complete(group, reason, now_ms, out)

    def _rejoins_because(
        self, group: ClassicGroup, member: ClassicGroupMember, request: JoinRequest
    ) -> str | None:
        """Why a rejoining member needs a rebalance; None if it does not."""
        if group.current is GroupState.PREPARING_REBALANCE:
            return f"Member {member.member_id} is joining group during {group.current}"
        if group.current is GroupState.STABLE and group.leader == member.member_id:
            # A leader may rejoin to change the assignment, with unchanged metadata.
            return f"Leader {member.member_id} re-joining group during {group.current}"
        if tuple(member.protocols) != tuple(request.protocols):
            return f"Updating metadata for member {member.member_id} during {group.current}"
        return None

    def _update(
        self, group: ClassicGroup, member: ClassicGroupMember, request: JoinRequest
    ) -> None:
        group.update(
            member, request.protocols, request.rebalance_timeout_ms, request.session_timeout_ms
        )


def _current_generation(
    group: ClassicGroup, member: ClassicGroupMember
) -> Steps[JoinGroupResponse]:
    assigns = group.leader == member.member_id and group.current is not GroupState.STABLE
    return join_response(group, member, (yield from joined_members(group)) if assigns else ())


def _with_member_id(
    group_id: str, member: ClassicGroupMember, member_id: str
) -> ClassicGroupMember:
    """The same member with another member id."""
    return ClassicGroupMember(
        group_id,
        member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        member.session_timeout_ms,
        member.protocols,
        member.assignment,
    )


def _reason(request: JoinRequest) -> str:
    return request.reason or "not provided"


def _refuse(out: Decision, future: ReplyFuture, code: ErrorCode, member_id: str = "") -> None:
    out.replies.append(Reply(future, join_error(code, member_id)))
