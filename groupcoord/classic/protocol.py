"""All classic groups of one partition of `__consumer_offsets`. Pure.

The behaviour is that of Apache Kafka's GroupMetadataManager. The partition's shard dispatches
requests by the kind of group.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Hashable, Iterator
from typing import Final

from kavka.groupcoord.classic.group import ClassicGroup, GroupState, empty_group_record
from kavka.groupcoord.classic.group_records import NO_TIME, decode, decode_key, protocol_type_of
from kavka.groupcoord.classic.group_requests import (
    LEAVING_MEMBERS_PER_STEP,
    HeartbeatRequest,
    JoinRequest,
    LeaveRequest,
    LeavingMember,
    SyncRequest,
)
from kavka.groupcoord.classic.joining import Joining
from kavka.groupcoord.classic.pending_generations import PendingGenerations
from kavka.groupcoord.classic.rebalancing import (
    Rebalancing,
    join_error,
    with_error_reply,
)
from kavka.groupcoord.classic.syncing import Syncing
from kavka.groupcoord.state import GroupsState
from kavka.log.journal import Decision, DecisionOrSteps, JournalRecord, Reply, ReplyFuture
from kavka.wire.apis.leave_group import LeaveGroupResponse, LeftMember
from kavka.wire.apis.sync_group import SyncGroupResponse
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.steps import PauseCounter, Steps, each

logger = logging.getLogger(__name__)

_GROUP_COST: Final = 20
_BYTES_OF_ONE: Final = 8
"""`PauseCounter` items that decoding a group's record counts as, and record bytes that count as
one more."""


class ClassicProtocol:
    """Requests to classic groups, their records and their timers."""

    def __init__(self, state: GroupsState) -> None:
        self._state: Final = state
        self._pending_generations: Final = PendingGenerations()
        self._rebalancing: Final = Rebalancing(state, self._pending_generations)
        self._joining: Final = Joining(state, self._rebalancing, self._pending_generations)
        self._syncing: Final = Syncing(state, self._rebalancing, self._pending_generations)
        self._undecoded: Final[dict[str, bytes]] = {}
        """Replayed values by group id, decoded when the partition is led: each generation rewrites
        the whole group, and only the last value counts."""

    def _group(self, group_id: str) -> ClassicGroup | None:
        group = self._state.groups.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    def simple_group(self, group_id: str) -> ClassicGroup:
        """A new group that only stores offsets, of consumers that assign partitions themselves. It
        is not registered yet."""
        return ClassicGroup(group_id, self._state.timers, NO_TIME)

    # Requests.

    def join(self, request: JoinRequest, future: ReplyFuture, now_ms: int) -> DecisionOrSteps:
        """Replies with a JoinGroupResponse when the rebalance completes.

        A consumer group of that name must be empty; it is replaced by a classic one.
        """
        group = self._group(request.group_id)
        if group is not None:
            return self._joining.join(group, request, future, now_ms)
        if request.member_id:
            code = ErrorCode.UNKNOWN_MEMBER_ID
            return Decision(replies=[Reply(future, join_error(code, request.member_id))])
        return self._join_new_group(request, future, now_ms)

    def _join_new_group(
        self, request: JoinRequest, future: ReplyFuture, now_ms: int
    ) -> Steps[Decision]:
        """A new group is first stored without members; only then are requests answered."""
        groups = self._state.groups
        other = groups.get(request.group_id)
        group = ClassicGroup(request.group_id, self._state.timers, now_ms)
        record = empty_group_record(group)
        out = yield from self._joining.join(group, request, future, now_ms)

        def done() -> None:
            groups[group.group_id] = group

        def refused(code: ErrorCode, now_ms: int) -> Decision:
            logger.warning(
                "Failed to write empty metadata for group %s: %s", group.group_id, code.name
            )
            group.cancel_timers()
            return Decision(replies=[Reply(future, ApiError(code))])

        out.records = other.tombstones() if other is not None else ()
        self._pending_generations.propose(out, record, done=done, refused=refused)
        return out

    def sync(self, request: SyncRequest, future: ReplyFuture, now_ms: int) -> DecisionOrSteps:
        """Replies with a SyncGroupResponse after the leader's SyncGroup."""
        group = self._group(request.group_id)
        if group is None:
            response = SyncGroupResponse(ErrorCode.UNKNOWN_MEMBER_ID)
            return Decision(replies=[Reply(future, response)])
        return self._syncing.sync(group, request, future, now_ms)

    def heartbeat(self, request: HeartbeatRequest, now_ms: int) -> ErrorCode:
        """The error code of the response."""
        group_id, generation, member_id, instance_id = request
        group = self._state.groups.get(group_id)
        if not isinstance(group, ClassicGroup):
            return ErrorCode.UNKNOWN_MEMBER_ID
        member = group.members.get(member_id)
        if member is None or instance_id is not None:
            try:
                group.check_member(member_id, instance_id, "heartbeat")
            except ApiError as failure:
                return failure.code
            member = group.members[member_id]
        if generation != group.generation:
            return ErrorCode.ILLEGAL_GENERATION
        group.touch(member, now_ms)
        if group.current is GroupState.PREPARING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def leave(self, request: LeaveRequest, future: ReplyFuture, now_ms: int) -> Steps[Decision]:
        """Replies with a LeaveGroupResponse with an error code for each leaving member."""
        group = self._group(request.group_id)
        out = Decision()
        responses: list[LeftMember] = []

        def leave(leaving: LeavingMember) -> None:
            code = ErrorCode.UNKNOWN_MEMBER_ID
            if group is not None:
                code = self._leave(group, leaving, out)
            responses.append(LeftMember(leaving.member_id, leaving.instance_id, code))

        yield from each(request.leaving_members, leave, LEAVING_MEMBERS_PER_STEP)
        out.replies.append(Reply(future, LeaveGroupResponse(0, responses)))
        left = [response.member_id for response in responses if not response.error_code]
        if group is None or not left or group.current is GroupState.EMPTY:
            return out
        reason = f"explicit `LeaveGroup` request for ({', '.join(left)}) members."
        yield from self._rebalancing.prepare_or_complete(group, reason, now_ms, out)
        return with_error_reply(out, future)

    def _leave(self, group: ClassicGroup, leaving: LeavingMember, out: Decision) -> ErrorCode:
        member_id, instance_id, reason = leaving
        reason = reason or "not provided"
        if not member_id:
            # From an admin client: the current member with that instance id.
            member_id = group.static.get(instance_id, "") if instance_id is not None else ""
        elif member_id in group.pending:
            group.remove(member_id)
            logger.info(
                "[Group %s] Pending member %s has left group through explicit `LeaveGroup` "
                "request; client reason: %s",
                group.group_id,
                member_id,
                reason,
            )
            return ErrorCode.NONE
        try:
            group.check_member(member_id, instance_id, "leave-group")
        except ApiError as failure:
            return failure.code
        logger.info(
            "[Group %s] Member %s has left group through explicit `LeaveGroup` request; client "
            "reason: %s",
            group.group_id,
            member_id,
            reason,
        )
        self._rebalancing.remove_member(group, group.members[member_id], out)
        return ErrorCode.NONE

    # What happens without requests.

    def expire(self, key: Hashable, now_ms: int) -> DecisionOrSteps:
        """Handle an expired timer of a classic group."""
        assert isinstance(key, tuple)
        _, timer_kind, group_id, member_id = key
        group = self._group(group_id)
        out = Decision()
        if group is None:
            return out
        return self._expire(group, timer_kind, member_id, now_ms, out)

    def _expire(
        self, group: ClassicGroup, timer_kind: str, member_id: str, now_ms: int, out: Decision
    ) -> Steps[Decision]:
        if timer_kind == "member":
            yield from self._rebalancing.expire_member(group, member_id, now_ms, out)
        elif timer_kind == "join":
            yield from self._rebalancing.expire_join(group, now_ms, out)
        else:
            yield from self._rebalancing.expire_sync(group, now_ms, out)
        return out

    def prepare_rebalance(self, group: ClassicGroup, reason: str, now_ms: int) -> Steps[Decision]:
        """Trigger a rebalance for an external reason."""
        out = Decision()
        yield from self._rebalancing.prepare(group, reason, now_ms, out)
        return out

    # Records.

    def apply(self, version: int, record: JournalRecord) -> None:
        """Apply a record with a key of version 2. A replayed group has no members until it is
        `loaded`."""
        if self._pending_generations.applied(record):
            return
        group_id = decode_key(record.key)
        if group_id is None:
            return
        known = self._group(group_id)
        if known is not None:
            known.cancel_timers()
            del self._state.groups[group_id]
        self._undecoded.pop(group_id, None)
        if record.value is None:
            return
        protocol_type = protocol_type_of(record.value)
        if protocol_type is None:
            _warn_unreadable(group_id)
            return
        self._state.groups[group_id] = group = self.simple_group(group_id)
        group.protocol_type = protocol_type
        self._undecoded[group_id] = record.value

    def loaded(self, now_ms: int) -> Iterator[Decision]:
        """All records are replayed: decode the groups and start their members' sessions."""
        for _ in self.decode_replayed():
            yield Decision()
        groups = [group for group in self._state.groups.values() if isinstance(group, ClassicGroup)]
        for group in groups:
            if group.members:
                yield from self._start_sessions(group, now_ms)

    def decode_replayed(self) -> Steps[None]:
        """Restore the groups from the replayed values."""
        pauses = PauseCounter()
        for group_id, value in self._undecoded.items():
            group = self._group(group_id)
            if group is not None:
                yield from self._read(group, value)
            if pauses.is_due(_GROUP_COST + len(value) // _BYTES_OF_ONE):
                yield None
        self._undecoded.clear()

    def _read(self, group: ClassicGroup, value: bytes) -> Steps[None]:
        stored = yield from decode(value)
        if stored is not None:
            yield from group.restore(stored)
        else:  # it stays as a group that only stores offsets
            _warn_unreadable(group.group_id)
            group.protocol_type = ""

    def _start_sessions(self, group: ClassicGroup, now_ms: int) -> Iterator[Decision]:
        """Start the sessions of a replayed group, and rebalance it if it is oversized."""
        out = Decision()
        size, size_max = len(group.members), self._state.settings().group_max_size
        logger.info("Loaded classic group %s with %d members.", group.group_id, size)
        for _ in each(group.members.values(), lambda member: group.touch(member, now_ms)):
            yield Decision()
        if size > size_max:
            reason = (
                f"Freshly-loaded group {group.group_id} (size {size}) is over capacity "
                f"{size_max}. Rebalancing in order to give a chance for consumers to commit "
                "offsets"
            )
            for _ in self._rebalancing.prepare(group, reason, now_ms, out):
                yield Decision()
        yield out

    def adopt(
        self, group: ClassicGroup, out: Decision, reason: str | None, now_ms: int
    ) -> Steps[None]:
        """Replace a consumer group by this classic one when `out` is in the log; if there is a
        `reason`, start a rebalance."""
        yield from each(group.members.values(), lambda member: group.touch(member, now_ms))
        record = yield from group.record()
        if reason is not None:
            yield from self._rebalancing.prepare(group, reason, now_ms, out)

        def done() -> None:
            self._state.groups[group.group_id] = group

        self._pending_generations.propose(out, record, done=done)

    def metadata_changed(self, topics: Collection[str], now_ms: int) -> Iterator[Decision]:
        """Classic members detect topic changes themselves."""
        return iter(())

    def fail_waiting_requests(
        self, group: ClassicGroup, code: ErrorCode, now_ms: int
    ) -> list[Reply]:
        """Fail the waiting JoinGroup and SyncGroup requests with `code`, since the group is about
        to be converted to a consumer group; the replies. Restart the session timeouts of their
        members, which stay in the group if the conversion fails."""
        out = Decision()
        for member in group.members.values():
            if member.join is not None or member.sync is not None:
                group.touch(member, now_ms)
                self._rebalancing.respond_waiting(group, member, code, member.member_id, out)
        return out.replies

    def futures(self) -> list[ReplyFuture]:
        """All waiting requests of classic groups."""
        return [
            future
            for group in self._state.groups.values()
            if isinstance(group, ClassicGroup)
            for member in group.members.values()
            for future in (member.join, member.sync)
            if future is not None
        ]


def _warn_unreadable(group_id: str) -> None:
    logger.warning("Skipped the record of group %s: it can't be read.", group_id)
