"""confluent-kafka: see reporting.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)

from support.transactions.programs.reporting import BATCH, POLL_MS, Abort, Fenced, settings
from support.transactions.programs.transforming import Found, Instance, main

CALL_TIMEOUT_S = 5.0
CONSUMER_PROTOCOL = "consumer.group.protocol=consumer"
RECOVERY = "none"
"""librdkafka 2.16 starts over with its bootstrap servers when its only broker ends, but goes on to
wait for what it knew as the group's coordinator: send_offsets_to_transaction then often hangs
forever, with any broker."""
RECONNECT_WITHIN_MS = 1000
"""Short: librdkafka doubles its wait for the next try to connect with each loss of a connection
within this time of the last try, however well that one did. With 10 s, which it has otherwise, two
tries that meet a dead broker are 20 s in which requests wait for a connection."""
PURGED = (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT)
"""Errors of records that librdkafka gives up in an abort. It then sends the next ones with their
sequence numbers, though the broker may have them and only the response was lost: what the next
transaction writes is taken for a duplicate, by any broker (docs/transactions.md)."""
FENCED = (KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH)


@contextmanager
def judged() -> Iterator[None]:
    """What the client raises, in the words of Instance."""
    try:
        yield
    except KafkaException as raised:
        error = raised.args[0]
        if error.code() in FENCED:
            raise Fenced(str(error)) from raised
        if error.txn_requires_abort():
            raise Abort(str(error)) from raised
        raise


def patiently(call: Callable[..., Any], *arguments: object) -> None:
    """Call until it is done, as long as the client says that another try may help."""
    while True:
        try:
            call(*arguments)
        except KafkaException as raised:
            if not raised.args[0].retriable():
                raise
        else:
            return


class ConfluentInstance(Instance):
    def open(self) -> None:
        given = self.given
        self._common = {
            "bootstrap.servers": given.bootstrap,
            "client.id": given.name,
            "metadata.recovery.strategy": RECOVERY,
            "reconnect.backoff.max.ms": RECONNECT_WITHIN_MS,
            "log_level": 0,
        }
        self._found: dict[int, list[tuple[int, bytes]]] = {}
        self._failures: list[KafkaError] = []
        self._consumer = Consumer(
            {
                **self._common,
                "group.id": given.group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                **settings("consumer.", given.settings),
            }
        )
        self._open_producer()
        is_incremental = CONSUMER_PROTOCOL in given.settings
        self._assign = (
            self._consumer.incremental_assign if is_incremental else self._consumer.assign
        )
        self._consumer.subscribe(
            [given.source], on_assign=self._assigned, on_revoke=self._gone, on_lost=self._gone
        )

    def _open_producer(self) -> None:
        given = self.given
        self._producer = Producer(
            {
                **self._common,
                "transactional.id": given.transactional_id,
                **settings("producer.", given.settings),
            }
        )
        patiently(self._producer.init_transactions, CALL_TIMEOUT_S)

    def _assigned(self, _: Consumer, topic_partitions: list[Any]) -> None:
        """Ask for the offsets here, and begin at numbers. librdkafka 2.16 by itself reads records
        again in two cases, with any broker (docs/transactions.md): if its assignment changes while
        it asks for an offset that an open transaction holds, and if it loses a partition while it
        asks where that begins."""
        with self._watched("assignment"):
            while True:
                try:
                    found = self._consumer.committed(topic_partitions, CALL_TIMEOUT_S)
                except KafkaException:
                    continue  # its epoch is not the group's, or its broker not there: not yet
                if not any(topic_partition.error for topic_partition in found):
                    break
        for topic_partition in found:
            if topic_partition.offset < 0:
                topic_partition.offset = 0
        self._assign(found)

    def _gone(self, _: Consumer, topic_partitions: list[Any]) -> None:
        for topic_partition in topic_partitions:
            self._found.pop(topic_partition.partition, None)  # before they were processed

    def poll(self) -> Found:
        self._found = {}
        for number in range(BATCH):
            message = self._consumer.poll(0 if number else POLL_MS / 1000)
            if message is None:
                break
            if message.error() is None:
                records = self._found.setdefault(message.partition(), [])
                records.append((message.offset(), message.value()))
        return self._found

    def begin(self) -> None:
        with judged():
            self._producer.begin_transaction()

    def send(self, partition: int, value: bytes) -> None:
        with judged():
            self._producer.produce(
                self.given.target, value, partition=partition, on_delivery=self._delivered
            )

    def _delivered(self, error: KafkaError | None, _: object) -> None:
        if error is not None:
            self._failures.append(error)

    def flush(self) -> None:
        with judged():
            while len(self._producer):  # its own flush, once fenced, ends in a SystemError
                self._producer.poll(POLL_MS / 1000)
        if self._failures:
            failures, self._failures = self._failures, []
            raise Abort(str(failures[0]))

    def commit(self, offsets: Mapping[int, int]) -> None:
        topic_partitions = [
            TopicPartition(self.given.source, *partition_and_offset)
            for partition_and_offset in offsets.items()
        ]
        metadata = self._consumer.consumer_group_metadata()
        send_offsets = self._producer.send_offsets_to_transaction
        with judged():
            patiently(send_offsets, topic_partitions, metadata, CALL_TIMEOUT_S)
            patiently(self._producer.commit_transaction, CALL_TIMEOUT_S)

    def abort(self) -> None:
        with judged():
            patiently(self._producer.abort_transaction, CALL_TIMEOUT_S)
            if any(error.code() in PURGED for error in self._failures):
                self._open_producer()  # with a new epoch, in which sequence numbers begin with 0
        self._failures.clear()

    def rewind(self, offsets: Mapping[int, int]) -> None:
        for partition_and_offset in offsets.items():
            self._consumer.seek(TopicPartition(self.given.source, *partition_and_offset))

    def close(self) -> None:
        self._consumer.close()


if __name__ == "__main__":
    main(ConfluentInstance)
