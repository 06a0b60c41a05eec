"""How many bytes may be under way to the target at once: pure.

librdkafka takes a gigabyte at once, and a slow link does not get rid of that before the transaction
has timed out. So what is under way, sent and not acknowledged, is bounded by what has been
acknowledged lately: about as much as the link carries within the age of a transaction, so that
waiting for it takes about as long.

A topic whose `max.message.bytes` is small has a bound of its own for each partition: librdkafka's
limit of a batch is one for all topics, and it does not split what is refused.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Final

from kavka.tools.admin.leaders import TopicPartition

BYTES_MAX: Final = 4 * 2**20
BYTES_MIN: Final = 2**18
"""Before anything was acknowledged."""


class Pace:
    """What is under way. A record alone is always let through, however large it is."""

    def __init__(self) -> None:
        self.under_way = 0
        """Bytes, of all records."""

        self._of_partitions: defaultdict[TopicPartition, int] = defaultdict(int)
        """Those of topics that have a limit."""

        self._limits: Mapping[str, int] = {}
        self._acknowledged = 0
        """Bytes, in this transaction."""

        self._bytes_max = BYTES_MIN
        """By what was acknowledged in the last transaction."""

    @property
    def bytes_max(self) -> int:
        """How many may be under way now."""
        return max(self._bytes_max, min(BYTES_MAX, BYTES_MIN + self._acknowledged))

    def limit(self, limits: Mapping[str, int]) -> None:
        """From now on the partitions of these topics may have so many bytes under way each."""
        assert not self.under_way, "else it is not known how many of them are"
        self._limits = limits

    def send(self, topic_partition: TopicPartition, size: int) -> bool:
        """Whether a record of this size may be sent now; then it is under way."""
        under_way = self.under_way + size
        if under_way > self._bytes_max and self.under_way and under_way > self.bytes_max:
            return False
        if topic_partition[0] in self._limits:
            of_partition = self._of_partitions[topic_partition]
            if of_partition and of_partition + size > self._limits[topic_partition[0]]:
                return False
            self._of_partitions[topic_partition] += size
        self.under_way = under_way
        return True

    def acknowledged(self, topic_partition: TopicPartition, size: int) -> None:
        """A record is no longer under way."""
        self.under_way -= size
        self._acknowledged += size
        if topic_partition[0] in self._limits:
            self._of_partitions[topic_partition] -= size

    def end_transaction(self) -> None:
        """What is still under way counts for none: that it is waited for says nothing of how much
        the link carries in time."""
        self._bytes_max = min(BYTES_MAX, BYTES_MIN + max(0, self._acknowledged))
        self._acknowledged = -self.under_way
