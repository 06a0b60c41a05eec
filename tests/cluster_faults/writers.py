"""Idempotent producers of stock clients that write at a steady pace, through anything.

A value is `NAME:NUMBER:PADDING`; the name has the partition in it, whose records are numbered
from 0. A producer that has given a record up ends, and another begins, with another name.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from typing import Any, cast

from confluent_kafka import KafkaException

from sim.history import UNKNOWN_OFFSET, History, Write
from support.clients.idempotent import AiokafkaWriter, ConfluentWriter, KafkaPythonWriter, Writer
from support.clients.idempotent import History as Outcomes

BURST = 10
PADDING = b"." * 60
KEYS = 50
"""Of the topic that is compacted."""


class Recorder(Outcomes):
    """Notes what becomes of records in the history that is judged."""

    def __init__(self, history: History) -> None:
        super().__init__()
        self._history = history
        self.given_up = threading.Event()

    def acknowledge(self, value: bytes, partition: int, offset: int) -> None:
        name = value.partition(b":")[0]
        self.by_writer[name] += 1
        if value in self._history.acknowledged:
            self._history.violation(f"I3 acknowledged twice: {value!r}")
        self._history.acknowledged[value] = UNKNOWN_OFFSET if offset < 0 else offset

    def fail(self, value: bytes, error: object) -> None:
        self._history.given_up[value] = str(error)
        self.given_up.set()


class Paced(Writer):
    """Writes some records a second."""

    rate: float = 100.0
    made: History

    def run(self) -> None:
        recorder = cast(Recorder, self.history)
        try:
            for number in itertools.count():
                for partition in range(self.partitions):
                    if self._stopping.is_set() or recorder.given_up.is_set():
                        return
                    self._write(partition, number)
                if number * self.partitions % BURST < self.partitions:
                    self._stopping.wait(max(BURST, self.partitions) / self.rate)
        except Exception as error:
            self.made.violation(f"{self.name} ended: {error!r}")
        finally:
            self.flush()

    def _write(self, partition: int, number: int) -> None:
        producer = f"{self.name}@{partition}"
        value = b"%s:%d:%s" % (producer.encode(), number, PADDING)
        write = Write(producer, (self.topic, partition), is_idempotent=True, is_dense=True)
        self.made.writes[value] = write
        key = self._keys[number % len(self._keys)]
        if key is not None:
            self.made.keys[value] = key
        try:
            self.send(partition, key, value)
        except KafkaException as error:  # librdkafka refuses what does not exist by its metadata
            self.history.fail(value, error)


class Confluent(Paced, ConfluentWriter):
    """librdkafka's."""


class KafkaPython(Paced, KafkaPythonWriter):
    """kafka-python's."""


class Aiokafka(Paced, AiokafkaWriter):
    """aiokafka's."""


KINDS: Sequence[type[Paced]] = (Confluent, KafkaPython, Aiokafka)


class Producing(threading.Thread):
    """One producer after the other of a kind."""

    def __init__(
        self,
        kind: type[Paced],
        bootstrap: str,
        topic: str,
        partitions: int,
        history: History,
        *,
        rate: float,
        name: str,
        keys: int = 0,
    ) -> None:
        super().__init__(name=name, daemon=True)
        self.topic = topic
        self.successors = 0
        """How many have given up."""
        self._made: Any = (kind, bootstrap, topic, partitions)
        self._more = {"rate": rate, "keys": keys}
        self._history = history
        self._stopping = threading.Event()
        self._writer: Paced | None = None
        self._acknowledged = 0

    @property
    def acknowledged(self) -> int:
        """How many records."""
        writer = self._writer
        return self._acknowledged + (0 if writer is None else writer.history.by_writer.total())

    def run(self) -> None:
        kind, bootstrap, topic, partitions = self._made
        while not self._stopping.is_set():
            recorder = Recorder(self._history)
            name = f"{self.name}.{self.successors}"
            writer = kind(
                bootstrap, topic, partitions, recorder, keys=self._more["keys"], name=name
            )
            writer.rate, writer.made = self._more["rate"], self._history
            self._writer = writer
            writer.start()
            while writer.is_alive():
                writer.join(0.1)
                if self._stopping.is_set():
                    writer.stop()
            self._writer = None
            self._acknowledged += recorder.by_writer.total()
            self.successors += 1

    def stop(self) -> None:
        """Write no more."""
        self._stopping.set()

    def finish(self, within_s: float) -> None:
        """Returns when all that was written is acknowledged or given up."""
        self.stop()
        self.join(within_s)
        assert not self.is_alive(), f"{self.name} does not end"
