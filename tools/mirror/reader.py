"""Reads from the source: committed records of given partitions, from given offsets on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kavka.tools.admin.errors import Failed
from kavka.tools.admin.leaders import TopicPartition
from kavka.tools.mirror.failures import PASSING, Again
from kavka.tools.mirror.writer import COMMON
from kavka.tools.perf.client import (
    Names,
    consumer,
    error_text,
    library,
    next_messages,
    now_ms,
)
from kavka.tools.properties import without_effect

MESSAGES_MAX: Final = 2_000
POLL_S: Final = 0.1
DEFAULTS: Final = {"receive.message.max.bytes": str(2**31 - 1)}
"""The most there is: a batch of zstd that unpacks to more stays unread. It only limits; memory is
taken for what there is."""

PROPERTIES: Final = {
    "auto.offset.reset": "error",
    "check.crcs": "true",
    "enable.auto.commit": "false",
    "enable.partition.eof": "true",
    "fetch.max.wait.ms": "100",
    "group.id": "kavka-mirror",  # librdkafka wants one; it neither joins it nor commits
    "isolation.level": "read_committed",
}
HOPELESS: Final = ("GROUP_AUTHORIZATION_FAILED", "TOPIC_AUTHORIZATION_FAILED")
UNPACKED: Final = "_BAD_COMPRESSION"
PASSED_OVER: Final = ("_BAD_MSG", "_NOT_IMPLEMENTED")
"""Behind such a batch librdkafka goes on, as if it was not there."""

LASTS_MS: Final = 30_000
"""An error of a partition of which nothing else has come."""

OTHER_MS: Final = 10_000
"""After that time without it an error counts as another one; librdkafka's tries are closer."""

COMMIT_MS: Final = 3_000
"""Until the error of a batch ends the mirror: what was read before it is copied by then."""

BROKEN: Final = (
    "leave the topic out, or delete its records up to behind there (kavka delete-records)"
)
WIDER: Final = (
    "the batch there is damaged, or unpacks to more than receive.message.max.bytes of "
    f"--source-config allows ({DEFAULTS['receive.message.max.bytes']} unless it is given)"
)


class Trouble(NamedTuple):
    """An error of a partition that has come since its last record."""

    since_ms: int
    last_ms: int


class Reader:
    """One consumer."""

    def __init__(self, properties: Mapping[str, str], unknown: Names = without_effect) -> None:
        """`unknown`: says which properties have no effect."""
        given = {**COMMON, **DEFAULTS, **properties, **PROPERTIES}
        self._client = consumer(given, unknown=unknown)
        self.positions: dict[TopicPartition, int] = {}
        """Where each partition is read next."""

        self.at_end: set[TopicPartition] = set()
        """Partitions of which nothing has come since their end was reached."""

        self._resting: set[TopicPartition] = set()
        """Partitions that are not read for a while."""

        self._troubles: dict[TopicPartition, Trouble] = {}
        self._passed_over: dict[TopicPartition, tuple[int, str]] = {}
        """Partitions of which nothing more is taken: since when, and why."""

    def take(self, positions: Mapping[TopicPartition, int]) -> None:
        """More partitions."""
        self.positions |= positions
        self._assign(positions)

    def drop(self, partitions: Iterable[TopicPartition]) -> None:
        """Partitions that are read no longer."""
        gone = list(partitions)
        self._unassign(
            [topic_partition for topic_partition in gone if topic_partition not in self._resting]
        )
        self._resting.difference_update(gone)
        for topic_partition in gone:
            del self.positions[topic_partition]
            self.at_end.discard(topic_partition)
            self._troubles.pop(topic_partition, None)
            self._passed_over.pop(topic_partition, None)

    def rest(self, partitions: Iterable[TopicPartition]) -> None:
        """Partitions that are not read until they are resumed, from the same position. Not by
        librdkafka's pause, which would resume by what it takes for the position."""
        resting = list(partitions)
        self._unassign(resting)
        self._resting.update(resting)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """They are read on."""
        ready = {topic_partition: self.positions[topic_partition] for topic_partition in partitions}
        self._resting.difference_update(ready)
        self._assign(ready)

    def _assign(self, positions: Mapping[TopicPartition, int]) -> None:
        if positions:
            partition = library().TopicPartition
            self._client.incremental_assign(
                [
                    partition(*topic_partition, offset)
                    for topic_partition, offset in positions.items()
                ]
            )

    def _unassign(self, partitions: Sequence[TopicPartition]) -> None:
        if partitions:
            partition = library().TopicPartition
            self._client.incremental_unassign(
                [partition(*topic_partition) for topic_partition in partitions]
            )

    def read(self, wait_s: float = POLL_S) -> list[Any]:
        """The next records; none if nothing has come for a moment. Again, Failed."""
        found = []
        for message in next_messages(self._client, MESSAGES_MAX, wait_s):
            topic_partition = message.topic(), message.partition()
            error = message.error()
            if topic_partition not in self.positions or topic_partition in self._resting:
                continue  # it was dropped, or is not read, since this was fetched
            if topic_partition in self._passed_over:
                continue
            if error is None:
                self.positions[topic_partition] = message.offset() + 1
                self.at_end.discard(topic_partition)
                found.append(message)
            elif error.name() == "_PARTITION_EOF":
                self.positions[topic_partition] = max(
                    self.positions[topic_partition], message.offset()
                )
                self.at_end.add(topic_partition)
            else:
                self._judge(topic_partition, error)
                continue
            if self._troubles:
                self._troubles.pop(topic_partition, None)
        for since_ms, why in self._passed_over.values():
            if now_ms() - since_ms >= COMMIT_MS:
                raise Failed(why)
        return found

    def _judge(self, topic_partition: TopicPartition, error: Any) -> None:
        """Again, Failed; nothing if it may pass."""
        name, where = error.name(), f"{topic_partition[0]}-{topic_partition[1]}"
        if name == "_AUTO_OFFSET_RESET":
            raise Again(f"{where} is not readable at {self.positions[topic_partition]}")
        if name in HOPELESS:
            raise Failed(f"the source refuses to be read: {error_text(error)}")
        if name in PASSING:
            return
        now = now_ms()
        why = (
            f"{where} can't be read from offset {self.positions[topic_partition]} on: "
            f"{error_text(error)}; {WIDER if name == UNPACKED else BROKEN}"
        )
        if name in PASSED_OVER:
            self._passed_over[topic_partition] = now, why
            return
        since_ms, last_ms = self._troubles.get(topic_partition, (now, now))
        if now - last_ms > OTHER_MS:
            since_ms = now
        self._troubles[topic_partition] = Trouble(since_ms, now)
        if now - since_ms >= (COMMIT_MS if name == UNPACKED else LASTS_MS):
            raise Failed(why)

    def close(self) -> None:
        """Let the consumer go."""
        self._client.close()
