"""How much was written to each topic and read from it: plain counts, for the metrics.

What counts as what is Apache Kafka's (BrokerTopicMetrics): a batch that a producer sent twice
counts twice; a request for three partitions counts as three.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kavka.wire.errors import ErrorCode

_EXPECTED: Final = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.RECORD_LIST_TOO_LARGE,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.KAFKA_STORAGE_ERROR,
)
"""Errors that Apache Kafka does not count as failed requests: clients cause them, or know how to
handle them."""


class TopicTraffic:
    """The partitions of one topic that this broker leads or led."""

    __slots__ = (
        "appends",
        "bytes_in",
        "bytes_out",
        "bytes_rejected",
        "converted",
        "corrupt",
        "failed",
        "fetches",
        "keyless",
        "messages_in",
        "refused",
        "replicas",
    )

    def __init__(self) -> None:
        self.appends = 0
        """Batches appended, or acknowledged as repeated."""
        self.refused = 0
        """Batches that were refused, for whatever reason."""
        self.failed = 0
        """Of these, those refused with an unexpected error: one that is not in `_EXPECTED`."""
        self.corrupt = 0
        """Of these, those with a wrong CRC or length."""
        self.messages_in = 0
        self.bytes_in = 0
        self.bytes_rejected = 0
        """Bytes of batches above `max.message.bytes`."""
        self.converted = 0
        """Records that producers wrote in another form (magic, codec) than they are kept in."""
        self.keyless = 0
        """Records refused because they have no key."""
        self.fetches = 0
        """Partitions fetched: those named in requests, and those in their sessions."""
        self.bytes_out = 0
        """Bytes of records in responses to consumers."""
        self.replicas = 0

    def refuse(self, code: int, batch_bytes: int) -> None:
        """Count a batch that was rejected with `code`."""
        self.refused += 1
        if code == ErrorCode.MESSAGE_TOO_LARGE:
            self.bytes_rejected += batch_bytes
        elif code == ErrorCode.CORRUPT_MESSAGE:
            self.corrupt += 1
        elif code not in _EXPECTED:
            self.failed += 1

    def add(self, other: TopicTraffic) -> None:
        """Add another's counts, but for its replicas."""
        self.appends += other.appends
        self.refused += other.refused
        self.failed += other.failed
        self.corrupt += other.corrupt
        self.messages_in += other.messages_in
        self.bytes_in += other.bytes_in
        self.bytes_rejected += other.bytes_rejected
        self.converted += other.converted
        self.keyless += other.keyless
        self.fetches += other.fetches
        self.bytes_out += other.bytes_out


class Traffic:
    """All topics of which this broker has replicas; counts of removed topics stay in the sum."""

    def __init__(self) -> None:
        self._topics: dict[str, TopicTraffic] = {}
        self._gone = TopicTraffic()

    @property
    def topics(self) -> Mapping[str, TopicTraffic]:
        """By name."""
        return self._topics

    def add_replica(self, topic: str) -> TopicTraffic:
        """One more replica of `topic` is hosted; the topic's counts."""
        found = self._topics.setdefault(topic, TopicTraffic())
        found.replicas += 1
        return found

    def remove_replica(self, topic: str) -> None:
        """Count one hosted replica less; without replicas the topic's counters go too."""
        left = self._topics[topic]
        left.replicas -= 1
        if not left.replicas:
            self._gone.add(self._topics.pop(topic))

    def total(self) -> TopicTraffic:
        """The sum of all, since the start."""
        total = TopicTraffic()
        total.add(self._gone)
        for topic in self._topics.values():
            total.add(topic)
        return total
