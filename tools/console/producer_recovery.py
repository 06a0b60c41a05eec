"""kafka-python's idempotent producer, made to go on after records have failed.

As it is, one record that fails may take all that follow with it, or keep them waiting for ever: see
each method. It has one batch of a partition in flight at a time, so that of those that follow none
is at the broker yet.
"""

from __future__ import annotations

import time
from typing import Any

from kafka import KafkaProducer
from kafka.errors import KafkaConnectionError, KafkaTimeoutError, RetriableError
from kafka.producer import kafka as producing
from kafka.producer.sender import Sender
from kafka.producer.transaction_manager import TransactionManager, TransactionState


def recovering_producer(**arguments: Any) -> KafkaProducer:
    """A producer with these arguments. Its constructor takes no other classes of its parts, and
    starts its thread: they are put in their places for that time."""
    before = producing.Sender, producing.TransactionManager
    producing.Sender, producing.TransactionManager = _Sender, _TransactionManager
    try:
        return KafkaProducer(**arguments)
    finally:
        producing.Sender, producing.TransactionManager = before


class _Sender(Sender):  # type: ignore[misc]  # the library has no types
    """The thread that writes."""

    _now_s = 0.0
    _asked_s = 0.0
    """When a producer id was asked for last."""

    def run_once(self) -> None:
        """Records expire also while there is no producer id."""
        self._now_s = time.monotonic()
        self._get_expired_inflight_batches()
        for batch in self._accumulator.expired_batches(now=self._now_s):
            self._expire(batch)
        super().run_once()

    def _send_producer_data(self, now: float | None = None) -> float:
        """At the time for which records have expired already. The client takes some to be sent
        first, and leaves them where they are where others expire that need another producer id:
        they would not be sent, nor any behind them, until they expire."""
        found: float = super()._send_producer_data(self._now_s)
        return found

    def _get_expired_inflight_batches(self, now: float | None = None) -> list[Any]:
        """None: they have expired then."""
        for batch in super()._get_expired_inflight_batches(now=now):
            self._expire(batch)
        return []

    def _expire(self, batch: Any) -> None:
        age_ms = int((time.monotonic() - batch.created) * 1000)
        partition = f"{batch.topic_partition.topic}-{batch.topic_partition.partition}"
        text = f"Expiring {batch.record_count} record(s) for {partition}:"
        text += f"{age_ms} ms has passed since batch creation"
        self._complete_batch_with_exception(batch, KafkaTimeoutError(text))

    def _complete_batch(self, batch: Any, partition_response: Any) -> None:
        if batch.final_state is None:
            super()._complete_batch(batch, partition_response)

    def _dispatch_error(self, batch: Any, exception: Any, partition_response: Any) -> None:
        """What comes for a batch that has expired says nothing of its partition: another one of it
        may be in flight by now, and the client would send the next one, too."""
        if batch.final_state is None:
            super()._dispatch_error(batch, exception, partition_response)

    def _maybe_send_pending_request(self) -> bool:
        """Send the request for a producer id, or see to a connection for it; whether there is one
        to be sent. The client does nothing else until it has a connection: no record expires as
        long as no broker answers."""
        manager, client = self._transaction_manager, self._client
        handler = manager.next_request_handler(self._accumulator.has_incomplete)
        if handler is None:
            return False
        node = client.least_loaded_node()
        again_s = self._asked_s + self.config["retry_backoff_ms"] / 1000
        if handler.is_retry and self._now_s < again_s:
            manager.retry(handler)
        elif node is None:
            manager.retry(handler)
            self._metadata.request_update()
        elif not client.is_ready(node):
            manager.retry(handler)
            client.maybe_connect(node, wakeup=False)
        else:
            self._asked_s = self._now_s
            number = manager.next_in_flight_request_correlation_id()
            client.send(node, handler.request).add_both(_answered, handler, number)
        return True  # what was sent is waited for, or the next attempt

    def _can_retry(self, batch: Any, error: type[BaseException]) -> bool:
        """One of a former producer id, too, which it is sent with again: the client gives it up."""
        return (
            issubclass(error, RetriableError)
            and batch.final_state is None
            and batch.attempts < self.config["retries"]
            and not batch.has_reached_delivery_timeout(self._accumulator.delivery_timeout_ms)
        )


def abandon(producer: KafkaProducer) -> None:
    """Let it go as it is: its own `close` waits for records, and the process ends."""
    producer._unregister_cleanup()
    producer._closed = True


def _answered(handler: Any, number: int, found: Any) -> None:
    """The client asks again after a lost connection only: after a timeout it would write nothing
    more."""
    if isinstance(found, RetriableError):
        found = KafkaConnectionError(str(found))
    handler.on_complete(number, found)


class _TransactionManager(TransactionManager):  # type: ignore[misc]
    """What knows the producer id and the sequence numbers."""

    _current_state: Any

    def reset_producer_id(self) -> None:
        """Forget the producer id, so that another one is asked for; the client stays in a state in
        which it asks for none. In any other state it is asking for one, or never will."""
        with self._lock:
            if self._current_state == TransactionState.READY:
                super().reset_producer_id()
                self._current_state = TransactionState.UNINITIALIZED

    def _lookup_coordinator(self, *_: object) -> None:
        """Any broker gives a producer id, also one that has refused it; the client would look for a
        coordinator, for ever."""

    def classify_batch_error(
        self, error: BaseException, batch: Any, log_start_offset: int | None = -1
    ) -> str:
        """What fails for good has had sequence numbers, which the broker has seen or not: what
        follows needs another producer id. The client goes on with the present one after a timeout,
        so that the next batch is refused, and fails all that follow where a record is refused
        (MESSAGE_TOO_LARGE, INVALID_RECORD, ...)."""
        found: str = super().classify_batch_error(error, batch, log_start_offset=log_start_offset)
        if found == self.ERROR_CLASS_FATAL and type(error) in self._FATAL_ERRORS:
            return found  # no record of this producer can be written
        present = self.producer_id_and_epoch
        if not (present.is_valid and present.match(batch)):
            return str(self.ERROR_CLASS_RETRIABLE)  # nothing else: it is not tried again
        if found in (self.ERROR_CLASS_FATAL, self.ERROR_CLASS_RETRIABLE):
            found = self.ERROR_CLASS_NEEDS_PRODUCER_ID_RESET
        return found
