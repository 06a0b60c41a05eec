"""Where committed offsets are: by group, topic and partition, as values in the log. Pure."""

from __future__ import annotations

import sys
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Final

from kavka.groupcoord import offset_records


class TopicOffsets:
    """The offsets of one group in one topic: by partition, as values in the log."""

    __slots__ = ("group_id", "key", "topic", "values")

    def __init__(self, group_id: str, topic: str, key: bytes) -> None:
        self.group_id: Final = group_id
        self.topic: Final = topic
        self.key: Final = key
        """Of the records, without the partition."""

        self.values: Final[dict[int, bytes]] = {}


class OffsetStore:
    """The offsets of all groups of one partition of `__consumer_offsets`."""

    __slots__ = ("_by_key", "_groups", "count")

    def __init__(self) -> None:
        self._by_key: Final[dict[bytes, TopicOffsets]] = {}
        self._groups: Final[dict[str, dict[str, TopicOffsets]]] = {}
        self.count = 0
        """How many there are."""

    def groups(self) -> Iterator[str]:
        """Those that have offsets."""
        return iter(self._groups)

    def topics(self, group_id: str) -> Mapping[str, TopicOffsets]:
        """The offsets of a group by topic."""
        return self._groups.get(group_id, {})

    def get(self, group_id: str, topic: str, partition: int) -> bytes | None:
        """One value."""
        found = self._groups.get(group_id, {}).get(topic)
        return None if found is None else found.values.get(partition)

    def of_key(self, key: bytes) -> TopicOffsets | None:
        """Where offsets of a key's group and topic are, or would be; None if it can't be read."""
        found = self._by_key.get(key[:-4])
        if found is not None:
            return found
        names = offset_records.split_topic_key(key[:-4])
        return None if names is None else self.of(*names)

    def of(self, group_id: str, topic: str) -> TopicOffsets:
        """Where offsets of a group and a topic are, or would be."""
        found = self._groups.get(group_id, {}).get(topic)
        if found is None:
            key = offset_records.topic_key(group_id, topic)
            # the same few names come again and again
            found = TopicOffsets(sys.intern(group_id), sys.intern(topic), key)
        return found

    def put(self, of: TopicOffsets, partition: int, value: bytes) -> None:
        """Keep an offset."""
        if not of.values:
            self._by_key[of.key] = of
            self._groups.setdefault(of.group_id, {})[of.topic] = of
        if partition not in of.values:
            self.count += 1
        of.values[partition] = value

    def remove(self, of: TopicOffsets, partition: int) -> None:
        """Let an offset go, if it is there."""
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
        """Keep the offsets of records from that number on, up to the first that is not simply the
        offset of a group among `groups` and of a topic that has one already; its number."""
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
