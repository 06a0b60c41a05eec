"""Sends records of lines by kafka-python, with a limit to what waits."""

from __future__ import annotations

import itertools
import logging
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import closing, suppress
from typing import Any, Final, Self

from kafka import KafkaProducer
from kafka.errors import KafkaError, KafkaTimeoutError
from kafka.serializer import Serializer

from kavka.tools.admin.errors import Failed
from kavka.tools.console.client_settings import arguments, number
from kavka.tools.console.lines import Line
from kavka.tools.progress import Status
from kavka.tools.unacknowledged import say_waiting

OVERHEAD_BYTES: Final = 200
"""What a record that waits costs beside its content, about."""

WAIT_S: Final = 0.2
"""The longest single wait: a signal that comes just before one is heard at its end."""

SLACK_S: Final = 5.0
"""How late the client may be with telling of a record whose delivery.timeout.ms has passed."""

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
        self._numbers = itertools.count()
        self._pending: dict[int, Line] = {}
        """Lines that were given to the client and are not yet answered, in their order."""
        self._moved_s = 0.0
        """When the last answer came, or the client took the first of those lines."""
        found = arguments(properties, KafkaProducer.DEFAULT_CONFIG)
        least_ms = found["linger_ms"] + found["request_timeout_ms"]
        default_ms = KafkaProducer.DEFAULT_CONFIG["delivery_timeout_ms"]
        found.setdefault("delivery_timeout_ms", max(default_ms, least_ms))
        self._patience_s = found["delivery_timeout_ms"] / 1000 + SLACK_S
        logging.getLogger("kafka").addHandler(logging.NullHandler())
        try:
            self._producer = KafkaProducer(value_serializer=_Value(), **found)
        except (KafkaError, ValueError, TypeError, RuntimeError, AssertionError) as error:
            raise Failed(f"the producer can't be made so: {error}") from error
        if found.get("transactional_id"):
            self._producer.close()
            raise Failed("transactional.id: a console producer begins no transaction")

    def send(self, line: Line) -> None:
        """Send it, once there is memory for it; an error is said on standard error. Failed if the
        client has stopped answering."""
        try:
            number = self._enter(line)
        except KafkaTimeoutError as stuck:
            self._give_up(stuck)
            self._complain(line, stuck)
            raise Failed(f"no more lines are read: {stuck.args[0]}") from stuck
        try:
            future = self._send(line)
        except (KafkaError, ValueError) as error:
            self._failed(number, error)
            return
        future.add_callback(lambda _: self._done(number))
        future.add_errback(lambda error: self._failed(number, error))

    def send_and_wait(self, line: Line) -> None:
        """Send it at once and wait for the answer. Failed if it is an error."""
        try:
            future = self._send(line)
            self._flush()
            future.get()
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
            self._producer.close()
        except KafkaTimeoutError as stuck:
            self._give_up(stuck)
        except KeyboardInterrupt:
            self._leave()
            raise

    def _enter(self, line: Line) -> int:
        """The line's number among those that are pending, once there is memory for it.
        KafkaTimeoutError: see `_check`."""
        size, number = _size(line), next(self._numbers)
        with self._changed:
            if self._pending:
                self._check()
            while not self._changed.wait_for(lambda: self._free >= min(size, self._memory), WAIT_S):
                self._check()
            self._free -= size
            self._pending[number] = line
        return number

    def _flush(self) -> None:
        """Wait until all records are acknowledged, or have failed. KafkaTimeoutError: see `_check`.
        On a terminal it shows meanwhile what is waited for."""
        with closing(Status()) as status:
            while True:
                try:
                    self._producer.flush(WAIT_S)
                except KafkaTimeoutError:
                    self._check()
                    status.show(lambda: "waiting for brokers")
                    continue
                return

    def _check(self) -> None:
        """KafkaTimeoutError if the client has stopped answering. After a record that was sent more
        than once has expired, it asks for a new producer id, and only for that: as long as no
        broker gives one, no other record expires."""
        if time.monotonic() - self._moved_s > self._patience_s:
            raise KafkaTimeoutError(f"nothing was answered for {self._patience_s:g} s")

    def _give_up(self, why: KafkaTimeoutError) -> None:
        """Say of all records that they are not known to be written."""
        with self._changed:
            lines = [*self._pending.values()]
            self._pending.clear()
        for line in lines:
            self._complain(line, why)
        self._leave()

    def _leave(self) -> None:
        with suppress(KafkaTimeoutError):  # of the records that are given up
            self._producer.close(timeout=0)

    def _send(self, line: Line) -> Any:
        if any(value is None for _, value in line.headers):
            # KafkaProducer.send refuses None; a serializer can put it into the headers after that,
            # and it would be written, but ProducerBatch.try_append takes len() of each value
            raise Failed("kafka-python can't write the null value of a header")
        value = _NULL if line.value is None else line.value
        try:
            return self._producer.send(
                self._topic, value=value, key=line.key, headers=list(line.headers)
            )
        finally:
            if len(self._pending) <= 1:  # no other one is waited for
                self._moved_s = time.monotonic()

    def _done(self, number: int) -> Line | None:
        """It is answered: the line, unless it was given up before."""
        with self._changed:
            line = self._pending.pop(number, None)
            if line is not None:
                self._moved_s = time.monotonic()
                self._free += _size(line)
                self._changed.notify()
        return line

    def _failed(self, number: int, error: BaseException) -> None:
        line = self._done(number)
        if line is not None:
            self._complain(line, error)

    def _complain(self, line: Line, error: BaseException) -> None:
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
