"""Records that were read and are not sent yet, in the order of each partition."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator
from operator import methodcaller
from typing import Any, Final

from kavka.tools.admin.errors import Failed
from kavka.tools.admin.leaders import TopicPartition
from kavka.tools.mirror.pace import BYTES_MAX

RECORDS_MAX: Final = 2_000
"""Of all partitions that are not slow: then nothing more is read, as with BYTES_MAX of them."""

ASIDE_RECORDS: Final = RECORDS_MAX // 2
ASIDE_BYTES: Final = BYTES_MAX // 4
"""Of each slow partition: then it is not read further."""

BACK_SHARE: Final = 0.25
"""Of these, when it is read again: what librdkafka has read ahead is read twice."""

ALL_ASIDE_BYTES: Final = 32 * 2**20
"""Of all slow ones together, about: when they are very many, none may have as much."""

RECORD_BYTES: Final = 100
"""Of a record, at most, beside what it holds: numbers, and its share of the batch's header."""

HEADER_BYTES: Final = 10
"""The lengths of a header's key and value, at most."""

Record = tuple[Any, Any, int]
"""A message of librdkafka, its headers, and how many bytes it takes in a batch at most."""


class Queue:
    """The records of a partition."""

    __slots__ = ("bytes", "records")

    def __init__(self) -> None:
        self.records: deque[Record] = deque()
        self.bytes = 0

    def fills(self, share: float) -> bool:
        """Whether they are this share, or more, of what may wait of a partition that is slow."""
        return self.bytes >= share * ASIDE_BYTES or len(self.records) >= share * ASIDE_RECORDS


class Unsent:
    """They wait until there is room for them on the way to the target."""

    def __init__(self) -> None:
        self._queues: dict[TopicPartition, Queue] = {}
        """None is empty. In the order in which they are served."""

        self._aside: set[TopicPartition] = set()
        """Partitions that are not read meanwhile."""

        self.slow: Container[str] = ()
        """Topics whose partitions are sent slowly. What waits of them takes no room from the
        others, however many they are: each of their partitions has a limit of its own."""

    def __len__(self) -> int:
        return sum(len(queue.records) for queue in self._queues.values())

    @property
    def topics(self) -> set[str]:
        """Those of which something waits."""
        return {topic for topic, _ in self._queues}

    def __bool__(self) -> bool:
        return bool(self._queues)

    @property
    def has_room(self) -> bool:
        """Whether more may be read."""
        if not self._queues:
            return True
        read = [
            queue
            for topic_partition, queue in self._queues.items()
            if topic_partition[0] not in self.slow
        ]
        return (
            sum(len(queue.records) for queue in read) < RECORDS_MAX
            and sum(queue.bytes for queue in read) < BYTES_MAX
        )

    def add(self, messages: Iterable[Any]) -> None:
        """They were read. Failed if one can't be copied."""
        queues = self._queues
        for message in messages:
            record = sized(message)
            topic_partition = message.topic(), message.partition()
            queue = queues.get(topic_partition)
            if queue is None:
                queue = queues[topic_partition] = Queue()
            queue.records.append(record)
            queue.bytes += record[2]

    def take(
        self, may_send: Callable[[TopicPartition, int], bool]
    ) -> Iterator[tuple[TopicPartition, Record]]:
        """Those that may be sent now; they are no longer unsent. Partitions of which something is
        sent come last the next time."""
        for topic_partition, queue in list(self._queues.items()):
            is_sent, records = False, queue.records
            while records and may_send(topic_partition, records[0][2]):
                is_sent = True
                record = records.popleft()
                queue.bytes -= record[2]
                yield topic_partition, record
            if is_sent:
                del self._queues[topic_partition]
                if records:
                    self._queues[topic_partition] = queue

    def set_aside(self) -> list[TopicPartition]:
        """Slow partitions of which much waits: from now on they are not to be read, so that no
        other waits for them."""
        share = 0 if self._are_many else 1
        full = [
            topic_partition
            for topic_partition, queue in self._queues.items()
            if topic_partition[0] in self.slow
            and topic_partition not in self._aside
            and queue.fills(share)
        ]
        self._aside.update(full)
        return full

    def take_back(self) -> list[TopicPartition]:
        """Those of which little waits by now: from now on they are to be read again."""
        share = 0 if self._are_many else BACK_SHARE
        ready = [
            topic_partition
            for topic_partition in self._aside
            if topic_partition not in self._queues or not self._queues[topic_partition].fills(share)
        ]
        self._aside.difference_update(ready)
        return ready

    @property
    def _are_many(self) -> bool:
        slow = (
            queue.bytes
            for topic_partition, queue in self._queues.items()
            if topic_partition[0] in self.slow
        )
        return sum(slow) >= ALL_ASIDE_BYTES

    def positions(self) -> dict[TopicPartition, int]:
        """The offset of the first record of each partition that has one."""
        return {
            topic_partition: queue.records[0][0].offset()
            for topic_partition, queue in self._queues.items()
        }

    def drop(self, partitions: Iterable[TopicPartition]) -> None:
        """They are copied no longer."""
        for topic_partition in partitions:
            self._queues.pop(topic_partition, None)
            self._aside.discard(topic_partition)


_headers: Final = methodcaller("headers")
"""Where a header can't be read, confluent-kafka gives a list with a hole in it beside an exception.
CPython sees the exception at a call like this one; once a plain call has run some times it does
not look for it any more, and the hole ends the process."""


def sized(message: Any) -> Record:
    """With its headers and its size. Failed if it can't be copied."""
    try:
        headers = _headers(message)
    except (SystemError, UnicodeDecodeError) as failure:  # the first is confluent-kafka's
        raise Failed(
            f"the record of {message.topic()}-{message.partition()} at offset {message.offset()} "
            "has a header whose key is not UTF-8, which confluent-kafka can't read: leave its "
            "topic out"
        ) from failure
    size = RECORD_BYTES + len(message) + len(message.key() or b"")
    if headers:
        size += sum(
            HEADER_BYTES + len(name.encode()) + len(value or b"") for name, value in headers
        )
    return message, headers, size
