"""Expires unused offsets and groups without members and offsets: writes their tombstones. Pure.

All groups are scanned every `offsets.retention.check.interval.ms`, in steps of one decision each:
so the scan neither delays requests nor exceeds a batch.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias
from uuid import UUID

from kavka.groupcoord import offset_records
from kavka.groupcoord.group import Group
from kavka.groupcoord.offset_records import NO_TIME, TOMBSTONE_BYTES_PER_STEP, tombstone
from kavka.groupcoord.offsets import Offsets
from kavka.groupcoord.state import GroupsState
from kavka.log.journal import Decision, JournalRecord
from kavka.wire.errors import ApiError

logger = logging.getLogger(__name__)

SCANNED_PER_STEP: Final = 500
"""Offsets and groups scanned in one step, at up to 5 us each if they expire."""

SWEEP: Final = ("offsets", "unused")
DELETED_TOPICS: Final = ("offsets", "of deleted topics")

_MS_A_MINUTE: Final = 60_000

_TombstoneBatches: TypeAlias = Iterator[list[JournalRecord]]


class _TombstoneBatch:
    """The tombstones of one step, and how much it has scanned."""

    def __init__(self) -> None:
        self.scanned = 0
        self.records: list[JournalRecord] = []
        self._size_bytes = 0

    @property
    def is_full(self) -> bool:
        return self.scanned >= SCANNED_PER_STEP or self._size_bytes >= TOMBSTONE_BYTES_PER_STEP

    def add(self, record: JournalRecord) -> None:
        """Add a tombstone."""
        self.records.append(record)
        self._size_bytes += len(record.key)

    def take(self) -> list[JournalRecord]:
        """Return its records and start the next step."""
        taken, self.records = self.records, []
        self.scanned = self._size_bytes = 0
        return taken


class OffsetExpiry:
    """Expires the offsets of one partition of `__consumer_offsets`."""

    def __init__(self, state: GroupsState, offsets: Offsets) -> None:
        self._state: Final = state
        self._offsets: Final = offsets
        self._sweep: _TombstoneBatches | None = None
        self._deleted: Final[deque[_TombstoneBatches]] = deque()

    def loaded(self, now_ms: int) -> None:
        """Schedule the first scan, when this broker has become the leader."""
        self._wait(now_ms)

    def _wait(self, now_ms: int) -> None:
        interval_ms = self._state.settings().offsets_retention_check_interval_ms
        self._state.timers.set(SWEEP, now_ms + interval_ms)

    def expire(self, key: Hashable, now_ms: int) -> Decision:
        """Do the next step."""
        if key == DELETED_TOPICS:
            return self._next_deleted(now_ms)
        self._state.timers.set(SWEEP, now_ms)  # before anything that could fail
        if self._sweep is None:
            self._sweep = self._sweep_groups(now_ms)
        records = next(self._sweep, None)
        if records is None:
            self._sweep = None
            self._wait(now_ms)
            return Decision()
        return Decision(records)

    def _sweep_groups(self, now_ms: int) -> _TombstoneBatches:
        batch = _TombstoneBatch()
        for group_id in list(self._state.groups):
            batch.scanned += 1
            try:
                yield from self._expire_group(group_id, batch, now_ms)
            except Exception:  # go on with the other groups
                logger.exception("[GroupId %s] Expiring offsets failed.", group_id)
            if batch.is_full:
                yield batch.take()
        if batch.records:
            yield batch.take()

    def _expire_group(
        self, group_id: str, batch: _TombstoneBatch, now_ms: int
    ) -> _TombstoneBatches:
        """Expire one group's offsets. Between two steps the state may change, but not `now_ms`."""
        kept, begin = False, len(batch.records)
        for topic, found in list(self._offsets.store.topics(group_id).items()):
            since = self._unused_since(group_id, topic)
            for partition in list(found.values):
                batch.scanned += 1
                value = found.values.get(partition)
                if since is None:
                    kept = True
                    break
                if (
                    value is not None
                    and self._is_expired(value, since, now_ms)
                    and not self._offsets.pending.has(group_id, topic, partition)
                ):
                    batch.add(tombstone(group_id, topic, partition))
                    self._state.counts.offsets_expired += 1
                else:
                    kept = True
                if batch.is_full:
                    yield batch.take()
                    begin, since = 0, self._unused_since(group_id, topic)
        if not kept:
            self._delete_if_unused(group_id, batch, len(batch.records) - begin)

    def _unused_since(self, group_id: str, topic: str) -> int | None:
        """As `Group.expires_since`; None for subscribed topics too."""
        group = self._state.groups.get(group_id)
        if group is None or group.is_subscribed_to(topic):
            return None
        return group.expires_since()

    def _is_expired(self, value: bytes, since: int, now_ms: int) -> bool:
        committed = offset_records.decode(value)
        if committed is None:
            return False
        if committed.expires_at_ms != NO_TIME:
            return now_ms >= committed.expires_at_ms
        retention_ms = self._state.settings().offsets_retention_minutes * _MS_A_MINUTE
        return now_ms - (since or committed.committed_at_ms) >= retention_ms

    def _delete_if_unused(self, group_id: str, batch: _TombstoneBatch, expiring: int) -> None:
        """Delete a group without members and without offsets except the `expiring` ones."""
        group = self._state.groups.get(group_id)
        if group is None or self._offsets.pending.has_any(group_id):
            return
        left = sum(len(found.values) for found in self._offsets.store.topics(group_id).values())
        if left == expiring and _is_empty(group):
            for record in group.tombstones():
                batch.add(record)

    # Deleted topics.

    def topics_deleted(self, topics: Sequence[tuple[str, UUID]], now_ms: int) -> None:
        """Start deleting the offsets of these topics (name, id)."""
        self._deleted.append(self._delete_offsets_of(topics))
        self._state.timers.set(DELETED_TOPICS, now_ms)

    def _next_deleted(self, now_ms: int) -> Decision:
        self._state.timers.set(DELETED_TOPICS, now_ms)  # before anything that could fail
        while self._deleted:
            records = next(self._deleted[0], None)
            if records is not None:
                return Decision(records)
            self._deleted.popleft()
        self._state.timers.cancel(DELETED_TOPICS)
        return Decision()

    def _delete_offsets_of(self, topics: Sequence[tuple[str, UUID]]) -> _TombstoneBatches:
        batch = _TombstoneBatch()
        for group_id in list(self._offsets.store.groups()):
            try:
                yield from self._delete_group_offsets_of(group_id, topics, batch)
            except Exception:  # as in `_sweep_groups`
                logger.exception("[GroupId %s] Deleting offsets of topics failed.", group_id)
        yield from self._delete_pending_of(dict(topics), batch)
        if batch.records:
            yield batch.take()

    def _delete_group_offsets_of(
        self, group_id: str, topics: Sequence[tuple[str, UUID]], batch: _TombstoneBatch
    ) -> _TombstoneBatches:
        for topic, topic_id in topics:
            batch.scanned += 1
            of_topic = self._offsets.store.topics(group_id).get(topic)
            for partition in list(of_topic.values) if of_topic else ():
                batch.scanned += 1
                if self._all_belong_to(topic_id, group_id, topic, partition):
                    batch.add(tombstone(group_id, topic, partition))
                if batch.is_full:
                    yield batch.take()
            if batch.is_full:
                yield batch.take()

    def _all_belong_to(self, topic_id: UUID, group_id: str, topic: str, partition: int) -> bool:
        """Whether the offsets of a partition, pending ones included, all may belong to the topic
        with this id: a new topic may have the same name, and a tombstone deletes all of them."""
        known = (offset_records.NO_TOPIC_ID, topic_id)
        values = self._offsets.pending.values(group_id, topic, partition)
        value = self._offsets.store.get(group_id, topic, partition)
        if value is not None:
            values.append(value)
        found = map(offset_records.decode, values)
        return bool(values) and all(
            committed is None or committed.topic_id in known for committed in found
        )

    def _delete_pending_of(
        self, topics: Mapping[str, UUID], batch: _TombstoneBatch
    ) -> _TombstoneBatches:
        for group_id, topic, partition in self._offsets.pending.all_partitions():
            batch.scanned += 1
            topic_id = topics.get(topic)
            if topic_id is not None and self._all_belong_to(topic_id, group_id, topic, partition):
                batch.add(tombstone(group_id, topic, partition))
            if batch.is_full:
                yield batch.take()


def _is_empty(group: Group) -> bool:
    try:
        group.check_delete()
    except ApiError:
        return False
    return True
