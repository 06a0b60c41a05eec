"""Reads records by kafka-python, and prints them."""

from __future__ import annotations

import logging
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple, Self

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError

from kavka.tools.admin.errors import Failed
from kavka.tools.console.client_settings import arguments
from kavka.tools.console.formatters import Formatter
from kavka.tools.patterns import user_pattern

POLL_MS: Final = 1_000
"""The longest call of the client, so that Ctrl-C is soon heard."""

EARLIEST: Final = -2
LATEST: Final = -1


class Source(NamedTuple):
    """What to read."""

    topic: str | None
    pattern: str | None
    """A regular expression, in place of the topic."""
    partition: int | None
    """One of the topic's; all if None, as a member of a group."""
    offset: int
    """Where to begin with one partition; EARLIEST, LATEST."""


class Stop(NamedTuple):
    """When to end; None for never."""

    limit: int | None
    silent_ms: int | None


class Reader:
    """Between `with` and its end, where it says how many records there were."""

    def __init__(self, source: Source, properties: Mapping[str, str]) -> None:
        """Failed if the properties or the source make no sense."""
        _check(source)
        logging.getLogger("kafka").addHandler(logging.NullHandler())
        self._count = 0
        self._left: dict[TopicPartition, int] = {}
        try:
            self._consumer = KafkaConsumer(**arguments(properties, KafkaConsumer.DEFAULT_CONFIG))
        except (KafkaError, ValueError, TypeError, AssertionError) as error:
            raise Failed(f"the consumer can't be made so: {error}") from error
        self._source = source

    def print_all(self, formatter: Formatter, stop: Stop, *, skips: bool) -> int:
        """Print records until it is to stop; the exit code. `skips`: go on behind a record that
        can't be printed."""
        out = sys.stdout.buffer
        try:
            self._begin(self._source)
            for record in self._records(stop):
                try:
                    formatter.write(record, out)
                except Failed as failed:
                    if not skips:
                        raise
                    print(f"Skipping a record that can't be read: {failed}", file=sys.stderr)
                if not self._left:
                    out.flush()
            out.flush()
        except BrokenPipeError:
            print("Unable to write to standard out, closing consumer.", file=sys.stderr)
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except (KafkaError, ValueError) as error:  # this of names that no topic can have
            out.flush()
            print(f"Reading ends with an error: {error}", file=sys.stderr)
        return 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        try:
            for partition, offset in self._left.items():
                self._consumer.seek(partition, offset)
            self._consumer.close()
        finally:
            print(f"Processed a total of {self._count} messages", file=sys.stderr)

    def _begin(self, source: Source) -> None:
        if source.partition is None:
            if source.topic is not None:
                self._consumer.subscribe([source.topic])
            else:
                self._consumer.subscribe(pattern=whole_name(source.pattern or ""))
            return
        partition = TopicPartition(source.topic, source.partition)
        self._consumer.assign([partition])
        if source.offset == EARLIEST:
            self._consumer.seek_to_beginning(partition)
        elif source.offset == LATEST:
            self._consumer.seek_to_end(partition)
        else:
            self._consumer.seek(partition, source.offset)

    def _records(self, stop: Stop) -> Iterator[Any]:
        """Each is counted when it is handed out; those behind it are `_left`."""
        heard_s = time.monotonic()
        while stop.limit is None or stop.limit == -1 or self._count < stop.limit:
            left_ms: float = POLL_MS
            if stop.silent_ms is not None:
                left_ms = stop.silent_ms - (time.monotonic() - heard_s) * 1000
                if left_ms < 0:
                    return
            found = self._consumer.poll(timeout_ms=min(left_ms, POLL_MS))
            for partition, records in found.items():
                self._left[partition] = records[0].offset
            for partition, records in found.items():
                for record in records:
                    if self._count == stop.limit:
                        return
                    self._count += 1
                    self._left[partition] = record.offset + 1
                    if record is records[-1]:
                        del self._left[partition]
                    yield record
            if found:
                heard_s = time.monotonic()


def whole_name(pattern: str) -> re.Pattern[str]:
    """What matches names of topics from begin to end. Failed."""
    return user_pattern(pattern, "--include", suffix=r"\Z")


def _check(source: Source) -> None:
    """Failed if nothing can be read there: what the client refuses when it is too late."""
    if source.topic == "":
        raise Failed("--topic is empty")
    if source.pattern is not None:
        whole_name(source.pattern)
