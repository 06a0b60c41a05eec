"""Classic groups without a broker: their machine under a journal, a partition, and a clock."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random as SeededRandom
from typing import Any
from uuid import UUID

from kavka.groupcoord.classic.group import ClassicGroup, GroupState
from kavka.groupcoord.classic.group_records import StoredGroup, decode
from kavka.groupcoord.classic.group_requests import (
    HeartbeatRequest,
    JoinRequest,
    LeaveRequest,
    LeavingMember,
    SyncRequest,
)
from kavka.groupcoord.classic.members import ClassicGroupMember, OfferedProtocol, member_timer
from kavka.groupcoord.classic.membership import Membership, membership_of
from kavka.groupcoord.shard import GroupShard
from kavka.groupcoord.state import GroupsState, Topics
from kavka.log.journal import ReplyFuture
from kavka.seams import Random
from kavka.wire.errors import ErrorCode
from kavka.wire.steps import run_at_once
from support.group_settings import ConsumerGroupSettings
from support.journal_kit import CountedReply, JournalKit

SESSION_MS = 10_000
REBALANCE_MS = 60_000
DELAY_MS = 3_000


def reading(*topics: str, user_data: bytes = b"") -> bytes:
    """The metadata of a consumer that subscribes to `topics`, in version 0 of its protocol."""
    names = b"".join(struct.pack(">h", len(topic)) + topic.encode() for topic in topics)
    data = struct.pack(">i", len(user_data)) + user_data
    return struct.pack(">hi", 0, len(topics)) + names + data


RANGE = (OfferedProtocol("range", reading("t")),)
STICKY = (OfferedProtocol("sticky", reading("t", user_data=b"sticky")),)
BOTH = RANGE + STICKY


@dataclass
class Settings(ConsumerGroupSettings):
    """`kavka.groupcoord.settings.GroupSettings`."""

    group_initial_rebalance_delay_ms: int = DELAY_MS
    group_max_size: int = 2**31 - 1
    offset_metadata_max_bytes: int = 4096
    offsets_retention_minutes: int = 10_080
    offsets_retention_check_interval_ms: int = 600_000


class NoTopics:
    """`kavka.groupcoord.state.Topics` of a cluster without any."""

    def names(self) -> list[str]:
        return []

    def partition_count(self, topic: str) -> int | None:
        return None

    def topic_id(self, topic: str) -> UUID | None:
        return None

    def topic_name(self, topic_id: UUID) -> str | None:
        return None

    def racks(self, topic: str, partition: int) -> list[str]:
        return []


class ClassicKit(JournalKit[GroupShard]):
    """The groups of one partition."""

    def __init__(
        self, *, random: Random | None = None, topics: Topics | None = None, **settings: Any
    ) -> None:
        self.settings = Settings(**settings)
        self.topics = NoTopics() if topics is None else topics
        self.random = SeededRandom(1) if random is None else random
        self.memberships: dict[tuple[GroupShard, HeartbeatRequest], Membership] = {}
        """The fast path of each Heartbeat that was answered without an error."""
        self.fast_heartbeats = 0
        """How many were answered by these."""
        super().__init__()

    def new_shard(self) -> GroupShard:
        return GroupShard(GroupsState(lambda: self.settings, self.topics, self.random))

    def replayed(self) -> GroupShard:
        shard = super().replayed()
        run_at_once(shard.classic.decode_replayed())
        return shard

    # -- requests

    def _ask(self, request: Any, kind: str) -> CountedReply:
        """Any request; `kind` is the name of the method."""
        handler = self.shard.classic_requests_for(request.group_id, self.now_ms)
        return self.ask(partial(getattr(handler, kind), request))

    def join(
        self,
        member_id: str = "",
        *,
        group_id: str = "g",
        instance_id: str | None = None,
        client_id: str = "c",
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
        kind: str = "consumer",
        protocols: Sequence[OfferedProtocol] = RANGE,
        version: int = 9,
    ) -> CountedReply:
        """One JoinGroup."""
        request = JoinRequest(
            group_id, member_id, instance_id, client_id, "/127.0.0.1", session_ms, rebalance_ms,
            kind, protocols, None, version,
        )  # fmt: skip
        return self._ask(request, "join")

    def join_twice(self, **more: Any) -> tuple[str, CountedReply]:
        """JoinGroup of a new dynamic member, and again with the id that it is given; both."""
        first = self.join(**more).response
        assert first.error_code == ErrorCode.MEMBER_ID_REQUIRED
        return first.member_id, self.join(first.member_id, **more)

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: Mapping[str, bytes] | None = None,
        *,
        group_id: str = "g",
        instance_id: str | None = None,
        kind: str | None = "consumer",
        protocol: str | None = "range",
    ) -> CountedReply:
        """One SyncGroup."""
        request = SyncRequest(
            group_id, generation, member_id, instance_id, kind, protocol, assignments or {}
        )
        return self._ask(request, "sync")

    def beat(
        self, member_id: str, generation: int, instance_id: str | None = None, group_id: str = "g"
    ) -> ErrorCode:
        """One Heartbeat, to which the fast path of the one before must give the same response."""
        request = HeartbeatRequest(group_id, generation, member_id, instance_id)
        shard, timer = self.shard, member_timer(group_id, member_id)
        remembered = self.memberships.get((shard, request))
        is_fast = remembered is not None and remembered.heartbeat(self.now_ms)
        before = shard.timers.at(timer)
        code = shard.classic_requests_for(group_id, self.now_ms).heartbeat(request, self.now_ms)
        if is_fast:
            assert (code, before) == (ErrorCode.NONE, shard.timers.at(timer))
            self.fast_heartbeats += 1
        elif code is ErrorCode.NONE:
            membership = membership_of(shard.state, request)
            if membership is not None:
                self.memberships[shard, request] = membership
        return code

    def leave(self, *leaving_members: LeavingMember | str, group_id: str = "g") -> CountedReply:
        """One LeaveGroup."""
        named = [
            member if isinstance(member, LeavingMember) else LeavingMember(member)
            for member in leaving_members
        ]
        return self._ask(LeaveRequest(group_id, named), "leave")

    # -- groups

    def form(self, *protocols: Sequence[OfferedProtocol], **more: Any) -> list[str]:
        """A stable group of dynamic members; their ids, the leader's first."""
        futures = [self.join_twice(protocols=offered, **more) for offered in protocols or (RANGE,)]
        self.advance(self.settings.group_initial_rebalance_delay_ms)
        while not all(future.is_complete for _, future in futures):
            self.advance(self.settings.group_initial_rebalance_delay_ms)
        ids = [member_id for member_id, _ in futures]
        self.sync_all(
            ids, {member_id: f"of {index}".encode() for index, member_id in enumerate(ids)}
        )
        assert self.group.current is GroupState.STABLE
        return ids

    def sync_all(self, ids: Sequence[str], assignments: Mapping[str, bytes]) -> None:
        """All members sync, the leader with the assignments."""
        group = self.group
        for member_id in ids:
            own = assignments if member_id == group.leader else None
            self.sync(member_id, group.generation, own, protocol=group.protocol)

    @property
    def group(self) -> ClassicGroup:
        """The group "g"."""
        group = self.shard.state.groups["g"]
        assert isinstance(group, ClassicGroup)
        return group


def big_group(kit: ClassicKit, members: int) -> ClassicGroup:
    """A stable group with this number of members, not registered yet."""
    group = ClassicGroup("g", kit.shard.timers, kit.now_ms)
    for number in range(members):
        member = ClassicGroupMember(
            "g", f"m{number}", None, "c", "/h", REBALANCE_MS, SESSION_MS, BOTH
        )
        group.add(member, "consumer", None)
    group.current, group.protocol = GroupState.STABLE, "range"
    return group


def code_of(future: ReplyFuture) -> ErrorCode:
    """The error code of the response, or that of the failure."""
    assert future.is_complete, "no response yet"
    if future.failure is not None:
        return future.failure.code
    return ErrorCode(getattr(future.response, "error_code", future.response))


def assert_sound(group: ClassicGroup, kit: ClassicKit) -> None:
    """What holds for every group between two requests."""
    timers, members, state = kit.shard.timers, group.members, group.current
    joins = [member for member in members.values() if member.join is not None]
    assert group.joining == len(joins)
    assert group.static == {
        member.instance_id: member.member_id
        for member in members.values()
        if member.instance_id is not None
    }
    assert (group.leader in members) if members else group.leader is None
    assert not set(group.pending) & set(members)
    for member in members.values():
        assert member.is_waiting or member.timer in timers, f"{member.member_id} never expires"
    assert all(member_timer(group.group_id, member_id) in timers for member_id in group.pending)
    if state is not GroupState.PREPARING_REBALANCE:
        assert (state is GroupState.EMPTY) == (not members)
        assert group.join_timer not in timers
        assert not joins
    else:
        assert not joins or group.join_timer in timers, "they would wait without an end"
        assert not group.pending_sync
    assert set(group.pending_sync) <= set(members)
    assert (group.sync_timer in timers) == bool(group.pending_sync)
    if state is not GroupState.COMPLETING_REBALANCE:
        assert all(member.sync is None for member in members.values())
    else:
        assert members[group.leader or ""].sync is None, "all wait for the leader's"
    if members:
        assert run_at_once(group.choose_protocol()) is not None


def assert_replayed(group: ClassicGroup, kit: ClassicKit) -> None:
    """A stable group, and an empty one that is stored, are as they are read from the log."""
    if group.current not in (GroupState.STABLE, GroupState.EMPTY):
        return
    stored = kit.replayed().state.groups[group.group_id]
    assert isinstance(stored, ClassicGroup)
    if group.current is GroupState.STABLE or stored.generation == group.generation:
        assert _stored(stored) == _stored(group)


def _stored(group: ClassicGroup) -> StoredGroup:
    """What a group's record says, without when it became stable: that is after the record."""
    found = run_at_once(decode(run_at_once(group.record()).value or b""))
    assert found is not None
    return found._replace(since_ms=0) if group.members else found
