"""kafka-python: see reporting.py."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import InvalidProducerEpochError, KafkaError, ProducerFencedError
from kafka.producer.transaction_manager import AddPartitionsToTxnHandler
from kafka.structs import OffsetAndMetadata

from support.transactions.programs.reporting import BATCH, Abort, Fenced, keywords
from support.transactions.programs.transforming import HANGS_AFTER_S, Found, Instance, main

POLL_MS = 2000
"""Long: when a poll of 3.0.12 ends while its group is being joined, and the answer comes before the
next poll, the client forgets its assignment, and its member is gone after the session's time."""
REQUEST_TIMEOUT_MS = int(2 * HANGS_AFTER_S * 1000)
"""So long that a request without an answer is seen as a call that hangs."""
FENCED = (ProducerFencedError.__name__, InvalidProducerEpochError.__name__)
"""Once it knows them, the client has these in the text of all that it raises."""


@contextmanager
def judged() -> Iterator[None]:
    """What the client raises, in the words of Instance."""
    try:
        yield
    except KafkaError as raised:
        why = repr(raised)
        if any(name in why for name in FENCED):
            raise Fenced(why) from raised
        raise Abort(why) from raised


class KafkaPythonInstance(Instance):
    def open(self) -> None:
        given = self.given
        self._sent: list[Any] = []
        self._consumer = KafkaConsumer(
            given.source,
            bootstrap_servers=given.bootstrap,
            client_id=given.name,
            group_id=given.group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            max_poll_records=BATCH,
            **keywords("consumer.", given.settings),
        )
        # A leader that does not know the topic yet may assign nothing, for ever.
        self._consumer.topics()
        self._producer = KafkaProducer(
            bootstrap_servers=given.bootstrap,
            client_id=given.name,
            transactional_id=given.transactional_id,
            linger_ms=1,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            **keywords("producer.", given.settings),
        )
        self._producer.init_transactions()

    def poll(self) -> Found:
        found = self._consumer.poll(POLL_MS)
        return {
            at.partition: [(record.offset, record.value) for record in records]
            for at, records in found.items()
        }

    def begin(self) -> None:
        self._sent.clear()
        with judged():
            self._producer.begin_transaction()

    def send(self, partition: int, value: bytes) -> None:
        with self._judged_by_batches():
            self._sent.append(self._producer.send(self.given.target, value, partition=partition))

    def flush(self) -> None:
        with judged():
            self._producer.flush()
            for future in self._sent:
                future.get()

    def commit(self, offsets: Mapping[int, int]) -> None:
        topic_partitions = {
            TopicPartition(self.given.source, at): OffsetAndMetadata(offset, "", -1)
            for at, offset in offsets.items()
        }
        with self._judged_by_batches():
            self._producer.send_offsets_to_transaction(
                topic_partitions, self._consumer.group_metadata()
            )
            self._producer.commit_transaction()

    @contextmanager
    def _judged_by_batches(self) -> Iterator[None]:
        """As `judged`; but a call that 3.0.12 refuses because a batch before it was refused names
        the state only ("Cannot call send in state BUMPING_PRODUCER_EPOCH"): the batch's own future
        has what the broker answered."""
        try:
            with judged():
                yield
        except Abort:
            self.flush()
            raise

    def abort(self) -> None:
        with judged():
            self._producer.abort_transaction()
        # 3.0.12 would commit these in its next transaction, by then another member's partitions.
        self._producer._transaction_manager._pending_txn_offset_commits.clear()

    def has_lost_request(self) -> bool:
        """3.0.12 loses one with any broker: without a connection to the coordinator, because
        the broker is down, `await_ready` raises; `Sender._maybe_send_pending_request` then looks
        for the coordinator, but puts the request back only if it has no target_node, and it has.
        The caller waits for the result without limit; if it was AddPartitionsToTxn that was lost,
        behind EndTxn, which is held back until the partitions' records are sent."""
        manager, client = self._producer._transaction_manager, self._producer._sender._client
        if manager.has_in_flight_transactional_request() or client.in_flight_request_count():
            return False
        queued = [handler for _, _, handler in list(manager._pending_requests)]
        if manager._pending_partitions_in_transaction:
            return not any(isinstance(handler, AddPartitionsToTxnHandler) for handler in queued)
        return not queued

    def rewind(self, offsets: Mapping[int, int]) -> None:
        owned = self._consumer.assignment()
        for at, offset in offsets.items():
            topic_partition = TopicPartition(self.given.source, at)
            if topic_partition in owned:
                self._consumer.seek(topic_partition, offset)

    def close(self) -> None:
        self._consumer.close()
        self._producer.close()


if __name__ == "__main__":
    main(KafkaPythonInstance)
