"""The committed offsets by group, topic and partition, as encoded values. Pure."""

from __future__ import annotations

import sys
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Final

from kavka.groupcoord import offset_records


class TopicOffsets:
    """The offsets of one group in one topic: encoded values by partition."""

    __slots__ = ("group_id", "key", "topic", "values")

    def __init__(self, group_id: str, topic: str, key: bytes) -> None:
        self.group_id: Final = group_id
        self.topic: Final = topic
        self.key: Final = key
        """The records' key without the partition."""

        self.values: Final[dict[int, bytes]] = {}


class OffsetStore:
    """The offsets of all groups of one partition of `__consumer_offsets`."""

    __slots__ = ("_by_key", "_groups", "count")

    def __init__(self) -> None:
        self._by_key: Final[dict[bytes, TopicOffsets]] = {}
        self._groups: Final[dict[str, dict[str, TopicOffsets]]] = {}
        self.count = 0
        """The number of offsets."""

    def groups(self) -> Iterator[str]:
        """The groups with offsets."""
        return iter(self._groups)

    def topics(self, group_id: str) -> Mapping[str, TopicOffsets]:
        """The offsets of a group by topic."""
        return self._groups.get(group_id, {})

    def get(self, group_id: str, topic: str, partition: int) -> bytes | None:
        """One value."""
        found = self._groups.get(group_id, {}).get(topic)
        return None if found is None else found.values.get(partition)

    def of_key(self, key: bytes) -> TopicOffsets | None:
        """The `TopicOffsets` of a key, new if there are none; None for a malformed key."""
        found = self._by_key.get(key[:-4])
        if found is not None:
            return found
        names = offset_records.split_topic_key(key[:-4])
        return None if names is None else self.of(*names)

    def of(self, group_id: str, topic: str) -> TopicOffsets:
        """The `TopicOffsets` of a group and topic, new if there are none."""
        found = self._groups.get(group_id, {}).get(topic)
        if found is None:
            key = offset_records.topic_key(group_id, topic)
            # interned: few distinct names
            found = TopicOffsets(sys.intern(group_id), sys.intern(topic), key)
        return found

    def put(self, of: TopicOffsets, partition: int, value: bytes) -> None:
        """Store an offset."""
        if not of.values:
            self._by_key[of.key] = of
            self._groups.setdefault(of.group_id, {})[of.topic] = of
        if partition not in of.values:
            self.count += 1
        of.values[partition] = value

    def remove(self, of: TopicOffsets, partition: int) -> None:
        """Delete an offset, if it exists."""
        if of.values.pop(partition, None) is None:
            return
        self.count -= 1
        if not of.values:
            del self._by_key[of.key]
            topics = self._groups[of.group_id]
            del topics[of.topic]
            if not topics:
                del self._groups[of.group_id]

    def put_known(
        self,
        keys: Sequence[bytes],
        values: Sequence[bytes | None],
        begin: int,
        groups: Container[str],
    ) -> int:
        """A fast path of replay: store the offsets of records from `begin` on, up to the first
        record that is not an offset of one of `groups` in a topic that already has one. Returns
        the index of that record."""
        by_key, is_sound = self._by_key, offset_records.is_sound
        partition_of = offset_records.PARTITION.unpack_from
        added, number, end = 0, begin, len(keys)
        while number < end:
            key, value = keys[number], values[number]
            of = by_key.get(key[:-4])
            if of is None or value is None or of.group_id not in groups or not is_sound(value):
                break
            before = len(of.values)
            of.values[partition_of(key, len(key) - 4)[0]] = value
            added += len(of.values) - before
            number += 1
        self.count += added
        return number
