"""Offsets committed in transactions that are still open. Pure.

When a transaction is committed, its offsets become visible, unless a later record in the log has
committed the same partition: the last record wins, whichever transaction ends last.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final, NamedTuple, TypeAlias

OFFSETS_PER_STEP: Final = 500
"""Offsets of a transaction completed between two pauses, at 2 us each."""

_TopicPartition: TypeAlias = tuple[str, int]
"""Topic and partition."""

_Values: TypeAlias = dict[int, bytes | None]
"""By producer id, in log order; None for a value that a later record has superseded."""


class DecidedOffset(NamedTuple):
    """An offset that becomes visible by a commit marker."""

    group_id: str
    topic: str
    partition: int
    value: bytes


class PendingOffsets:
    """The pending offsets in one partition of `__consumer_offsets`."""

    __slots__ = ("_groups", "_producers")

    def __init__(self) -> None:
        self._groups: Final[dict[str, dict[_TopicPartition, _Values]]] = {}
        self._producers: Final[dict[int, dict[tuple[str, _TopicPartition], None]]] = {}

    def __bool__(self) -> bool:
        return bool(self._groups)

    def has_any(self, group_id: str) -> bool:
        """Whether the group takes part in an open transaction."""
        return group_id in self._groups

    def has(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether an open transaction has an offset for the partition."""
        partitions = self._groups.get(group_id)
        return partitions is not None and (topic, partition) in partitions

    def values(self, group_id: str, topic: str, partition: int) -> list[bytes]:
        """The partition's pending offsets that are not superseded."""
        values = self._groups.get(group_id, {}).get((topic, partition), {})
        return [value for value in values.values() if value is not None]

    def of_group(self, group_id: str) -> list[_TopicPartition]:
        """Topics and partitions of a group with pending offsets."""
        return list(self._groups.get(group_id, ()))

    def all_partitions(self) -> Iterator[tuple[str, str, int]]:
        """Group, topic and partition of all pending offsets."""
        for group_id in list(self._groups):
            for topic, partition in self.of_group(group_id):
                yield group_id, topic, partition

    def put(
        self, producer_id: int, group_id: str, topic: str, partition: int, value: bytes
    ) -> None:
        """Store an offset that an open transaction commits."""
        topic_partition = (topic, partition)
        values = self._groups.setdefault(group_id, {}).setdefault(topic_partition, {})
        values.pop(producer_id, None)  # keep log order
        values[producer_id] = value
        self._producers.setdefault(producer_id, {})[group_id, topic_partition] = None

    def supersede(self, group_id: str, topic: str, partition: int) -> None:
        """Mark a partition's pending offsets as superseded by an offset that was committed outside
        a transaction: they do not take effect when their transactions are committed."""
        values = self._groups.get(group_id, {}).get((topic, partition), {})
        for producer_id in values:
            values[producer_id] = None

    def remove(self, group_id: str, topic: str, partition: int) -> None:
        """Delete the partition's pending offsets, as a tombstone does."""
        topic_partition = (topic, partition)
        values = self._groups.get(group_id, {}).get(topic_partition)
        if values is None:
            return
        for producer_id in values:
            partitions = self._producers[producer_id]
            del partitions[group_id, topic_partition]
            if not partitions:
                del self._producers[producer_id]
        self._remove_partition(group_id, topic_partition)

    def is_open(self, producer_id: int) -> bool:
        """Whether a producer's open transaction has pending offsets."""
        return producer_id in self._producers

    def complete(self, producer_id: int, committed: bool) -> list[DecidedOffset]:
        """A transaction has ended; returns the offsets that become visible. Completes at most
        `OFFSETS_PER_STEP` offsets: call it again, without delay, while `is_open`."""
        ended = []
        partitions = self._producers.get(producer_id, {})
        for group_id, topic_partition in list(islice(partitions, OFFSETS_PER_STEP)):
            del partitions[group_id, topic_partition]
            values = self._groups[group_id][topic_partition]
            value = values[producer_id]
            if committed and value is not None:
                ended.append(DecidedOffset(group_id, *topic_partition, value))
                for earlier in values:
                    if earlier == producer_id:
                        break
                    values[earlier] = None
            del values[producer_id]
            if not values:
                self._remove_partition(group_id, topic_partition)
        if not partitions:
            self._producers.pop(producer_id, None)
        return ended

    def _remove_partition(self, group_id: str, topic_partition: _TopicPartition) -> None:
        partitions = self._groups[group_id]
        del partitions[topic_partition]
        if not partitions:
            del self._groups[group_id]
