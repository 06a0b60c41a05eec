"""All consumer groups of one partition of `__consumer_offsets`. Pure.

The behaviour is that of Apache Kafka 4.3's GroupMetadataManager. The partition's shard calls the
methods; each returns a decision, or raises ApiError without having changed anything.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Hashable, Iterator, Sequence
from typing import Final, NamedTuple

from kavka.groupcoord.classic.protocol import ClassicProtocol
from kavka.groupcoord.consumer import replay
from kavka.groupcoord.consumer.classic_members import ClassicMembers
from kavka.groupcoord.consumer.fencing import Fencing
from kavka.groupcoord.consumer.group import NO_ASSIGNMENT, ConsumerGroup
from kavka.groupcoord.consumer.group_index import JOIN, REBALANCE, REGEX, SESSION, SYNC, GroupIndex
from kavka.groupcoord.consumer.heartbeats import Heartbeat, Heartbeats
from kavka.groupcoord.consumer.member import ConsumerGroupMember, MemberState, Target
from kavka.groupcoord.consumer.member_update import resolution_records
from kavka.groupcoord.consumer.migration import Migration
from kavka.groupcoord.state import GroupsState
from kavka.log.journal import Decision, DecisionOrSteps, JournalRecord, ReplyFuture
from kavka.wire.steps import Steps

logger: Final = logging.getLogger(__name__)

RETRY_MS: Final = 500
"""Delay before fencing a member is retried if its tombstones could not be written, as in Apache
Kafka."""

_FENCED_BECAUSE: Final = {
    SESSION: "the member session expired",
    JOIN: "the classic member failed to join within the rebalance timeout",
    SYNC: "the member failed to sync within timeout",
}


def _must_revoke(member: ConsumerGroupMember) -> bool:
    """Whether a member must revoke partitions; not a static member that left temporarily."""
    return member.state is MemberState.UNREVOKED_PARTITIONS and member.member_epoch >= 0


class DescribedConsumerGroup(NamedTuple):
    """A group, with each member and its target assignment."""

    group_id: str
    state: str
    group_epoch: int
    assignment_epoch: int
    assignor: str
    members: Sequence[tuple[ConsumerGroupMember, Target]]


class ConsumerProtocol:
    """Requests to consumer groups, their records and their timers."""

    def __init__(self, state: GroupsState, classic: ClassicProtocol) -> None:
        self._index: Final = GroupIndex(state)
        migration = Migration(self._index, classic)
        self._fencing: Final = Fencing(self._index, migration)
        self._heartbeats: Final = Heartbeats(self._index, self._fencing, migration)
        self.classic: Final = ClassicMembers(self._index, self._fencing, migration)
        """Requests of the classic protocol to groups that have members."""

    # -- requests --------------------------------------------------------------------------------

    def heartbeat(self, request: Heartbeat, future: ReplyFuture, now_ms: int) -> DecisionOrSteps:
        """ConsumerGroupHeartbeat; replies with a `heartbeats.HeartbeatResult`."""
        return self._heartbeats.heartbeat(request, future, now_ms)

    def describe(self, group_id: str, now_ms: int) -> DescribedConsumerGroup:
        """ConsumerGroupDescribe. ApiError GROUP_ID_NOT_FOUND."""
        group = self._index.group(group_id)
        return DescribedConsumerGroup(
            group_id,
            group.state(now_ms),
            group.group_epoch,
            group.assignment_epoch,
            group.preferred_assignor() or self._index.settings().group_consumer_assignors[0],
            [
                (member, group.targets.get(member_id, NO_ASSIGNMENT))
                for member_id, member in group.members.items()
            ],
        )

    # -- records ---------------------------------------------------------------------------------

    def apply(self, version: int, record: JournalRecord) -> None:
        """Apply a record with a key of version 3 to 8 or 16."""
        replay.apply(self._index, record)

    # -- what happens without requests -----------------------------------------------------------

    def loaded(self, now_ms: int) -> Iterator[Decision]:
        """All groups are loaded: start their members' sessions."""
        index = self._index
        index.topics_version = now_ms
        for group in list(index.state.groups.values()):
            if not isinstance(group, ConsumerGroup):
                continue
            timeout_ms = index.session_timeout_ms(group.group_id)
            for member in group.members.values():
                at_ms = now_ms + timeout_ms
                index.set_timer(SESSION, group.group_id, member.member_id, at_ms)
                if _must_revoke(member):
                    at_ms = now_ms + member.rebalance_timeout_ms
                    index.set_timer(REBALANCE, group.group_id, member.member_id, at_ms)
            logger.info(
                "Loaded consumer group %s with %d members.", group.group_id, len(group.members)
            )
            yield Decision()

    def metadata_changed(self, topics: Collection[str], now_ms: int) -> Iterator[Decision]:
        """Topics were created, deleted or changed. The decisions are empty: they are pauses, so
        that this can be done in slices."""
        for _ in self._index.topics_changed(topics, now_ms):
            yield Decision()

    def expire(self, key: Hashable, now_ms: int) -> DecisionOrSteps:
        """Handle an expired timer of a consumer group: fence a member, or resolve regexes."""
        assert isinstance(key, tuple)
        _, timer_kind, group_id, member_id = key
        if timer_kind == REGEX:
            return self._resolve(group_id, now_ms)
        found = self._index.find(group_id, member_id)
        if found is None:
            return Decision()
        group, member = found
        if timer_kind == REBALANCE:
            if not _must_revoke(member):
                return Decision()
            because = (
                f"it failed to transition from epoch {member.member_epoch} within "
                f"{member.rebalance_timeout_ms}ms"
            )
        elif timer_kind != SESSION and member.classic is None:
            return Decision()  # a classic member's timer; it uses the consumer protocol now
        else:
            because = _FENCED_BECAUSE[timer_kind]
        logger.info(
            "[GroupId %s] Member %s fenced from the group because %s.",
            group_id,
            member_id,
            because,
        )
        self._index.set_timer(timer_kind, group_id, member_id, now_ms + RETRY_MS)
        return self._fencing.fence(group, [member], [], now_ms)

    def _resolve(self, group_id: str, now_ms: int) -> Steps[Decision]:
        """Continue resolving a group's regexes."""
        index = self._index
        resolution = index.resolutions.get(group_id)
        if resolution is None:
            return Decision()
        if not resolution.advance():
            index.set_timer(REGEX, group_id, "", now_ms)
            return Decision()
        del index.resolutions[group_id]
        group = index.state.groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            return Decision()
        found = yield from resolution.result()
        return Decision((yield from resolution_records(index, group, found)))

    def futures(self) -> list[ReplyFuture]:
        """No requests wait in consumer groups."""
        return []
