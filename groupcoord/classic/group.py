"""A classic group: its members, state, and validity checks. Pure.

State transitions are in `rebalancing`. A group's last record has its durable state; the rest (who
has joined since, which requests wait) is lost when the coordinator moves, as with Apache Kafka,
and members notice by their next request.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from kavka.groupcoord.classic.group_records import (
    StoredGroup,
    StoredMember,
    group_record,
    tombstone,
)
from kavka.groupcoord.classic.members import (
    ClassicGroupMember,
    OfferedProtocol,
    TimerKey,
    member_timer,
    restored_member,
)
from kavka.groupcoord.classic.subscription import CONSUMER, topics_of_all
from kavka.log.journal import JournalRecord, ReplyFuture
from kavka.log.timers import Timers
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.steps import Steps, each, run_at_once

logger = logging.getLogger(__name__)


class GroupState(StrEnum):
    """As in ListGroups. Groups in state "Dead" do not exist here."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"


_COMES_FROM: Final[Mapping[GroupState, tuple[GroupState, ...]]] = {
    GroupState.EMPTY: (GroupState.PREPARING_REBALANCE,),
    GroupState.PREPARING_REBALANCE: (
        GroupState.STABLE,
        GroupState.COMPLETING_REBALANCE,
        GroupState.EMPTY,
    ),
    GroupState.COMPLETING_REBALANCE: (GroupState.PREPARING_REBALANCE,),
    GroupState.STABLE: (GroupState.COMPLETING_REBALANCE,),
}


class Delay(NamedTuple):
    """The initial rebalance delay of a group, in which more members may join."""

    delay_ms: int
    remaining_ms: int
    """By how much it may be extended afterwards."""


class ClassicGroup:
    """One group; see `kavka.groupcoord.group.Group` for what all kinds have in common."""

    __slots__ = (
        "_support",
        "_timers",
        "current",
        "delay",
        "generation",
        "group_id",
        "new_member_added",
        "join_timer",
        "joining",
        "leader",
        "members",
        "pending",
        "previous",
        "protocol",
        "protocol_type",
        "since_ms",
        "static",
        "sync_timer",
        "topics",
        "pending_sync",
    )

    def __init__(self, group_id: str, timers: Timers, since_ms: int) -> None:
        """An empty group of generation 0."""
        self.group_id = group_id
        self.current = GroupState.EMPTY
        self.previous: GroupState | None = None
        self.since_ms = since_ms
        """When it entered its state; -1 if unknown."""
        self.generation = 0
        self.protocol_type = ""
        self.protocol: str | None = None
        """The protocol selected for this generation."""
        self.leader: str | None = None
        self.members: dict[str, ClassicGroupMember] = {}
        self.static: dict[str, str] = {}
        """Member ids by instance id."""
        self.pending: dict[str, None] = {}
        """Member ids whose clients have not rejoined with them yet (KIP-394)."""
        self.pending_sync: dict[str, None] = {}
        """Members of this generation that have not sent SyncGroup."""
        self.joining = 0
        """How many members await a JoinGroup response."""
        self.delay: Delay | None = None
        """Set during the initial rebalance delay."""
        self.new_member_added = False
        """Whether a member was added since `delay` was set."""
        self.topics: frozenset[str] | None = None
        """The subscribed topics of consumers; None if unknown."""
        self.join_timer: Final[TimerKey] = ("classic", "join", group_id, "")
        self.sync_timer: Final[TimerKey] = ("classic", "sync", group_id, "")
        self._support: dict[str, int] = {}
        self._timers: Final = timers

    # The `Group` interface.

    @property
    def kind(self) -> str:
        return "classic"

    def state(self, now_ms: int) -> str:
        return self.current.value

    def check_commit(
        self,
        member_id: str,
        instance_id: str | None,
        generation: int,
        *,
        is_transactional: bool,
        version: int,
    ) -> None:
        if generation < 0 and self.current is GroupState.EMPTY:
            return  # by the admin client, or by consumers that assign partitions themselves
        if generation >= 0 or member_id or instance_id is not None:
            operation = "txn-offset-commit" if is_transactional else "offset-commit"
            self.check_member(member_id, instance_id, operation)
            if generation != self.generation:
                raise ApiError(ErrorCode.ILLEGAL_GENERATION)
        elif not is_transactional:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        if not is_transactional and self.current is GroupState.COMPLETING_REBALANCE:
            # It has its JoinGroup response, so it will understand this error.
            raise ApiError(ErrorCode.REBALANCE_IN_PROGRESS)

    def committed_by(self, member_id: str, now_ms: int) -> None:
        member = self.members.get(member_id)
        if member is not None and self.current is not GroupState.COMPLETING_REBALANCE:
            self.touch(member, now_ms)

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Always allowed."""

    def check_delete(self) -> None:
        if self.current is not GroupState.EMPTY:
            raise ApiError(ErrorCode.NON_EMPTY_GROUP)

    def check_offset_delete(self) -> None:
        if self.current is not GroupState.EMPTY and self.protocol_type != CONSUMER:
            raise ApiError(ErrorCode.NON_EMPTY_GROUP)

    def is_subscribed_to(self, topic: str) -> bool:
        if self.topics is None:
            return self.protocol_type == CONSUMER
        return topic in self.topics

    def expires_since(self) -> int | None:
        if not self.protocol_type:
            return 0
        if self.current is GroupState.EMPTY:
            return max(self.since_ms, 0)
        knows_topics = self.topics is not None and self.current is GroupState.STABLE
        return 0 if knows_topics else None

    def tombstones(self) -> Sequence[JournalRecord]:
        return [tombstone(self.group_id)]

    # Members.

    def check_member(self, member_id: str, instance_id: str | None, operation: str) -> None:
        """ApiError UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID."""
        if instance_id is not None:
            known = self.static.get(instance_id)
            if known is None:
                raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
            if known != member_id:
                logger.info(
                    "Request memberId=%s for static member with groupInstanceId=%s is fenced by "
                    "existing memberId=%s during operation %s",
                    member_id,
                    instance_id,
                    known,
                    operation,
                )
                raise ApiError(ErrorCode.FENCED_INSTANCE_ID)
        if member_id not in self.members:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)

    def add(self, member: ClassicGroupMember, protocol_type: str, join: ReplyFuture | None) -> None:
        """Add a new member; its instance id must be unused."""
        if not self.members:
            self.protocol_type = protocol_type
        if member.instance_id is not None:
            self.static[member.instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member
        self._count_support(member.protocols, 1)
        self.pending.pop(member.member_id, None)
        self.set_join_future(member, join)

    def remove(self, member_id: str) -> None:
        """Remove a member or pending member, and its timer; if it was the leader, elect another."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._count_support(member.protocols, -1)
            self.set_join_future(member, None)
            if member.instance_id is not None:
                self.static.pop(member.instance_id, None)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        self.pending.pop(member_id, None)
        self.pending_sync.pop(member_id, None)
        self._timers.cancel(member_timer(self.group_id, member_id))

    def replace(self, old: ClassicGroupMember, new: ClassicGroupMember) -> None:
        """Replace a static member by the same one with a new member id. Both must have the same
        protocols."""
        del self.members[old.member_id]
        self.set_join_future(old, None)
        self._timers.cancel(old.timer)
        self.members[new.member_id] = new
        if self.leader == old.member_id:
            self.leader = new.member_id
        if new.instance_id is not None:
            self.static[new.instance_id] = new.member_id
        if old.member_id in self.pending_sync:
            del self.pending_sync[old.member_id]
            self.pending_sync[new.member_id] = None

    def update(
        self,
        member: ClassicGroupMember,
        protocols: Sequence[OfferedProtocol],
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
    ) -> None:
        """Update a rejoining member from its request."""
        self._count_support(member.protocols, -1)
        member.protocols = protocols
        self._count_support(protocols, 1)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def set_join_future(
        self, member: ClassicGroupMember, future: ReplyFuture | None
    ) -> ReplyFuture | None:
        """Set or clear a member's waiting JoinGroup; returns the previous future."""
        waited = member.join
        self.joining += (future is not None) - (waited is not None)
        member.join = future
        return waited

    def touch(self, member: ClassicGroupMember, now_ms: int, timeout_ms: int | None = None) -> None:
        """A member is alive: reset its session timeout."""
        if timeout_ms is None:
            timeout_ms = member.session_timeout_ms
        member.deadline = self._timers.set(member.timer, now_ms + timeout_ms)

    def cancel_timers(self) -> None:
        """Cancel all timers of a deleted group."""
        for member in self.members.values():
            self._timers.cancel(member.timer)
        for member_id in self.pending:
            self._timers.cancel(member_timer(self.group_id, member_id))
        self._timers.cancel(self.join_timer)
        self._timers.cancel(self.sync_timer)

    @property
    def all_have_joined(self) -> bool:
        return len(self.members) == self.joining and not self.pending

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long a rebalance may take: the maximum of the members' timeouts."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def elect_leader(self) -> bool:
        """If the leader has not rejoined, elect a member that has; False if there is none."""
        if self.leader is None:
            return False
        leader = self.members[self.leader]
        if leader.join is not None:
            return True
        instance_id = leader.instance_id or "None"
        for member in self.members.values():
            if member.join is not None:
                self.leader = member.member_id
                logger.info(
                    "Group leader [memberId: %s, groupInstanceId: %s] failed to join before the "
                    "rebalance timeout. Member %s was elected as the new leader.",
                    leader.member_id,
                    instance_id,
                    member.member_id,
                )
                return True
        logger.info(
            "Group leader [memberId: %s, groupInstanceId: %s] failed to join before the rebalance "
            "timeout and the group couldn't proceed to the next generation because no member "
            "joined.",
            leader.member_id,
            instance_id,
        )
        return False

    # Protocols.

    def supports(self, protocol_type: str, protocols: Sequence[OfferedProtocol]) -> bool:
        """Whether a member with these protocols may join this group."""
        if self.current is GroupState.EMPTY:
            return bool(protocol_type) and bool(protocols)
        if protocol_type != self.protocol_type:
            return False
        count = len(self.members)
        return any(self._support.get(name, 0) == count for name, _ in protocols)

    def choose_protocol(self) -> Steps[str | None]:
        """The protocol with the most votes, of those that all members support."""
        count = len(self.members)
        candidates = {name for name, support in self._support.items() if support == count}
        if len(candidates) <= 1:
            return next(iter(candidates), None)
        votes: dict[str, int] = {}

        def vote(member: ClassicGroupMember) -> None:
            voted = member.vote(candidates)
            if voted is not None:
                votes[voted] = votes.get(voted, 0) + 1

        yield from each(self.members.values(), vote)
        return max(votes, key=votes.__getitem__, default=None)

    def _count_support(self, protocols: Sequence[OfferedProtocol], change: int) -> None:
        support = self._support
        for name, _ in protocols:
            left = support.get(name, 0) + change
            if left:
                support[name] = left
            else:
                del support[name]

    # States.

    def enter(self, state: GroupState, now_ms: int) -> None:
        """Change the state."""
        if self.current not in _COMES_FROM[state]:
            raise AssertionError(f"group {self.group_id} was {self.current}, not to be {state}")
        self.previous = self.current
        self.current = state
        self.since_ms = now_ms

    @property
    def can_rebalance(self) -> bool:
        return self.current in _COMES_FROM[GroupState.PREPARING_REBALANCE]

    def next_generation(self, now_ms: int) -> Steps[None]:
        """Start a new generation of all members that have joined."""
        self.generation += 1
        self.delay = None
        self.protocol = (yield from self.choose_protocol()) if self.members else None
        self.enter(GroupState.COMPLETING_REBALANCE if self.members else GroupState.EMPTY, now_ms)
        yield from self.find_topics()

    def find_topics(self) -> Steps[None]:
        """Set `topics` from the subscriptions of this generation."""
        self.topics = (yield from self._topics()) if self.protocol_type == CONSUMER else None

    def _topics(self) -> Steps[frozenset[str] | None]:
        subscriptions = (member.metadata(self.protocol) for member in self.members.values())
        topics = yield from topics_of_all(subscriptions)
        if topics is None:
            logger.warning(
                "Failed to parse Consumer Protocol %s:%s of group %s. Consumer group coordinator "
                "is not aware of the subscribed topics.",
                CONSUMER,
                self.protocol,
                self.group_id,
            )
        return topics

    # Records.

    def record(self) -> Steps[JournalRecord]:
        """The group's record with its current state."""
        members: list[StoredMember] = []

        def store(member: ClassicGroupMember) -> None:
            stored = StoredMember(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.rebalance_timeout_ms,
                member.session_timeout_ms,
                member.metadata(self.protocol),
                member.assignment,
            )
            members.append(stored)

        yield from each(self.members.values(), store)
        stored = StoredGroup(
            self.protocol_type, self.generation, self.protocol, self.leader, self.since_ms, members
        )
        return (yield from group_record(self.group_id, stored))

    def restore(self, stored: StoredGroup) -> Steps[None]:
        """Restore an empty group from its last record; sessions are not started yet."""
        self.since_ms = stored.since_ms
        self.generation = stored.generation
        self.protocol_type = stored.protocol_type
        self.protocol = stored.protocol
        self.leader = stored.leader
        members = {stored_member.member_id: stored_member for stored_member in stored.members}

        def add(stored_member: StoredMember) -> None:
            member = restored_member(self.group_id, stored.protocol or "", stored_member)
            self.add(member, stored.protocol_type, None)

        yield from each(members.values(), add)
        if members:
            self.current = GroupState.STABLE
        if self.leader not in members:
            self.leader = next(iter(members), None)
        yield from self.find_topics()


def empty_group_record(group: ClassicGroup) -> JournalRecord:
    """The record of a new group, which has no members yet."""
    empty = StoredGroup("", 0, None, None, group.since_ms, ())
    return run_at_once(group_record(group.group_id, empty))
