"""Sends records of lines by kafka-python, with a limit to what waits."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Mapping
from contextlib import closing
from typing import Any, Final, Self

from kafka import KafkaProducer
from kafka.errors import KafkaError, KafkaTimeoutError, UnknownError
from kafka.serializer import Serializer

from kavka.tools.admin.errors import Failed
from kavka.tools.console.client_settings import arguments, number
from kavka.tools.console.lines import Line
from kavka.tools.console.producer_recovery import abandon, recovering_producer
from kavka.tools.progress import Status
from kavka.tools.unacknowledged import say_waiting

OVERHEAD_BYTES: Final = 200
"""What a record that waits costs beside its content, about."""

WAIT_S: Final = 0.2
"""The longest single wait: a signal that comes just before one is heard at its end."""

_NULL: Final = object()


class _Value(Serializer):  # type: ignore[misc]  # the library has no types
    """Allows for records with neither key nor value, which the client else refuses."""

    def serialize(self, topic: str, headers: Any, data: Any) -> Any:
        return None if data is _NULL else data


class Sender:
    """Between `with` and its end, where it waits for what is not yet answered."""

    def __init__(self, topic: str, properties: Mapping[str, str]) -> None:
        """Failed if the properties make no sense."""
        self._topic = topic
        self._free = number("buffer.memory", properties["buffer.memory"].strip())
        self._memory = self._free
        self._changed = threading.Condition()
        self._pending = 0
        """Records that were given to the client and are not yet answered."""
        found = arguments(properties, KafkaProducer.DEFAULT_CONFIG)
        least_ms = found["linger_ms"] + found["request_timeout_ms"]
        default_ms = KafkaProducer.DEFAULT_CONFIG["delivery_timeout_ms"]
        found.setdefault("delivery_timeout_ms", max(default_ms, least_ms))
        logging.getLogger("kafka").addHandler(logging.NullHandler())
        try:
            self._producer = recovering_producer(value_serializer=_Value(), **found)
        except (KafkaError, ValueError, TypeError, RuntimeError, AssertionError) as error:
            raise Failed(f"the producer can't be made so: {error}") from error
        if found.get("transactional_id"):
            self._producer.close()
            raise Failed("transactional.id: a console producer begins no transaction")

    def send(self, line: Line) -> None:
        """Send it, once there is memory for it; an error is said on standard error."""
        size = _size(line)
        needed = min(size, self._memory)
        with self._changed:
            while self._free < needed:
                self._changed.wait(WAIT_S)
            self._free -= size
            self._pending += 1
        try:
            future = self._send(line)
        except (KafkaError, ValueError) as error:
            self._failed(line, size, error)
            return
        self._follow(future, line, size)

    def send_and_wait(self, line: Line) -> None:
        """Send it at once and wait for the answer. Failed if it is an error."""
        try:
            future = self._send(line)
            try:
                self._flush()
                future.get()
            except KeyboardInterrupt:
                with self._changed:
                    self._pending += 1
                self._follow(future, line, 0)
                raise
        except (KafkaError, ValueError) as error:
            raise Failed(f"the record could not be written: {error}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *failure: object) -> None:
        is_interrupted = kind is not None and issubclass(kind, KeyboardInterrupt)
        try:
            if is_interrupted and self._pending:
                say_waiting()
            self._flush()
            # no answer is waited for but with acks=0, where records may still be in the client
            self._producer.close(timeout=None if self._producer.config["acks"] == 0 else 0)
        except KeyboardInterrupt:
            self._give_up()
            raise

    def _flush(self) -> None:
        """Wait until all records are acknowledged, or have failed. On a terminal it shows meanwhile
        what is waited for."""
        with closing(Status()) as status:
            while True:
                try:
                    self._producer.flush(WAIT_S)
                except KafkaTimeoutError:
                    status.show(lambda: "waiting for brokers")
                except UnknownError:
                    """One of the batches has been split, and its parts are not waited for yet."""
                else:
                    return

    def _give_up(self) -> None:
        if self._pending:
            print(f"{self._pending:,} record(s) may not be written.", file=sys.stderr)
        abandon(self._producer)

    def _send(self, line: Line) -> Any:
        if line.headers and any(value is None for _, value in line.headers):
            # KafkaProducer.send refuses None; a serializer can put it into the headers after that,
            # and it would be written, but ProducerBatch.try_append takes len() of each value
            raise Failed("kafka-python can't write the null value of a header")
        value = _NULL if line.value is None else line.value
        return self._producer.send(
            self._topic, value=value, key=line.key, headers=list(line.headers)
        )

    def _follow(self, future: Any, line: Line, size: int) -> None:
        future.add_callback(lambda _: self._done(size))
        future.add_errback(lambda error: self._failed(line, size, error))

    def _done(self, size: int) -> None:
        with self._changed:
            self._pending -= 1
            self._free += size
            self._changed.notify()

    def _failed(self, line: Line, size: int, error: BaseException) -> None:
        self._done(size)
        key, value = (
            "null" if part is None else f"{len(part)} bytes" for part in (line.key, line.value)
        )
        # in one piece: the client's thread and the main one may both be here
        sys.stderr.write(
            f"Error when sending message to topic {self._topic} with key: {key}, value: {value} "
            f"with error: {error}\n"
        )


def _size(line: Line) -> int:
    content = len(line.key or b"") + len(line.value or b"")
    return OVERHEAD_BYTES + content + sum(len(name) + len(it or b"") for name, it in line.headers)
