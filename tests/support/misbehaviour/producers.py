"""Idempotent producers of stock clients, each replaced by a new one when it has given up."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, cast

from support import golang, java, java_compiler
from support.clients.idempotent import (
    GIVE_UP_S,
    ConfluentWriter,
    History,
    KafkaPythonWriter,
    Writer,
)
from support.misbehaviour.judge import Outcomes, numbered
from support.paths import JAVA

IN_FLIGHT_MAX = 5
BATCH_BYTES = 2_000
"""Small, so that there are many requests."""
BACKOFF_MS, BACKOFF_MAX_MS = 5, 20
JAVA_PROGRAM = JAVA / "producers" / "IdempotentWriter.java"


class Hearing(History):
    """A history that makes a difference between what is there, what is not, and what may be."""

    def __init__(self) -> None:
        super().__init__()
        self.outcomes = Outcomes()
        self.given_up: set[str] = set()
        """Writers that have given a record up."""

    def acknowledge(self, value: bytes, partition: int, offset: int) -> None:
        record = numbered(value)
        self.outcomes.acknowledge(record, offset)
        self.by_writer[record.writer.encode()] += 1
        if record.partition != partition:
            self.outcomes.complaints.append(f"{record} is acknowledged for {partition}")

    def fail(self, value: bytes, error: object) -> None:
        record = numbered(value)
        self.outcomes.give_up(record, str(error))
        self.given_up.add(record.writer)


class Confluent(ConfluentWriter):
    """librdkafka's, with up to five requests in flight."""

    settings = MappingProxyType(
        {
            "batch.size": BATCH_BYTES,
            "linger.ms": 0,
            "max.in.flight": IN_FLIGHT_MAX,
            "reconnect.backoff.ms": BACKOFF_MS,
            "reconnect.backoff.max.ms": BACKOFF_MAX_MS,
            "retry.backoff.ms": BACKOFF_MS,
        }
    )


class NotIdempotent(Confluent):
    """It sends again what was not answered, and no broker notices that it is the same."""

    label = "not-idempotent"
    settings = MappingProxyType({**Confluent.settings, "enable.idempotence": False, "acks": "all"})


class KafkaPython(KafkaPythonWriter):
    """kafka-python's, with up to five requests in flight."""

    settings = MappingProxyType(
        {
            "batch_size": BATCH_BYTES,
            "linger_ms": 0,
            "max_in_flight_requests_per_connection": IN_FLIGHT_MAX,
            "reconnect_backoff_ms": BACKOFF_MS,
            "reconnect_backoff_max_ms": BACKOFF_MAX_MS,
            "retry_backoff_ms": BACKOFF_MS,
        }
    )


class Program(Writer):
    """A producer in a process of its own, which writes until its standard input ends.

    It is given `BOOTSTRAP TOPIC PARTITIONS NAME SETTING=VALUE…` and reports line by line
    `ack PARTITION NUMBER OFFSET` and `fail PARTITION NUMBER WHY`; a failure is its end.
    """

    settings = MappingProxyType(
        {
            "batch.size": BATCH_BYTES,
            "linger.ms": 0,
            "max.in.flight.requests.per.connection": IN_FLIGHT_MAX,
            "reconnect.backoff.ms": BACKOFF_MS,
            "reconnect.backoff.max.ms": BACKOFF_MAX_MS,
            "retry.backoff.ms": BACKOFF_MS,
            "delivery.timeout.ms": int(GIVE_UP_S * 1000),
        }
    )

    @staticmethod
    def command() -> tuple[list[str], Mapping[str, str]]:
        """What to run, in which environment; what is needed is installed, or the test skipped."""
        raise NotImplementedError

    def run(self) -> None:
        command, environment = self.command()
        given = [f"{name}={value}" for name, value in self.settings.items()]
        process = subprocess.Popen(
            [*command, self.bootstrap, self.topic, str(self.partitions), self.name, *given],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=dict(environment),
            start_new_session=True,
        )
        try:
            self._listen(process)
        finally:
            process.kill()
            process.wait(GIVE_UP_S)

    def _listen(self, process: subprocess.Popen[bytes]) -> None:
        stdin, stdout = cast(Any, process.stdin), cast(Any, process.stdout)
        for line in stdout:
            outcome, partition, number, rest = line.split(maxsplit=3)
            value = b"%s/%s/%s/" % (self.name.encode(), partition, number)
            if outcome == b"ack":
                self.history.acknowledge(value, int(partition), int(rest))
            else:
                self.history.fail(value, rest.decode())
            if self._stopping.is_set() and not stdin.closed:
                stdin.close()
        stdin.close()
        stdout.close()
        if process.wait(GIVE_UP_S) != 0:
            self.history.failures.append(f"{self.name} ended with {process.returncode}")

    def send(self, partition: int, key: bytes | None, value: bytes) -> None:
        """The process does it."""

    def flush(self) -> None:
        """So it does this."""


class Java(Program):
    """Java's."""

    label = "java"

    @staticmethod
    def command() -> tuple[list[str], Mapping[str, str]]:
        return java_compiler.command_line(JAVA_PROGRAM), java.environment()


class FranzGo(Program):
    """franz-go's."""

    label = "franz-go"

    @staticmethod
    def command() -> tuple[list[str], Mapping[str, str]]:
        return [str(golang.program("writer"))], os.environ
