"""A consumer group: the state in its records, and state derived from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple
from uuid import UUID

from kavka.groupcoord.consumer import consumer_group_records
from kavka.groupcoord.consumer.consumer_group_records import Resolved
from kavka.groupcoord.consumer.member import (
    LEAVE_EPOCH,
    NOTHING,
    ConsumerGroupMember,
    Owned,
    Target,
)
from kavka.groupcoord.group import PartitionCheck
from kavka.log.journal import JournalRecord
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.steps import PauseCounter, Steps, each

CONSUMER: Final = "consumer"

FIRST_EPOCH: Final = 1
"""The epoch of a new group and of its assignment."""

NO_ASSIGNMENT: Final[Target] = {}
NAMES_PER_STEP: Final = 1_000
"""Topic names counted between two pauses, at a microsecond each."""

COMMIT_VERSION_MIN: Final = 9
"""Of OffsetCommit; earlier versions have no member epoch."""


class SubscriptionCount(NamedTuple):
    """How many members subscribe to a topic by name, and how many regexes match it."""

    by_name: int
    by_regex: int


class ConsumerGroup:
    """One group. Only applied records change it, except `refresh_topics` and
    `refreshed_epoch`, which control when topic metadata is checked again."""

    __slots__ = (
        "_reconciled_to",
        "_unreconciled",
        "assignment_epoch",
        "assignment_timestamp_ms",
        "assignors",
        "classic_members",
        "classic_protocols",
        "group_epoch",
        "group_id",
        "has_topics_record",
        "members",
        "metadata_hash",
        "owners",
        "refresh_topics",
        "refreshed_epoch",
        "regexes",
        "resolved",
        "static_members",
        "subscriptions",
        "targets",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.group_epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.has_topics_record = False
        self.assignment_epoch = FIRST_EPOCH
        self.assignment_timestamp_ms = 0
        """When the assignment was computed; 0 if there was none, or it is unknown."""
        self.members: dict[str, ConsumerGroupMember] = {}
        self.targets: dict[str, Target] = {}
        """{member id: target assignment}."""
        self.static_members: dict[str, str] = {}
        """{instance id: member id}."""
        self.resolved: dict[str, Resolved] = {}
        """{regular expression: its matching topics}."""
        self.owners: dict[UUID, dict[int, str]] = {}
        """{topic id: {partition: the member that owns it, or has not revoked it yet}}."""
        self.subscriptions: dict[str, SubscriptionCount] = {}
        self.regexes: dict[str, int] = {}
        """{regular expression: number of members that subscribe to it}."""
        self.assignors: dict[str, int] = {}
        """{server-side assignor: number of members that request it}."""
        self.classic_members = 0
        self.classic_protocols: dict[str, int] = {}
        """{protocol: number of classic members that support it}."""
        self.refresh_topics = True
        """Whether topics may have changed since `metadata_hash` was computed."""
        self.refreshed_epoch = 0
        """The group epoch decided when `refresh_topics` was reset. If the group has a lower epoch,
        the record of that decision was not appended."""
        self._unreconciled = 0
        self._reconciled_to: int | None = None

    # -- the `Group` interface -------------------------------------------------------------------

    @property
    def kind(self) -> str:
        return CONSUMER

    @property
    def protocol_type(self) -> str:
        return CONSUMER

    def state(self, now_ms: int) -> str:
        """As Apache Kafka names it."""
        if not self.members:
            return "Empty"
        if self.group_epoch > self.assignment_epoch:
            return "Assigning"
        return "Reconciling" if self._count_unreconciled() else "Stable"

    def _count_unreconciled(self) -> int:
        """Cached until members or the assignment change."""
        epoch = self.assignment_epoch
        if self._reconciled_to != epoch:
            members = self.members.values()
            self._unreconciled = sum(not member.is_reconciled_to(epoch) for member in members)
            self._reconciled_to = epoch
        return self._unreconciled

    def check_commit(
        self,
        member_id: str,
        instance_id: str | None,
        generation: int,
        *,
        is_transactional: bool,
        version: int,
    ) -> PartitionCheck | None:
        """KIP-848. With an earlier epoch only partitions assigned no later than that (KIP-1251)."""
        if generation < 0 and not self.members:
            return None
        if is_transactional and generation == -1 and not member_id and instance_id is None:
            return None
        member = self.member(member_id)
        if not is_transactional and member.classic is None and version < COMMIT_VERSION_MIN:
            raise ApiError(
                ErrorCode.UNSUPPORTED_VERSION,
                "OffsetCommit version 9 or above must be used by members using the consumer group "
                "protocol",
            )
        if generation == member.member_epoch:
            return None
        if generation > member.member_epoch:
            raise _stale(
                member,
                f"Received generation id {generation} is newer than current member epoch "
                f"{member.member_epoch}.",
                f"Received member epoch {generation} is newer than current member epoch "
                f"{member.member_epoch}.",
            )
        return _commit_check(member, generation)

    def committed_by(self, member_id: str, now_ms: int) -> None:
        """Do nothing: a commit does not count as a heartbeat here."""

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        if member_id is None and member_epoch < 0:
            return
        member = self.member(member_id or "")
        if member_epoch != member.member_epoch:
            raise _stale(
                member,
                f"The received generation id {member_epoch} does not match the expected member "
                f"epoch {member.member_epoch}.",
                f"The received member epoch {member_epoch} does not match the expected member "
                f"epoch {member.member_epoch}.",
            )

    def check_delete(self) -> None:
        if self.members:
            raise ApiError(ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")

    def check_offset_delete(self) -> None:
        """Always allowed; only the topics' subscriptions matter."""

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.subscriptions

    def expires_since(self) -> int | None:
        return 0

    def tombstones(self) -> Sequence[JournalRecord]:
        return consumer_group_records.without_group(self.group_id, self.members, self.resolved)

    # -- members ---------------------------------------------------------------------------------

    def member(self, member_id: str) -> ConsumerGroupMember:
        """ApiError UNKNOWN_MEMBER_ID."""
        found = self.members.get(member_id)
        if found is None:
            raise ApiError(
                ErrorCode.UNKNOWN_MEMBER_ID,
                f"Member {member_id} is not a member of group {self.group_id}.",
            )
        return found

    def static_member(self, instance_id: str | None) -> ConsumerGroupMember | None:
        member_id = self.static_members.get(instance_id) if instance_id is not None else None
        return None if member_id is None else self.members.get(member_id)

    def target_of(self, member: ConsumerGroupMember) -> Target:
        """A member's target assignment; a static member takes over its predecessor's."""
        member_id = member.member_id
        if member.instance_id is not None:
            member_id = self.static_members.get(member.instance_id, "")
        return self.targets.get(member_id, NO_ASSIGNMENT)

    def has_owner(self, topic: UUID, partition: int) -> bool:
        return partition in self.owners.get(topic, ())

    def put_member(self, member: ConsumerGroupMember) -> None:
        """Add or replace a member."""
        old = self.members.get(member.member_id)
        self._subtract_counts(old)
        self._count_names(old.topic_names if old is not None else (), member.topic_names)
        self.members[member.member_id] = member
        if member.regex is not None:
            _count(self.regexes, member.regex, 1)
        if member.server_assignor is not None:
            _count(self.assignors, member.server_assignor, 1)
        if member.classic is not None:
            self.classic_members += 1
            for name, _ in member.classic.protocols:
                _count(self.classic_protocols, name, 1)
        if old is not None and old.instance_id != member.instance_id:
            self._release_instance_id(old)
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        for part in (member.assigned, member.revoking):
            for topic_id, partitions in part.items():
                of_topic = self.owners.setdefault(topic_id, {})
                for partition in partitions:
                    of_topic[partition] = member.member_id

    def remove_member(self, member_id: str) -> None:
        member = self.members.get(member_id)
        self._subtract_counts(member)
        if member is None:
            return
        self._count_names(member.topic_names, ())
        del self.members[member_id]
        self._release_instance_id(member)

    def _release_instance_id(self, member: ConsumerGroupMember) -> None:
        """Release the member's instance id, unless another member has taken it over."""
        instance_id = member.instance_id
        if instance_id is not None and self.static_members.get(instance_id) == member.member_id:
            del self.static_members[instance_id]

    def _subtract_counts(self, member: ConsumerGroupMember | None) -> None:
        """Subtract a member from all counts except those of topic names."""
        self._reconciled_to = None
        if member is None:
            return
        if member.regex is not None:
            _count(self.regexes, member.regex, -1)
        if member.server_assignor is not None:
            _count(self.assignors, member.server_assignor, -1)
        if member.classic is not None:
            self.classic_members -= 1
            for name, _ in member.classic.protocols:
                _count(self.classic_protocols, name, -1)
        self._release_partitions(member.member_id, member.assigned)
        self._release_partitions(member.member_id, member.revoking)

    def _release_partitions(self, member_id: str, owned: Owned) -> None:
        for topic_id, partitions in owned.items():
            of_topic = self.owners.get(topic_id)
            if of_topic is None:
                continue
            for partition in partitions:
                # after compaction the record of the new owner may precede this one
                if of_topic.get(partition) == member_id:
                    del of_topic[partition]
            if not of_topic:
                del self.owners[topic_id]

    def release_member(self, member_id: str) -> None:
        """Release a member's partitions; it is about to be removed."""
        member = self.members.get(member_id)
        if member is not None:
            gone = replace(
                member,
                member_epoch=LEAVE_EPOCH,
                previous_member_epoch=LEAVE_EPOCH,
                assigned=NOTHING,
                revoking=NOTHING,
            )
            self.put_member(gone)

    # -- subscriptions ---------------------------------------------------------------------------

    def _count_names(self, before: Sequence[str], now: Sequence[str]) -> None:
        """Update the counts by name; mostly nothing changes, and there may be thousands."""
        if before == now:
            return
        add_subscriptions(self.subscriptions, before, -1, 0)
        add_subscriptions(self.subscriptions, now, 1, 0)

    def put_resolved(self, regex: str, resolved: Resolved) -> None:
        self.remove_resolved(regex)
        self.resolved[regex] = resolved
        add_subscriptions(self.subscriptions, resolved.topics, 0, 1)

    def remove_resolved(self, regex: str) -> None:
        old = self.resolved.pop(regex, None)
        if old is not None:
            add_subscriptions(self.subscriptions, old.topics, 0, -1)

    def subscribed_topics(self, member: ConsumerGroupMember) -> Sequence[str]:
        """The topics of one member: by name, and those its regex matched so far."""
        resolved = self.resolved.get(member.regex) if member.regex is not None else None
        if resolved is None or not resolved.topics:
            return member.topic_names
        return list(dict.fromkeys((*member.topic_names, *resolved.topics)))

    def last_resolved(self) -> Resolved | None:
        """The last resolution: all regexes of a group are resolved together."""
        return next(iter(self.resolved.values()), None)

    # -- hypothetical state ---------------------------------------------------------------------

    def subscriptions_with(
        self, old: ConsumerGroupMember | None, new: ConsumerGroupMember | None
    ) -> Steps[dict[str, SubscriptionCount]]:
        """The subscriptions if `new` replaced `old`."""
        found = dict(self.subscriptions)
        names = old.topic_names if old is not None else ()
        yield from each(names, lambda topic: add_subscription(found, topic, -1, 0), NAMES_PER_STEP)
        names = new.topic_names if new is not None else ()
        yield from each(names, lambda topic: add_subscription(found, topic, 1, 0), NAMES_PER_STEP)
        regex = old.regex if old is not None else None
        if (
            regex is not None
            and (new is None or new.regex != regex)
            and self.regexes.get(regex, 0) == 1
        ):
            self._without_regexes(found, (regex,))
        return found

    def subscriptions_without(
        self, members: Iterable[ConsumerGroupMember]
    ) -> Steps[dict[str, SubscriptionCount]]:
        """The subscriptions if `members` were removed."""
        found, pauses = dict(self.subscriptions), PauseCounter()
        gone: dict[str, int] = {}
        for member in members:
            for topic in member.topic_names:
                add_subscription(found, topic, -1, 0)
            if member.regex is not None:
                _count(gone, member.regex, 1)
            if pauses.is_due(1 + 5 * len(member.topic_names)):
                yield None
        self._without_regexes(found, self.last_of(gone))
        return found

    def last_of(self, regexes: Mapping[str, int]) -> list[str]:
        """Regexes without subscribers if that many of their members are removed. They include
        regexes that have none already: a member that takes over an instance id under a third
        member's id leaves that member's regex behind."""
        left = {**dict.fromkeys(self.resolved, 0), **regexes}
        return [regex for regex, count in left.items() if self.regexes.get(regex, 0) == count]

    def _without_regexes(
        self, subscriptions: dict[str, SubscriptionCount], regexes: Iterable[str]
    ) -> None:
        for regex in regexes:
            resolved = self.resolved.get(regex)
            for topic in resolved.topics if resolved is not None else ():
                add_subscription(subscriptions, topic, 0, -1)

    def regexes_with(
        self, old: ConsumerGroupMember | None, new: ConsumerGroupMember | None
    ) -> dict[str, int]:
        """The regexes if `new` replaced `old`."""
        found = dict(self.regexes)
        if old is not None and old.regex is not None:
            _count(found, old.regex, -1)
        if new is not None and new.regex is not None:
            _count(found, new.regex, 1)
        return found

    def preferred_assignor(
        self, old: ConsumerGroupMember | None = None, new: ConsumerGroupMember | None = None
    ) -> str | None:
        """The most requested assignor if `new` replaced `old`."""
        counts = dict(self.assignors)
        if old is not None and old.server_assignor is not None:
            _count(counts, old.server_assignor, -1)
        if new is not None and new.server_assignor is not None:
            _count(counts, new.server_assignor, 1)
        return max(counts, key=counts.__getitem__, default=None)


def is_homogeneous(
    regexes: Mapping[str, int], subscriptions: Mapping[str, SubscriptionCount], members: int
) -> bool:
    """Whether all members subscribe to the same topics: by name only, or by one regex."""
    if not regexes:
        return all(count.by_name == members for count in subscriptions.values())
    if next(iter(regexes.values())) != members:
        return False
    return all(count.by_regex == 1 and not count.by_name for count in subscriptions.values())


def add_subscription(
    subscriptions: dict[str, SubscriptionCount], topic: str, names: int, regexes: int
) -> None:
    """Add to a topic's counts."""
    old = subscriptions.get(topic)
    if old is None:
        by_name, by_regex = names, regexes
    else:
        by_name, by_regex = old.by_name + names, old.by_regex + regexes
    if by_name > 0 or by_regex > 0:
        subscriptions[topic] = SubscriptionCount(by_name, by_regex)
    else:
        subscriptions.pop(topic, None)


_NEVER: Final = SubscriptionCount(-1, -1)


def add_subscriptions(
    subscriptions: dict[str, SubscriptionCount], topics: Iterable[str], names: int, regexes: int
) -> None:
    """Add to the counts of many topics without a pause: there may be thousands, but most have the
    same count, which is one shared object."""
    before: SubscriptionCount | None = _NEVER
    after: SubscriptionCount | None = None
    for topic in topics:
        found = subscriptions.get(topic)
        if found is not before:
            add_subscription(subscriptions, topic, names, regexes)
            before, after = found, subscriptions.get(topic)
        elif after is None:
            subscriptions.pop(topic, None)
        else:
            subscriptions[topic] = after


def _count(counts: dict[str, int], key: str, more: int) -> None:
    count = counts.get(key, 0) + more
    if count > 0:
        counts[key] = count
    else:
        counts.pop(key, None)


def _stale(member: ConsumerGroupMember, of_classic: str, of_consumer: str) -> ApiError:
    if member.classic is not None:
        return ApiError(ErrorCode.ILLEGAL_GENERATION, of_classic)
    return ApiError(ErrorCode.STALE_MEMBER_EPOCH, of_consumer)


def _commit_check(member: ConsumerGroupMember, epoch: int) -> Callable[[str, UUID, int], None]:
    def check(topic: str, topic_id: UUID, partition: int) -> None:
        since = member.assigned.get(topic_id, {}).get(partition)
        if since is None:
            since = member.revoking.get(topic_id, {}).get(partition)
        if since is None:
            message = (
                f"Partition {topic}-{partition} is not assigned or pending revocation for member."
            )
            raise _stale(member, message, message)
        if epoch < since:
            raise _stale(
                member,
                f"Received generation id {epoch} is older than assignment epoch {since} for "
                f"partition {topic}-{partition}.",
                f"Received member epoch {epoch} is older than assignment epoch {since} for "
                f"partition {topic}-{partition}.",
            )

    return check
