"""A 64-bit hash of the metadata of a group's topics (KIP-1101).

If it differs from the hash in the group's record, topics have changed and the group needs a new
assignment. It equals Apache Kafka's hash, so that a group which moves between both brokers' logs
does not get a new assignment.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

from xxhash import xxh3_64_intdigest

from kavka.groupcoord.state import Topics
from kavka.wire.steps import Steps, each

_MAGIC: Final = b"\0"
_int32: Final = struct.Struct("<i").pack
_uint64: Final = struct.Struct("<Q").pack
_pair: Final = struct.Struct("<QQ").pack
_SIGN_BIT: Final = 1 << 63


def _text(value: str) -> bytes:
    """UTF-16 code units, then their count."""
    encoded = value.encode("utf-16-le", "surrogatepass")
    return encoded + _int32(len(encoded) // 2)


def _signed(value: int) -> int:
    return value - (1 << 64) if value & _SIGN_BIT else value


class TopicHashes:
    """Cached hashes of subscribed topics, until a topic changes."""

    __slots__ = ("_kept", "_topics")

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self._kept: dict[str, bytes] = {}

    def invalidate(self, topic: str) -> None:
        """Forget the hash of a topic that has changed, or that no group subscribes to any more."""
        self._kept.pop(topic, None)

    def prepare(self, topic: str) -> None:
        """Compute its hash now, so that `of_group` finds it in the cache."""
        self._topic(topic)

    def of_group(self, topics: Iterable[str]) -> Steps[int]:
        """The hash of the existing topics, signed; 0 if none exists."""
        found: list[bytes] = []
        yield from each(sorted(topics), lambda topic: found.append(self._topic(topic)))
        return _signed(xxh3_64_intdigest(b"".join(found))) if any(found) else 0

    def _topic(self, name: str) -> bytes:
        kept = self._kept.get(name)
        if kept is None:
            kept = self._make(name)
            if kept:
                self._kept[name] = kept
        return kept

    def _make(self, name: str) -> bytes:
        """Empty if the topic does not exist."""
        topics = self._topics
        topic_id, partitions = topics.topic_id(name), topics.partition_count(name)
        if topic_id is None or partitions is None:
            return b""
        high, low = divmod(topic_id.int, 1 << 64)
        parts = [_MAGIC, _pair(high, low), _text(name), _int32(partitions)]
        for partition in range(partitions):
            parts.append(_int32(partition))
            for rack in sorted(topics.racks(name, partition)):
                parts.append(_int32(len(rack.encode("utf-16-le")) // 2) + _text(rack))
        return _uint64(xxh3_64_intdigest(b"".join(parts)))
