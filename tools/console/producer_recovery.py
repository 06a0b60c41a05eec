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

    def run_once(self) -> None:
        """Records expire before others are taken to be sent: the client takes some, finds that it
        needs another producer id, and leaves them where they are until they expire. They expire
        also while there is none."""
        in_flight = self._get_expired_inflight_batches()
        expired = self._accumulator.expired_batches()
        for batch in (*in_flight, *expired):
            age_ms = int((time.monotonic() - batch.created) * 1000)
            place = f"{batch.topic_partition.topic}-{batch.topic_partition.partition}"
            text = f"Expiring {batch.record_count} record(s) for {place}:"
            text += f"{age_ms} ms has passed since batch creation"
            self._complete_batch_with_exception(batch, KafkaTimeoutError(text))
        if self._transaction_manager and (in_flight or any(one.in_retry() for one in expired)):
            # the broker may have them or not: their numbers are not to be used again
            self._transaction_manager.reset_producer_id()
        super().run_once()

    def _maybe_send_pending_request(self) -> bool:
        """Send the request for a producer id, or see to a connection for it; whether there is one
        to be sent. The client does nothing else until it has a connection: no record expires as
        long as no broker answers."""
        manager, client = self._transaction_manager, self._client
        handler = manager.next_request_handler(self._accumulator.has_incomplete)
        if handler is None:
            return False
        node = client.least_loaded_node()
        if node is None:
            manager.retry(handler)
            self._metadata.request_update()
        elif not client.is_ready(node):
            manager.retry(handler)
            client.maybe_connect(node, wakeup=False)
        else:
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

    def classify_batch_error(
        self, error: BaseException, batch: Any, log_start_offset: int | None = -1
    ) -> str:
        """A record that the broker refuses (MESSAGE_TOO_LARGE, INVALID_RECORD, ...) fails alone, as
        its sequence number is not used; the client would fail all that follow. What is not for
        the present producer id changes nothing."""
        found: str = super().classify_batch_error(error, batch, log_start_offset=log_start_offset)
        is_fatal = found == self.ERROR_CLASS_FATAL
        if is_fatal and type(error) in self._FATAL_ERRORS:
            return found  # no record of this producer can be written
        if not self.producer_id_and_epoch.match(batch):
            found = self.ERROR_CLASS_RETRIABLE  # nothing else: it is not tried again
        elif is_fatal:
            found = self.ERROR_CLASS_NEEDS_PRODUCER_ID_RESET
        return found
