"""A member's request updates its group, whichever protocol the member uses: the subscriptions, the
group epoch, the target assignment, and the member's reconciliation.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import Final

from kavka.groupcoord.consumer import consumer_group_records, regexes
from kavka.groupcoord.consumer.assignors import ASSIGNORS
from kavka.groupcoord.consumer.consumer_group_records import Resolved
from kavka.groupcoord.consumer.group import (
    ConsumerGroup,
    SubscriptionCount,
    add_subscription,
    is_homogeneous,
)
from kavka.groupcoord.consumer.group_index import REBALANCE, REGEX, GroupIndex
from kavka.groupcoord.consumer.member import ConsumerGroupMember, MemberState, Target
from kavka.groupcoord.consumer.reconcile import ReconcileGoal, Reported, reconcile_member
from kavka.groupcoord.consumer.regexes import Resolution
from kavka.groupcoord.consumer.target import Subscribed, compute
from kavka.log.journal import JournalRecord
from kavka.wire.steps import PauseCounter, Steps, each

logger: Final = logging.getLogger(__name__)

RESOLVING_INTERVAL_MS: Final = 10_000
"""The minimum time between two resolutions of a group's regexes."""


class RegexChange(Enum):
    """How a request changes the regex that its member subscribes to."""

    NONE = auto()
    CHANGED = auto()
    RESOLVED = auto()
    """Changed, and its topics are already resolved (or the regex was removed)."""


class MemberUpdate:
    """The processing of one request. `old` is the member before it; `records` collects the records
    to append."""

    __slots__ = ("_pauses", "index", "group", "now_ms", "old", "records")

    def __init__(
        self,
        index: GroupIndex,
        group: ConsumerGroup,
        old: ConsumerGroupMember,
        records: list[JournalRecord],
        now_ms: int,
    ) -> None:
        self.index: Final = index
        self.group: Final = group
        self.old: Final = old
        self.records: Final = records
        self.now_ms: Final = now_ms
        self._pauses: Final = PauseCounter()

    def update_member(self, new: ConsumerGroupMember) -> Steps[bool]:
        """Add the member's record if it has changed; whether its topic names have changed."""
        if new == self.old:
            return False
        self.records.append(
            (yield from consumer_group_records.member_in_steps(self.group.group_id, new))
        )
        return new.topic_names != self.old.topic_names

    # -- regular expressions -------------------------------------------------------------------

    def update_regex(self, new: ConsumerGroupMember, may_see: Callable[[str], bool]) -> RegexChange:
        """Validate a new regex, and start resolving the group's regexes if that is due. ApiError
        INVALID_REGULAR_EXPRESSION."""
        group, change, must = self.group, RegexChange.NONE, False
        if new.topic_regex != self.old.topic_regex:
            change = RegexChange.CHANGED
            if self.old.regex is not None and group.regexes.get(self.old.regex) == 1:
                self.records.append(
                    consumer_group_records.tombstone(
                        consumer_group_records.REGEX, group.group_id, self.old.regex
                    )
                )
            if new.regex is not None and not group.regexes.get(new.regex):
                regexes.check(new.regex)
                must = True
            elif new.regex in group.resolved or (new.regex is None and self.old.regex is not None):
                change = RegexChange.RESOLVED
        if must or group.regexes or group.resolved:
            self._resolve(new, may_see, must=must)
        return change

    def _resolve(
        self, new: ConsumerGroupMember, may_see: Callable[[str], bool], *, must: bool
    ) -> None:
        index, group = self.index, self.group
        if group.group_id in index.resolutions:
            return
        last = group.last_resolved()
        if last is not None and self.now_ms <= last.timestamp_ms + RESOLVING_INTERVAL_MS:
            return
        expressions = group.regexes_with(self.old, new)
        interval_ms = index.settings().group_consumer_regex_refresh_interval_ms
        due = (
            must
            or expressions.keys() != group.resolved.keys()
            or last is None
            or last.version < index.topics_version
            or self.now_ms > last.timestamp_ms + interval_ms
        )
        if due and (expressions or group.resolved):
            index.resolutions[group.group_id] = Resolution(
                expressions,
                index.state.topics,
                may_see,
                version=index.topics_version,
                now_ms=self.now_ms,
                seen=index.hashes.prepare,
            )
            index.set_timer(REGEX, group.group_id, "", self.now_ms)

    # -- the group's epoch -----------------------------------------------------------------------

    def update_epoch(self, new: ConsumerGroupMember, *, bump: bool) -> Steps[tuple[int, bool]]:
        """(group epoch, whether all members subscribe to the same topics): the epoch is bumped if
        `bump`, or if topics have changed since the last one."""
        group = self.group
        expired = group.refresh_topics or group.group_epoch < group.refreshed_epoch
        if not bump and not expired:
            if group.assignment_epoch >= group.group_epoch:
                return group.group_epoch, False  # needed only for a new assignment
            subscriptions = yield from group.subscriptions_with(self.old, new)
            return group.group_epoch, self._are_alike(new, subscriptions)
        subscriptions = yield from group.subscriptions_with(self.old, new)
        metadata_hash = yield from self.index.hashes.of_group(subscriptions)
        epoch = group.group_epoch
        if bump or metadata_hash != group.metadata_hash:
            epoch += 1
            self.index.state.counts.consumer_rebalances += 1
            self.records.append(new_epoch(group, epoch, metadata_hash))
        group.refresh_topics, group.refreshed_epoch = False, epoch
        if group.has_topics_record:
            self.records.append(
                consumer_group_records.tombstone(consumer_group_records.TOPICS, group.group_id)
            )
        return epoch, self._are_alike(new, subscriptions)

    def _are_alike(
        self, new: ConsumerGroupMember, subscriptions: Mapping[str, SubscriptionCount]
    ) -> bool:
        """Whether all members subscribe to the same topics, with `new` among them."""
        group = self.group
        members = len(group.members)
        if new.member_id not in group.members and new.instance_id not in group.static_members:
            members += 1
        return is_homogeneous(group.regexes_with(self.old, new), subscriptions, members)

    # -- target assignment -----------------------------------------------------------------------

    def update_target(
        self, new: ConsumerGroupMember, epoch: int, *, alike: bool
    ) -> Steps[tuple[int, Target]]:
        """(assignment epoch, the member's target): computes a new assignment if the group epoch is
        newer and the assignment interval has passed."""
        group = self.group
        if group.assignment_epoch >= epoch or not self._may_assign():
            return group.assignment_epoch, group.target_of(new)
        name = group.preferred_assignor(self.old, new)
        if name is None or name not in ASSIGNORS:  # perhaps from a broker with other assignors
            name = self.index.settings().group_consumer_assignors[0]
        topics = self.index.state.topics
        found = yield from compute(group, topics, new, name, is_homogeneous=alike)
        for member_id, target in found.items():
            if self._pauses.is_due(1 + 5 * len(target)):
                yield None
            if group.targets.get(member_id) != target:
                made = consumer_group_records.target_member_in_steps(
                    group.group_id, member_id, target
                )
                self.records.append((yield from made))
        self.records.append(consumer_group_records.target(group.group_id, epoch, self.now_ms))
        logger.info(
            "[GroupId %s] Computed a new target assignment for epoch %d with '%s' assignor.",
            group.group_id,
            epoch,
            name,
        )
        return epoch, found[new.member_id]

    def _may_assign(self) -> bool:
        """KIP-1263: a minimum interval batches changes into one assignment."""
        last_ms = self.group.assignment_timestamp_ms
        interval_ms = self.index.assignment_interval_ms(self.group.group_id)
        return not last_ms or self.now_ms >= last_ms + interval_ms

    # -- the member ------------------------------------------------------------------------------

    def reconcile(
        self,
        member: ConsumerGroupMember,
        target: tuple[int, Target],
        reported: Reported | None,
        *,
        subscription_changed: bool,
    ) -> Steps[ConsumerGroupMember]:
        """Reconcile the member with its target. ApiError FENCED_MEMBER_EPOCH."""
        epoch, partitions = target
        if not subscription_changed and member.is_reconciled_to(epoch):
            return member
        group, index = self.group, self.index
        moved = yield from reconcile_member(
            member,
            ReconcileGoal(
                epoch,
                partitions,
                Subscribed(group, index.state.topics, member),
                group.has_owner,
                reported,
                subscription_changed,
            ),
        )
        if moved == member:
            return member
        self.records.append(
            (yield from consumer_group_records.current_member_in_steps(group.group_id, moved))
        )
        if moved.classic is None and moved.state is MemberState.UNREVOKED_PARTITIONS:
            # never cancelled: when it expires in another state it is ignored
            at_ms = self.now_ms + moved.rebalance_timeout_ms
            index.set_timer(REBALANCE, group.group_id, moved.member_id, at_ms)
        return moved


def new_epoch(group: ConsumerGroup, epoch: int, metadata_hash: int) -> JournalRecord:
    """The record of a group's new epoch."""
    logger.info(
        "[GroupId %s] Bumped group epoch to %d with metadata hash %d.",
        group.group_id,
        epoch,
        metadata_hash,
    )
    return consumer_group_records.group(group.group_id, epoch, metadata_hash)


def resolution_records(
    index: GroupIndex, group: ConsumerGroup, found: dict[str, Resolved]
) -> Steps[list[JournalRecord]]:
    """The records of newly resolved regexes; if their topics have changed, the group epoch is
    bumped."""
    subscriptions, bump = dict(group.subscriptions), False
    out: list[JournalRecord] = []
    pauses = PauseCounter()
    for expression, new in found.items():
        if not group.regexes.get(expression):
            continue
        old = group.resolved.get(expression)
        before = old.topics if old is not None else ()
        if before != new.topics:
            bump = True
            yield from each(before, lambda topic: add_subscription(subscriptions, topic, 0, -1))
            yield from each(new.topics, lambda topic: add_subscription(subscriptions, topic, 0, 1))
        out.append(consumer_group_records.regex(group.group_id, expression, new))
        if pauses.is_due(5 * len(new.topics)):
            yield None
    for expression in group.last_of({}):
        gone = group.resolved[expression].topics
        yield from each(gone, lambda topic: add_subscription(subscriptions, topic, 0, -1))
        out.append(
            consumer_group_records.tombstone(
                consumer_group_records.REGEX, group.group_id, expression
            )
        )
    metadata_hash = yield from index.hashes.of_group(subscriptions)
    if bump or metadata_hash != group.metadata_hash:
        epoch = group.group_epoch + 1
        out.append(new_epoch(group, epoch, metadata_hash))
        group.refresh_topics, group.refreshed_epoch = False, epoch
    return out
