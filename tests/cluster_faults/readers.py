"""Who reads partitions from their beginning: all the while, and once more at the end."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition

from sim.history import History, Place, Reading, Seen
from support.transactions.readers import is_end, known_ends

POLL_S = 0.2
RECORDS_MAX = 1000
READ_WITHIN_S = 120.0


def open_consumer(bootstrap: str, places: Iterable[Place], *, committed: bool) -> Consumer:
    """librdkafka's, in no group, from the first offset on. An offset that a log does not have any
    more is an error."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "none",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            "reconnect.backoff.max.ms": 500,
            "topic.metadata.refresh.interval.ms": 5000,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, index, 0) for topic, index in places])
    return consumer


class LiveReader(threading.Thread):
    """Reads partitions as they grow. Where every offset has a record it sees that none is left
    out."""

    def __init__(
        self, bootstrap: str, places: Iterable[Place], history: History, *, name: str, dense: bool
    ) -> None:
        super().__init__(name=name, daemon=True)
        self.readings = {place: Reading(name, place) for place in places}
        self.records = 0
        self._dense = dense
        self._history = history
        self._consumer = open_consumer(bootstrap, self.readings, committed=False)
        self._stopping = threading.Event()
        history.readings += self.readings.values()

    def run(self) -> None:
        while not self._stopping.is_set():
            for message in self._consumer.consume(RECORDS_MAX, POLL_S):
                error = message.error()
                if error is None:
                    self.take(message)
                elif error.code() == KafkaError._AUTO_OFFSET_RESET:
                    self._history.violation(f"I6 cut off: {self.name}: {error}")
        self._consumer.close()

    def take(self, message: object) -> None:
        """A record has come."""
        place, seen = _seen(message)
        reading = self.readings[place]
        if seen.offset < reading.position:
            self._history.violation(
                f"I5 non-monotonic: {self.name} got {place} {seen.offset} after "
                f"{reading.position - 1}"
            )
        elif seen.offset > reading.position and self._dense:
            self._history.violation(
                f"I5 skip: {self.name} was at {place} {reading.position} and got {seen.offset}"
            )
        reading.records.append(seen)
        reading.position = seen.offset + 1
        self.records += 1

    def finish(self) -> None:
        """Read no more."""
        self._stopping.set()
        self.join(READ_WITHIN_S)
        assert not self.is_alive(), f"{self.name} does not end"


def read_all(
    bootstrap: str, places: Iterable[Place], *, name: str, committed: bool = False
) -> dict[Place, Reading]:
    """All that is in partitions, up to what is their end for such a reader."""
    readings = {place: Reading(name, place, committed) for place in places}
    left = set(readings)
    ends = known_ends(bootstrap, readings, "read_committed" if committed else "read_uncommitted")
    until = time.monotonic() + READ_WITHIN_S
    consumer = open_consumer(bootstrap, readings, committed=committed)
    while left:
        assert time.monotonic() < until, f"{left} are not read to their ends"
        for message in consumer.consume(RECORDS_MAX, POLL_S):
            error = message.error()
            if error is None:
                place, seen = _seen(message)
                readings[place].records.append(seen)
                readings[place].position = seen.offset + 1
            elif is_end(message, ends):
                left.discard((message.topic(), message.partition()))
            else:
                assert error.code() != KafkaError._AUTO_OFFSET_RESET, f"{name}: {error}"
    consumer.close()
    return readings


def _seen(message: object) -> tuple[Place, Seen]:
    of_any: Any = message
    place = of_any.topic(), of_any.partition()
    return place, Seen(of_any.offset(), of_any.value(), of_any.key())
