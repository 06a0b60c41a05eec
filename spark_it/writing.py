"""The task of the pipeline `replay` that writes: it runs on Spark's executors.

Each task has its own transactional id. It begins by shutting out an earlier attempt of itself, then
reads from the consumer group how far that one came.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kavka.spark_it.clients import administered, consumed

if TYPE_CHECKING:
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.producer.future import FutureRecordMetadata
    from kafka.structs import OffsetAndMetadata
    from pyspark.sql import Row

TRANSACTION_TIMEOUT_MS: Final = 60_000
"""The broker ends a transaction that is open for so long; and those of a task that died."""

STABLE_WITHIN_MS: Final = 2 * TRANSACTION_TIMEOUT_MS
"""By then the transactions that were open have ended."""

KEEP_EVERY_S: Final = 3600.0
"""So often offsets are committed that have not changed: the broker forgets those that are older
than its offsets.retention.minutes."""

NO_KEY: Final = object()
"""Stands for a null key: kafka-python refuses a record whose key and value are both None before it
serializes them."""


@dataclass(frozen=True)
class Done:
    """How far a partition is: an offset of the group and its metadata."""

    n: int = 0
    """Records written."""
    place: str = ""
    """Where the last one lies, topic-partition-offset of the table; "" when there is none."""
    writers: int = 0
    """Tasks that may be writing, all partitions together."""

    def metadata(self) -> str:
        return json.dumps({"place": self.place, "writers": self.writers})


def place_of(row: Row) -> str:
    return f"{row['topic']}-{row['partition']}-{row['offset']}"


def done_of(
    settings: Mapping[str, Any], group: str, topic: str, partitions: Iterable[int]
) -> dict[int, Done]:
    """What the group's offsets say, by partition. Those of a transaction that is open, or is just
    being committed, are not among them."""
    from kafka import TopicPartition

    topic_partitions = [TopicPartition(topic, partition) for partition in partitions]
    found = administered(
        settings, lambda admin: admin.list_group_offsets({group: topic_partitions})
    )[group]
    return {
        topic_partition.partition: _done(found.get(topic_partition))
        for topic_partition in topic_partitions
    }


def stable_done_of(
    settings: Mapping[str, Any], group: str, topic: str, partitions: Iterable[int]
) -> dict[int, Done]:
    """As `done_of`, after the end of the transactions that are open: what a transaction has written
    is known, or will never be there. KafkaTimeoutError when one does not end.

    Only kafka-python's consumer can ask for that (OffsetFetch's require_stable, KIP-447)."""
    from kafka import TopicPartition

    of_group = {"group_id": group, "isolation_level": "read_committed", "enable_auto_commit": False}

    def committed(consumer: KafkaConsumer) -> dict[int, Done]:
        found = {}
        for partition in partitions:
            topic_partition = TopicPartition(topic, partition)
            offset = consumer.committed(topic_partition, metadata=True, timeout_ms=STABLE_WITHIN_MS)
            found[partition] = _done(offset)
        return found

    return consumed({**settings, **of_group}, committed)


def _done(offset: OffsetAndMetadata | None) -> Done:
    if offset is None or offset.offset < 0 or not offset.metadata:
        return Done()
    metadata = json.loads(offset.metadata)
    return Done(offset.offset, metadata["place"], metadata["writers"])


def group_offsets(topic: str, done: Mapping[int, Done]) -> dict[TopicPartition, OffsetAndMetadata]:
    """As the group's offsets."""
    from kafka import TopicPartition
    from kafka.structs import OffsetAndMetadata

    return {
        TopicPartition(topic, partition): OffsetAndMetadata(progress.n, progress.metadata(), -1)
        for partition, progress in done.items()
    }


def murmur2_partition(key: bytes | None, partitions: int) -> int | None:
    """The partition of a key as Kafka's producers choose it; None without a key."""
    from kafka.partitioner.default import murmur2

    if key is None:
        return None
    return int((murmur2(bytes(key)) & 0x7FFFFFFF) % partitions)


@dataclass(frozen=True)
class Task:
    """Called with the rows of a Spark partition, in the order of writing."""

    settings: Mapping[str, Any]
    topic: str
    partitions: int
    """Of the topic."""
    group: str
    original_timestamps: bool
    transaction_records: int
    transaction_seconds: float
    writers: int
    began: float
    """Time in seconds since 1970 that the column `due` counts from, by the driver's clock."""
    targets: Sequence[int]
    """The partitions that get records. Task number n has those at n, n + writers, and so on."""

    def __call__(self, rows: Iterable[Row]) -> None:
        from kafka import KafkaProducer
        from pyspark import TaskContext

        context = TaskContext.get()
        number = context.partitionId() if context is not None else 0
        settings = {
            "linger_ms": 5,  # else kafka-python sends records nearly one by one
            "transaction_timeout_ms": TRANSACTION_TIMEOUT_MS,
            **self.settings,
            "transactional_id": f"{self.group}-{number}",
            "key_serializer": _key_serializer(),
        }
        with closing(KafkaProducer(**settings)) as producer:
            producer.init_transactions()
            own = self.targets[number :: self.writers]
            done = stable_done_of(self.settings, self.group, self.topic, own)
            Transactions(self, producer, done).write(rows)


class Transactions:
    """Writes rows in transactions, each of so many records or so long at most.

    `done` says how far the partitions of the task are, those whose records are due much later too:
    their offsets are committed again from time to time. `clock` is in seconds since 1970, as
    Task.began; `sleep` waits so many seconds.
    """

    def __init__(
        self,
        task: Task,
        producer: KafkaProducer,
        done: Mapping[int, Done],
        *,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._task = task
        self._producer = producer
        self._done = dict(done)
        self._clock = clock
        self._sleep = sleep
        self._open: dict[int, Done] = {}
        """What the open transaction comes to."""
        self._sent: list[FutureRecordMetadata] = []
        self._opened = 0.0
        self._keep_at = clock() + KEEP_EVERY_S

    def write(self, rows: Iterable[Row]) -> None:
        task = self._task
        for row in rows:
            if row["n"] <= self._done[row["target"]].n:
                continue  # by an earlier attempt of this task
            self._wait(task.began + row["due"])
            self._send(row)
            if len(self._sent) >= task.transaction_records or self._rest() <= 0:
                self._commit()
        self._commit()

    def _rest(self) -> float:
        """Seconds until the open transaction must be committed."""
        return self._opened + self._task.transaction_seconds - self._clock()

    def _wait(self, due: float) -> None:
        """Wait until a record is due; what is open is committed in time, and offsets are kept."""
        while (left := due - self._clock()) > 0:
            until_commit = self._rest() if self._open else self._keep_at - self._clock()
            if until_commit > 0:
                self._sleep(min(left, until_commit))
            elif self._open:
                self._commit()
            else:
                self._producer.begin_transaction()
                self._commit_offsets()

    def _send(self, row: Row) -> None:
        if not self._open:
            self._producer.begin_transaction()
            self._opened = self._clock()
        headers = [
            (header["key"], bytes(header["value"] or b"")) for header in row["headers"] or ()
        ]
        sent = self._producer.send(
            self._task.topic,
            key=NO_KEY if row["key"] is None else bytes(row["key"]),
            value=None if row["value"] is None else bytes(row["value"]),
            headers=headers,
            partition=row["target"],
            timestamp_ms=row["timestamp"] if self._task.original_timestamps else None,
        )
        self._sent.append(sent)
        self._open[row["target"]] = Done(row["n"], place_of(row), self._task.writers)

    def _commit(self) -> None:
        """Commit the records, and with them how far each partition is. What is not written by then
        (KafkaError) the next attempt writes.

        Each record's delivery is asked for: kafka-python commits a transaction of which a batch has
        expired (delivery.timeout.ms)."""
        if self._open:
            self._producer.flush()
            for sent in self._sent:
                sent.get(timeout=0)
            self._commit_offsets()

    def _commit_offsets(self) -> None:
        """Commit the transaction with what it changes, and from time to time with all offsets."""
        changed = dict(self._open)
        if self._clock() >= self._keep_at:
            changed = {
                target: progress for target, progress in self._done.items() if progress.n
            } | changed
            self._keep_at = self._clock() + KEEP_EVERY_S
        if changed:
            offsets = group_offsets(self._task.topic, changed)
            self._producer.send_offsets_to_transaction(offsets, self._task.group)
        self._producer.commit_transaction()
        self._done |= self._open
        self._open, self._sent = {}, []


def _key_serializer() -> object:
    from kafka.serializer import Serializer

    class NullKeys(Serializer):  # type: ignore[misc]
        def serialize(self, topic: str, headers: object, data: object) -> object:
            return None if data is NO_KEY else data

    return NullKeys()
