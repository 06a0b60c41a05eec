"""Online migration of groups between the classic and the consumer protocol (KIP-848).

A classic group is upgraded when the first member with the consumer protocol joins; a consumer
group is downgraded when the last such member leaves. Members with the classic protocol stay in the
group.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final
from uuid import UUID

from kavka.groupcoord.classic.group import ClassicGroup, GroupState
from kavka.groupcoord.classic.members import ClassicGroupMember, OfferedProtocol
from kavka.groupcoord.classic.protocol import ClassicProtocol
from kavka.groupcoord.consumer import consumer_group_records, embedded_protocol
from kavka.groupcoord.consumer.group import CONSUMER, ConsumerGroup
from kavka.groupcoord.consumer.group_index import GroupIndex, not_found
from kavka.groupcoord.consumer.member import (
    ClassicProtocols,
    ConsumerGroupMember,
    Target,
    in_order,
    with_epoch,
)
from kavka.log.journal import Decision, JournalRecord, Reply
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.fields import Malformed
from kavka.wire.steps import PauseCounter, Steps, each, run_at_once

logger: Final = logging.getLogger(__name__)

MEMBERS_PER_STEP: Final = 50
"""Members converted between two pauses, at some 20 us each."""

_UPGRADE: Final = ("bidirectional", "upgrade")
_DOWNGRADE: Final = ("bidirectional", "downgrade")
DISABLED: Final = "disabled"


class Migration:
    """Upgrades and downgrades groups."""

    __slots__ = ("_index", "_classic")

    def __init__(self, index: GroupIndex, classic: ClassicProtocol) -> None:
        self._index = index
        self._classic = classic

    @property
    def policy(self) -> str:
        return self._index.settings().group_consumer_migration_policy.lower()

    # -- upgrade ---------------------------------------------------------------------------------

    def consumer_group(
        self, group_id: str, collected: list[JournalRecord], now_ms: int, *, creates: bool
    ) -> Steps[ConsumerGroup]:
        """The group for a member with the consumer protocol; if `creates` it may be created or
        upgraded from a classic one. ApiError GROUP_ID_NOT_FOUND."""
        found = self._index.state.groups.get(group_id)
        if isinstance(found, ConsumerGroup):
            return found
        if found is None:
            if not creates:
                raise not_found(f"Consumer group {group_id} not found.")
            return ConsumerGroup(group_id)
        if not creates or not isinstance(found, ClassicGroup):
            raise not_found(f"Group {group_id} is not a consumer group.")
        if found.current is GroupState.EMPTY:
            collected += found.tombstones()
            logger.info(
                "[GroupId %s] Converted the empty classic group to a consumer group.", group_id
            )
            return ConsumerGroup(group_id)
        self._check_upgrade(found)
        return (yield from self._upgraded(found, collected, now_ms))

    def fail_waiting_requests(self, group_id: str, now_ms: int) -> list[Reply]:
        """Fail the waiting requests of a classic group that is being upgraded, so that its members
        rejoin; returns the replies."""
        found = self._index.state.groups.get(group_id)
        if not isinstance(found, ClassicGroup):
            return []
        return self._classic.fail_waiting_requests(found, ErrorCode.REBALANCE_IN_PROGRESS, now_ms)

    def _check_upgrade(self, group: ClassicGroup) -> None:
        if self.policy not in _UPGRADE:
            why = "online upgrade is disabled."
        elif group.protocol_type != CONSUMER:
            why = "the group does not use the consumer embedded protocol."
        elif len(group.members) > self._index.settings().group_consumer_max_size:
            why = "the group size exceeds the consumer group maximum size."
        else:
            return
        raise _not_upgraded(group.group_id, why)

    def _upgraded(
        self, classic: ClassicGroup, collected: list[JournalRecord], now_ms: int
    ) -> Steps[ConsumerGroup]:
        group_id = classic.group_id
        group = ConsumerGroup(group_id)
        group.group_epoch = group.assignment_epoch = classic.generation

        def convert(member: ClassicGroupMember) -> None:
            target = self._target(group_id, member)
            group.targets[member.member_id] = target
            group.put_member(_consumer_member(classic, member, target))

        try:
            yield from each(classic.members.values(), convert, MEMBERS_PER_STEP)
        except Malformed as failure:
            raise _not_upgraded(
                group_id, "the embedded consumer protocol is malformed."
            ) from failure
        group.metadata_hash = yield from self._index.hashes.of_group(group.subscriptions)
        collected += classic.tombstones()
        yield from self._record(group, collected)
        for member in group.members.values():
            self._index.keep_alive(group, member, now_ms)
        logger.info("[GroupId %s] Converted the classic group to a consumer group.", group_id)
        return group

    def _record(self, group: ConsumerGroup, collected: list[JournalRecord]) -> Steps[None]:
        """Add the records of the whole group."""
        group_id = group.group_id

        def add_target(of: tuple[str, Target]) -> None:
            collected.append(
                run_at_once(consumer_group_records.target_member_in_steps(group_id, *of))
            )

        def add(
            record: Callable[
                [str, ConsumerGroupMember], Steps[consumer_group_records.DecodedRecord]
            ],
        ) -> Steps[None]:
            members = group.members.values()
            yield from each(
                members,
                lambda member: collected.append(run_at_once(record(group_id, member))),
                MEMBERS_PER_STEP,
            )

        yield from add(consumer_group_records.member_in_steps)
        collected.append(
            consumer_group_records.group(group_id, group.group_epoch, group.metadata_hash)
        )
        yield from each(group.targets.items(), add_target, MEMBERS_PER_STEP)
        collected.append(consumer_group_records.target(group_id, group.assignment_epoch, 0))
        yield from add(consumer_group_records.current_member_in_steps)

    def _target(self, group_id: str, member: ClassicGroupMember) -> dict[UUID, tuple[int, ...]]:
        assignment = embedded_protocol.read_assignment(member.assignment)
        if assignment.user_data:
            # the consumer protocol has no field for it
            raise _not_upgraded(
                group_id,
                "an unsupported custom assignor is in use. Please refer to the documentation or "
                "switch to a default assignor before re-attempting the upgrade.",
            )
        return self.by_id(assignment.partitions)

    def by_id(self, partitions: Mapping[str, Sequence[int]]) -> dict[UUID, tuple[int, ...]]:
        """Partitions by topic id; deleted topics are left out."""
        found = {}
        for topic, indexes in partitions.items():
            topic_id = self._index.state.topics.topic_id(topic)
            if topic_id is not None and indexes:
                found[topic_id] = tuple(sorted(indexes))
        return found

    def by_name(self, target: Target) -> dict[str, Sequence[int]]:
        """Partitions by topic name; deleted topics are left out."""
        topics = self._index.state.topics
        found = ((topics.topic_name(topic_id), own) for topic_id, own in target.items())
        return {name: partitions for name, partitions in found if name is not None}

    # -- downgrade -------------------------------------------------------------------------------

    def may_downgrade(self, group: ConsumerGroup, leaving: Sequence[ConsumerGroupMember]) -> bool:
        """Whether the group is downgraded when these members leave."""
        stay = len(group.members) - len(leaving)
        classic_stay = group.classic_members - sum(member.classic is not None for member in leaving)
        return classic_stay == stay and stay > 0 and self._is_allowed(group, stay)

    def may_downgrade_replaced(
        self, group: ConsumerGroup, replaced: ConsumerGroupMember | None
    ) -> bool:
        """Whether the group is downgraded when a classic member replaces this static member."""
        return (
            replaced is not None
            and replaced.classic is None
            and group.classic_members == len(group.members) - 1
            and self._is_allowed(group, len(group.members))
        )

    def _is_allowed(self, group: ConsumerGroup, size: int) -> bool:
        if self.policy not in _DOWNGRADE:
            why = "the online downgrade is disabled"
        elif size > self._index.settings().group_max_size:
            why = "its group size is greater than classic group max size"
        else:
            return True
        logger.info(
            "Cannot downgrade consumer group %s to classic group because %s.", group.group_id, why
        )
        return False

    def cancel_timers(self, group_id: str, member_ids: Iterable[str], out: Decision) -> Steps[None]:
        """Cancel the timers of members that `out` removes; if `out` can't be appended they are
        restored."""
        index = self._index
        taken = yield from index.cancel_member_timers(group_id, member_ids)

        def refused(code: ErrorCode, now_ms: int) -> Decision:
            index.restore_timers(taken)
            return Decision(replies=[Reply(future, ApiError(code)) for future, _ in out.replies])

        out.on_failure = refused

    def downgrade(
        self,
        group: ConsumerGroup,
        out: Decision,
        now_ms: int,
        *,
        leaving: Sequence[ConsumerGroupMember] = (),
        joining: ConsumerGroupMember | None = None,
        reason: str | None,
    ) -> Steps[None]:
        """Convert the group to a classic one, without the leaving members, and with the joining
        one in place of its static predecessor; with a `reason` the group rebalances. ApiError
        GROUP_ID_NOT_FOUND if a member's metadata is malformed."""
        left = {member.member_id for member in leaving}
        members = {
            member_id: member
            for member_id, member in group.members.items()
            if member_id not in left
        }
        targets = dict(group.targets)
        gone = list(group.members)
        if joining is not None and joining.instance_id is not None:
            replaced = group.static_members[joining.instance_id]
            members.pop(replaced, None)
            members[joining.member_id] = joining
            targets[joining.member_id] = targets.get(replaced, {})
            gone = [joining.member_id if member_id == replaced else member_id for member_id in gone]
        tombstones = consumer_group_records.without_group(group.group_id, gone, group.resolved)
        out.records = [*out.records, *tombstones]
        classic = ClassicGroup(group.group_id, self._index.state.timers, now_ms)
        classic.current, classic.generation = GroupState.STABLE, group.group_epoch

        def add(member: ConsumerGroupMember) -> None:
            classic.add(_classic_member(group.group_id, member), CONSUMER, None)

        yield from each(members.values(), add, MEMBERS_PER_STEP)
        classic.protocol = yield from classic.choose_protocol()
        yield from classic.find_topics()
        pauses = PauseCounter()
        for member_id, member in classic.members.items():
            try:
                version = embedded_protocol.version_of(member.metadata(classic.protocol))
            except Malformed as failure:
                raise _not_downgraded(group.group_id) from failure
            names = self.by_name(targets.get(member_id, {}))
            member.assignment = embedded_protocol.assignment(names, version)
            if pauses.is_due(10 + 10 * len(names)):
                yield None
        yield from self._classic.adopt(classic, out, reason, now_ms)
        yield from self.cancel_timers(group.group_id, group.members, out)
        logger.info("[GroupId %s] Converted the consumer group to a classic group.", group.group_id)


def _not_downgraded(group_id: str) -> ApiError:
    return not_found(
        f"Cannot downgrade the classic group {group_id}: "
        "the embedded consumer protocol is malformed."
    )


def _not_upgraded(group_id: str, why: str) -> ApiError:
    message = f"Cannot upgrade classic group {group_id} to consumer group because {why}"
    logger.info("%s", message)
    return not_found(message)


def _consumer_member(
    group: ClassicGroup, member: ClassicGroupMember, target: Target
) -> ConsumerGroupMember:
    """Malformed. If no protocol is selected yet the first one is used: all have the same topics."""
    metadata = member.metadata(group.protocol) or member.protocols[0].metadata
    subscription = embedded_protocol.read_subscription(metadata)
    return ConsumerGroupMember(
        member.member_id,
        member_epoch=group.generation,
        previous_member_epoch=group.generation,
        instance_id=member.instance_id,
        rack_id=subscription.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        client_id=member.client_id,
        client_host=member.client_host,
        topic_names=in_order(subscription.topics),
        assigned=with_epoch(target, group.generation),
        classic=ClassicProtocols(
            member.session_timeout_ms, tuple((name, data) for name, data in member.protocols)
        ),
    )


def _classic_member(group_id: str, member: ConsumerGroupMember) -> ClassicGroupMember:
    assert member.classic is not None
    return ClassicGroupMember(
        group_id,
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        member.classic.session_timeout_ms,
        tuple(OfferedProtocol(name, data) for name, data in member.classic.protocols),
    )
