"""OffsetCommit, OffsetFetch, OffsetDelete and TxnOffsetCommit. Pure.

Values are stored as in the log and decoded when they are fetched: a million of them load in about
a second. Expiration is in `expiry.py`, the deletion of groups in `listing.py`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple
from uuid import UUID

from kavka.groupcoord import offset_records
from kavka.groupcoord.group import Group, PartitionCheck
from kavka.groupcoord.java_strings import fits
from kavka.groupcoord.offset_records import (
    NO_EPOCH,
    NO_TIME,
    NO_TOPIC_ID,
    CommittedOffset,
    are_different,
    encode,
    encode_lasting,
    partition_key,
    tagged_fields,
    tombstone,
    topic_key,
)
from kavka.groupcoord.offset_store import OffsetStore, TopicOffsets
from kavka.groupcoord.pending_txn_offsets import PendingOffsets
from kavka.groupcoord.state import GroupsState
from kavka.log.journal import Decision, JournalRecord, Producer, Reply, ReplyFuture
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.steps import PauseCounter, Steps, each

logger = logging.getLogger(__name__)

OFFSETS_PER_STEP: Final = 500
"""Offsets processed between two pauses, at 3 us each."""

_DELETION: Final = 5
"""`PauseCounter` items that a topic of an OffsetDelete counts as."""

NO_OFFSET: Final = -1
_LAST_MS: Final = 2**63 - 1
MEMBER_EPOCHS_VERSION: Final = 9
"""OffsetCommit returns GROUP_ID_NOT_FOUND from this version on (KIP-848)."""


class OffsetToCommit(NamedTuple):
    """One partition of a request."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int = NO_EPOCH
    metadata: str | None = ""
    topic_id: UUID = NO_TOPIC_ID
    timestamp_ms: int = NO_TIME
    """The commit timestamp (OffsetCommit 1); `NO_TIME`: now."""


class Commit(NamedTuple):
    """An OffsetCommit or TxnOffsetCommit, by a member or by a client outside any group."""

    group_id: str
    member_id: str
    instance_id: str | None
    generation: int
    """Or member epoch; negative if not from a member."""

    version: int
    offsets: Sequence[OffsetToCommit]
    retention_ms: int = NO_TIME
    """The offsets' own retention (OffsetCommit 2 to 4); `NO_TIME`: the broker's applies."""


class FetchedOffset(NamedTuple):
    """The result for one partition."""

    partition: int
    offset: int = NO_OFFSET
    leader_epoch: int = NO_EPOCH
    metadata: str = ""
    error_code: int = 0


class Offsets:
    """All offsets of one partition of `__consumer_offsets`."""

    __slots__ = ("_make_group", "_state", "pending", "store")

    def __init__(self, state: GroupsState, make_group: Callable[[str], Group]) -> None:
        """`make_group` creates a group that only stores offsets."""
        self._state: Final = state
        self._make_group: Final = make_group
        self.store: Final = OffsetStore()
        """The committed offsets."""

        self.pending: Final = PendingOffsets()
        """Offsets in open transactions."""

    # Committing.

    def commit(self, commit: Commit, future: ReplyFuture, now_ms: int) -> Steps[Decision]:
        """OffsetCommit; replies with a list of error codes, in the order of `commit.offsets`. The
        offsets without an error are written atomically, as one batch."""
        group, check = self._checked(commit, is_transactional=False)
        expires_at_ms = NO_TIME
        if commit.retention_ms != NO_TIME:
            expires_at_ms = min(now_ms + commit.retention_ms, _LAST_MS)
        decision = yield from self._decide(commit, check, future, now_ms, expires_at_ms)
        if group is not None:
            group.committed_by(commit.member_id, now_ms)
        return decision

    def commit_transactional(
        self, commit: Commit, producer: Producer, future: ReplyFuture, now_ms: int
    ) -> Steps[Decision]:
        """TxnOffsetCommit, likewise; the offsets become visible when the transaction commits."""
        try:
            _, check = self._checked(commit, is_transactional=True)
            decision = yield from self._decide(commit, check, future, now_ms, NO_TIME)
        except ApiError as failure:
            if failure.code == ErrorCode.STALE_MEMBER_EPOCH:  # fatal to a producer
                raise ApiError(ErrorCode.ILLEGAL_GENERATION) from failure
            raise
        decision.producer = producer
        return decision

    def _checked(
        self, commit: Commit, *, is_transactional: bool
    ) -> tuple[Group | None, PartitionCheck | None]:
        """The group, if it exists, and the check to call for each partition. ApiError if the
        commit is not allowed."""
        group = self._state.groups.get(commit.group_id)
        if group is None:
            if commit.generation < 0:
                _check_new(commit.group_id)
                return None, None  # a group that only stores offsets will be created
            if not is_transactional and commit.version >= MEMBER_EPOCHS_VERSION:
                raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND)
            raise ApiError(ErrorCode.ILLEGAL_GENERATION)
        check = group.check_commit(
            commit.member_id,
            commit.instance_id,
            commit.generation,
            is_transactional=is_transactional,
            version=commit.version,
        )
        return group, check

    def _decide(
        self,
        commit: Commit,
        check: PartitionCheck | None,
        future: ReplyFuture,
        now_ms: int,
        expires_at_ms: int,
    ) -> Steps[Decision]:
        """The decision that writes the offsets. ApiError from `check` fails the whole commit."""
        longest = self._state.settings().offset_metadata_max_bytes
        records: list[JournalRecord] = []
        codes: list[int] = []
        last, key, tags = None, b"", b""
        for number, to_commit in enumerate(commit.offsets):
            if number and not number % OFFSETS_PER_STEP:
                yield None
            topic, partition, offset, epoch, metadata, topic_id, timestamp_ms = to_commit
            if metadata and is_too_long(metadata, longest):
                codes.append(int(ErrorCode.OFFSET_METADATA_TOO_LARGE))
                continue
            if check is not None:
                check(topic, topic_id, partition)
            if (topic, topic_id) != last:
                last = topic, topic_id
                key, tags = topic_key(commit.group_id, topic), tagged_fields(topic_id)
            text = metadata or ""
            at_ms = now_ms if timestamp_ms == NO_TIME else timestamp_ms
            if expires_at_ms == NO_TIME:
                value = encode_lasting(offset, epoch, text.encode(), at_ms, tags)
            else:
                value = encode(CommittedOffset(offset, epoch, text, at_ms, expires_at_ms, topic_id))
            records.append(JournalRecord(partition_key(key, partition), value))
            codes.append(0)
        self._state.counts.offsets_committed += len(records)
        return Decision(records, [Reply(future, codes)])

    # Fetching.

    def check_fetch(self, group_id: str, member_id: str | None, member_epoch: int) -> bool:
        """Whether the group exists. ApiError if this member may not fetch offsets."""
        group = self._state.groups.get(group_id)
        if group is None:
            return False
        try:
            group.check_fetch(member_id, member_epoch)
        except ApiError as failure:
            if failure.code == ErrorCode.GROUP_ID_NOT_FOUND:
                return False
            raise
        return True

    def fetch(
        self,
        group_id: str,
        topic: str,
        topic_id: UUID,
        partitions: Iterable[int],
        *,
        require_stable: bool,
    ) -> list[FetchedOffset]:
        """OffsetFetch of some partitions. Offsets that were committed to an earlier topic of the
        same name, with another `topic_id`, are not returned."""
        found = self.store.topics(group_id).get(topic)
        values = found.values if found is not None else {}
        unstable = self.pending.has_any(group_id) if require_stable else False
        return [
            _unstable(partition)
            if unstable and self.pending.has(group_id, topic, partition)
            else _fetched(partition, values.get(partition), topic_id)
            for partition in partitions
        ]

    def partitions(self, group_id: str) -> dict[str, list[int]]:
        """The topics and partitions of a group's committed offsets."""
        return {topic: list(of.values) for topic, of in self.store.topics(group_id).items()}

    def partitions_with_pending(self, group_id: str) -> Iterator[tuple[str, int]]:
        """Topics and partitions of a group's offsets, including those in open transactions."""
        for topic, of in self.store.topics(group_id).items():
            for partition in of.values:
                yield topic, partition
        for topic, partition in self.pending.of_group(group_id):
            if self.store.get(group_id, topic, partition) is None:
                yield topic, partition

    # Deleting.

    def delete(
        self,
        group_id: str,
        topics: Sequence[tuple[str, Sequence[int]]],
        future: ReplyFuture,
    ) -> Steps[Decision]:
        """OffsetDelete; replies with a list of error codes, one for each topic. The tombstones are
        written atomically, as one batch."""
        group = self._state.groups.get(group_id)
        if group is None:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND)
        group.check_offset_delete()
        records: list[JournalRecord] = []
        codes: list[int] = []
        pauses = PauseCounter()

        def delete(topic: str, partition: int) -> None:
            kept = self.store.get(group_id, topic, partition) is not None
            if kept or self.pending.has(group_id, topic, partition):
                records.append(tombstone(group_id, topic, partition))

        for topic, partitions in topics:
            if group.is_subscribed_to(topic):
                codes.append(int(ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC))
            else:
                codes.append(0)
                yield from each(partitions, partial(delete, topic), OFFSETS_PER_STEP)
            if pauses.is_due(_DELETION + 2 * len(partitions)):
                yield None
        self._state.counts.offsets_deleted += len(records)
        return Decision(records, [Reply(future, codes)])

    # The records.

    def apply(self, record: JournalRecord, producer: Producer | None) -> None:
        """Apply a record with a key of version 0 or 1."""
        key, value = record
        of = self.store.of_key(key)
        if of is None:
            logger.warning("Skipped an offset, its key can't be read: %r", key)
            return
        partition = int.from_bytes(key[-4:], "big", signed=True)
        if value is None:
            self.store.remove(of, partition)
            self.pending.remove(of.group_id, of.topic, partition)
        elif not offset_records.is_sound(value):
            name = f"{of.topic}-{partition}"
            logger.warning(
                "[GroupId %s] Skipped an offset of %s, it can't be read: %r",
                of.group_id,
                name,
                value,
            )
        else:
            self._apply_value(of, partition, value, producer)

    def _apply_value(
        self, of: TopicOffsets, partition: int, value: bytes, producer: Producer | None
    ) -> None:
        self._ensure_group(of.group_id)
        if producer is not None:
            self.pending.put(producer.id, of.group_id, of.topic, partition, value)
            return
        self.store.put(of, partition, value)
        if self.pending:
            self.pending.supersede(of.group_id, of.topic, partition)

    def _ensure_group(self, group_id: str) -> None:
        groups = self._state.groups
        if group_id not in groups:
            groups[group_id] = self._make_group(group_id)

    def replay(self, keys: Sequence[bytes], values: Sequence[bytes | None], begin: int) -> int:
        """The fast path of replay from record `begin` on; returns the index of the first record
        that needs `apply`."""
        if self.pending:
            return begin
        return self.store.put_known(keys, values, begin, self._state.groups)

    def apply_marker(self, producer_id: int, committed: bool) -> Steps[None]:
        """Make a transaction's pending offsets visible, or discard them, when it has ended."""
        while True:
            for group_id, topic, partition, value in self.pending.complete(producer_id, committed):
                # Apache Kafka writes a tombstone for a group that has only pending offsets
                self._ensure_group(group_id)
                self.store.put(self.store.of(group_id, topic), partition, value)
            if not self.pending.is_open(producer_id):
                return
            yield None


def _check_new(group_id: str) -> None:
    if not fits(group_id):
        raise ApiError(ErrorCode.INVALID_GROUP_ID, "the id of the group is too long")


def _unstable(partition: int) -> FetchedOffset:
    return FetchedOffset(partition, error_code=int(ErrorCode.UNSTABLE_OFFSET_COMMIT))


def _fetched(partition: int, value: bytes | None, topic_id: UUID) -> FetchedOffset:
    if value is None:
        return FetchedOffset(partition)
    committed = offset_records.decode(value)
    if committed is None or are_different(committed.topic_id, topic_id):
        return FetchedOffset(partition)
    return FetchedOffset(partition, committed.offset, committed.leader_epoch, committed.metadata)


def is_too_long(metadata: str, most: int) -> bool:
    """Whether offset metadata exceeds `most` UTF-16 code units, as Java counts, or the limit of a
    record's string."""
    if not fits(metadata):
        return True
    if 2 * len(metadata) <= most:
        return False
    return len(metadata) + sum(character > "\uffff" for character in metadata) > most
