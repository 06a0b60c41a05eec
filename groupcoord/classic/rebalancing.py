"""The rebalance of a classic group. Pure.

It has two phases: all members join (PreparingRebalance), then each syncs its part of the leader's
assignment (CompletingRebalance). Both have timeouts: members that do not join or sync in time are
removed.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from kavka.groupcoord.classic.group import ClassicGroup, Delay, GroupState
from kavka.groupcoord.classic.members import ClassicGroupMember
from kavka.groupcoord.classic.pending_generations import PendingGenerations
from kavka.groupcoord.state import GroupsState
from kavka.log.journal import Decision, Reply, ReplyFuture
from kavka.wire.apis.join_group import JoinedMember, JoinGroupResponse
from kavka.wire.apis.sync_group import SyncGroupResponse
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.steps import Steps, each

logger = logging.getLogger(__name__)

NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 5 * 60 * 1000
"""Session timeout of a new member during its first rebalance. It can't heartbeat, since it does not
know its member id; this limits the wait for a client that has gone."""


class Rebalancing:
    """Rebalance steps of a group; their records and replies are added to a decision (`out`)."""

    def __init__(self, state: GroupsState, pending_generations: PendingGenerations) -> None:
        self._state: Final = state
        self._pending_generations: Final = pending_generations
        self._timers: Final = state.timers

    def prepare_or_complete(
        self, group: ClassicGroup, reason: str, now_ms: int, out: Decision
    ) -> Steps[None]:
        """Start a rebalance; or complete the join phase, if all members have joined."""
        if group.can_rebalance:
            yield from self.prepare(group, reason, now_ms, out)
        else:
            yield from self.complete_if_joined(group, now_ms, out)

    def prepare(self, group: ClassicGroup, reason: str, now_ms: int, out: Decision) -> Steps[None]:
        """Start a rebalance: all members must rejoin."""
        if group.current is GroupState.COMPLETING_REBALANCE:
            yield from self.fail_sync(group, ErrorCode.REBALANCE_IN_PROGRESS, now_ms, out)
        group.pending_sync.clear()
        self._timers.cancel(group.sync_timer)
        is_first = group.current is GroupState.EMPTY
        if is_first:
            self._begin_delay(group, now_ms)
        group.enter(GroupState.PREPARING_REBALANCE, now_ms)
        logger.info(
            "Preparing to rebalance group %s in state %s with old generation %d (reason: %s).",
            group.group_id,
            group.current,
            group.generation,
            reason,
        )
        if is_first:
            return
        if group.all_have_joined:
            yield from self.complete(group, now_ms, out)
        else:
            self._timers.set(group.join_timer, now_ms + group.rebalance_timeout_ms)

    def _begin_delay(self, group: ClassicGroup, now_ms: int) -> None:
        """Start the initial rebalance delay: the group was empty, so more members may join."""
        delay_ms = self._state.settings().group_initial_rebalance_delay_ms
        group.new_member_added = False
        group.delay = Delay(delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0))
        self._timers.set(group.join_timer, now_ms + delay_ms)

    def expire_join(self, group: ClassicGroup, now_ms: int, out: Decision) -> Steps[None]:
        """The join phase has timed out; an initial delay is extended if members keep joining."""
        delay = group.delay
        if delay is None or not group.new_member_added or not delay.remaining_ms:
            yield from self.complete(group, now_ms, out)
            return
        group.new_member_added = False
        settings = self._state.settings()
        next_ms = min(settings.group_initial_rebalance_delay_ms, delay.remaining_ms)
        group.delay = Delay(next_ms, max(delay.remaining_ms - delay.delay_ms, 0))
        self._timers.set(group.join_timer, now_ms + next_ms)

    def complete_if_joined(self, group: ClassicGroup, now_ms: int, out: Decision) -> Steps[None]:
        """Complete the join phase if all have joined; an initial rebalance waits for its delay."""
        if group.current is not GroupState.PREPARING_REBALANCE:
            return
        if group.previous is not GroupState.EMPTY and group.all_have_joined:
            yield from self.complete(group, now_ms, out)
        elif group.joining and group.join_timer not in self._timers:
            self._timers.set(group.join_timer, now_ms + group.rebalance_timeout_ms)

    def complete(self, group: ClassicGroup, now_ms: int, out: Decision) -> Steps[None]:
        """Complete the join phase: the members that have joined form the next generation."""
        if group.current is not GroupState.PREPARING_REBALANCE:
            return
        self._timers.cancel(group.join_timer)
        yield from self._drop_absent(group)
        if group.members and not group.elect_leader():
            logger.error(
                "Group %s could not complete rebalance because no members rejoined.",
                group.group_id,
            )
            # Static members stay until their sessions expire. No join timer is set, since no member
            # waits (with a rebalance timeout of 0 it would expire again and again): the next
            # member that joins sets it, see `complete_if_joined`.
            return
        yield from group.next_generation(now_ms)
        if group.members:
            yield from self._complete_joins(group, now_ms, out)
        else:
            logger.info(
                "Group %s with generation %d is now empty.", group.group_id, group.generation
            )
            self._pending_generations.propose(out, (yield from group.record()))

    def _drop_absent(self, group: ClassicGroup) -> Steps[None]:
        absent = [
            member.member_id
            for member in group.members.values()
            if member.join is None and member.instance_id is None
        ]
        yield from each(absent, group.remove)
        if absent:
            logger.info(
                "Group %s removed dynamic members who haven't joined: %s",
                group.group_id,
                ", ".join(absent),
            )

    def _complete_joins(self, group: ClassicGroup, now_ms: int, out: Decision) -> Steps[None]:
        logger.info(
            "Stabilized group %s generation %d with %d members.",
            group.group_id,
            group.generation,
            len(group.members),
        )
        members = yield from joined_members(group)

        def announce(member: ClassicGroupMember) -> None:
            future = group.set_join_future(member, None)
            if future is not None:
                out.replies.append(Reply(future, join_response(group, member, members)))
            group.touch(member, now_ms)
            member.is_new = False
            group.pending_sync[member.member_id] = None

        yield from each(group.members.values(), announce)
        self._timers.set(group.sync_timer, now_ms + group.rebalance_timeout_ms)

    def expire_sync(self, group: ClassicGroup, now_ms: int, out: Decision) -> Steps[None]:
        """The sync phase has timed out: remove the members that have not synced."""
        late = list(group.pending_sync)
        if not late:
            return
        yield from each(late, group.remove)
        logger.debug(
            "Group %s removed members who haven't sent their sync requests: %s",
            group.group_id,
            late,
        )
        reason = f"Removing [{', '.join(late)}] on pending sync request expiration"
        yield from self.prepare(group, reason, now_ms, out)

    def expire_member(
        self, group: ClassicGroup, member_id: str, now_ms: int, out: Decision
    ) -> Steps[None]:
        """Remove a member whose session has expired, or a pending member that has not rejoined."""
        if member_id in group.pending:
            logger.info(
                "Pending member %s in group %s has been removed after session timeout expiration.",
                member_id,
                group.group_id,
            )
            group.remove(member_id)
            yield from self._completed_by_removal(group, now_ms, out)
            return
        member = group.members.get(member_id)
        if member is None or member.is_waiting:
            return
        logger.info(
            "Member %s in group %s has failed, removing it from the group.",
            member_id,
            group.group_id,
        )
        self.remove_member(group, member, out)
        if group.current is GroupState.PREPARING_REBALANCE:
            yield from self._completed_by_removal(group, now_ms, out)
        else:
            reason = f"removing member {member_id} on heartbeat expiration."
            yield from self.prepare_or_complete(group, reason, now_ms, out)

    def _completed_by_removal(self, group: ClassicGroup, now_ms: int, out: Decision) -> Steps[None]:
        if group.current is GroupState.PREPARING_REBALANCE and group.all_have_joined:
            yield from self.complete(group, now_ms, out)

    def remove_member(self, group: ClassicGroup, member: ClassicGroupMember, out: Decision) -> None:
        """Remove a member; its waiting requests fail with UNKNOWN_MEMBER_ID."""
        self.respond_waiting(group, member, ErrorCode.UNKNOWN_MEMBER_ID, "", out)
        group.remove(member.member_id)

    def respond_waiting(
        self,
        group: ClassicGroup,
        member: ClassicGroupMember,
        code: ErrorCode,
        member_id: str,
        out: Decision,
    ) -> None:
        """Respond to the member's waiting requests with `code`."""
        join, sync = group.set_join_future(member, None), member.sync
        member.sync = None
        if join is not None:
            out.replies.append(Reply(join, join_error(code, member_id)))
        if sync is not None:
            out.replies.append(Reply(sync, SyncGroupResponse(code)))

    def fail_sync(
        self, group: ClassicGroup, code: ErrorCode, now_ms: int, out: Decision
    ) -> Steps[None]:
        """Clear all assignments; waiting SyncGroups fail with `code`."""

        def fail(member: ClassicGroupMember) -> None:
            member.assignment = b""
            future, member.sync = member.sync, None
            if future is not None:
                out.replies.append(Reply(future, SyncGroupResponse(code)))
                group.touch(member, now_ms)

        yield from each(group.members.values(), fail)


def join_response(
    group: ClassicGroup,
    member: ClassicGroupMember,
    members: Sequence[JoinedMember] = (),
    *,
    skips: bool = False,
) -> JoinGroupResponse:
    """The response to a member of the current generation; the leader gets all `members`."""
    return JoinGroupResponse(
        member.member_id,
        0,
        group.generation,
        group.protocol_type,
        group.protocol,
        group.leader or "",
        skips,
        members if group.leader == member.member_id else (),
    )


def joined_members(group: ClassicGroup) -> Steps[Sequence[JoinedMember]]:
    """All members, as in the leader's response."""
    members: list[JoinedMember] = []

    def add(member: ClassicGroupMember) -> None:
        metadata = member.metadata(group.protocol)
        members.append(JoinedMember(member.member_id, member.instance_id, metadata))

    yield from each(group.members.values(), add)
    return members


def join_error(code: ErrorCode, member_id: str = "") -> JoinGroupResponse:
    """The response to a member that can't join."""
    return JoinGroupResponse(member_id, code)


def with_error_reply(out: Decision, future: ReplyFuture) -> Decision:
    """Make `out` fail only the request of `future` if its records can't be appended; the other
    requests still get their replies."""

    def refused(code: ErrorCode, now_ms: int) -> Decision:
        failure = ApiError(code)
        return Decision(
            replies=[
                Reply(reply_future, failure if reply_future is future else response)
                for reply_future, response in out.replies
            ]
        )

    if out.records and out.on_failure is None:
        out.on_failure = refused
    return out
