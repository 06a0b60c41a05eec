"""Kavka's broker as a process, and which broker the tests run against."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Callable, Mapping
from typing import ClassVar

from support.oracle import ApacheKafka
from support.paths import SOURCE, TESTS
from support.ports import HOST
from support.process import BrokerProcess

StartBroker = Callable[..., BrokerProcess]
"""The fixture `start_broker`: settings by keyword, a running broker back."""

READY_LINE = re.compile(rf"^.*\bready\b.*{re.escape(HOST)}:(\d+).*$", re.MULTILINE)


class Kavka(BrokerProcess):
    """`kavka start` of this source tree, strict about requests' bytes: see `support.checked`."""

    kind: ClassVar[str] = "kavka"
    ready_within_s: ClassVar[float] = 120.0
    exit_codes: ClassVar[Mapping[int, int]] = {
        signal.SIGTERM: 0,
        signal.SIGINT: 0,
        signal.SIGHUP: 0,
    }
    module: ClassVar[str] = "support.checked"

    def prepare(self) -> None:
        self.port = self.ports.take()

    def command(self) -> list[str]:
        overrides = {
            "listeners": f"PLAINTEXT://{HOST}:{self.port}",
            "log.dirs": str(self.data_dir),
            **self.settings,
        }
        command = [sys.executable, "-m", self.module, "start"]
        for key, value in overrides.items():
            command += ["--override", f"{key}={value}"]
        return command

    def environment(self) -> dict[str, str]:
        return kavka_environment()

    def ready_port(self, output: str) -> int | None:
        match = READY_LINE.search(output)
        return int(match[1]) if match else None


class PlainKavka(Kavka):
    """As its users start it, for tests that measure time."""

    module: ClassVar[str] = "kavka"


def kavka_environment() -> dict[str, str]:
    """The environment for a `python -m kavka`: this source tree with what tests start, and no
    settings from outside."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("KAVKA_")}
    return {**kept, "PYTHONPATH": f"{SOURCE}{os.pathsep}{TESTS}", "PYTHONUNBUFFERED": "1"}


def broker_kind() -> type[BrokerProcess]:
    """Kavka; or Apache Kafka where KAFKA_TEST_BROKER=apache, to try the tests themselves."""
    return ApacheKafka if os.environ.get("KAFKA_TEST_BROKER") == "apache" else Kavka


def finish(broker: BrokerProcess) -> None:
    """End a test's broker; what went wrong inside it fails the test, also if no client saw it."""
    broker.close()
    print(f"--- {broker.kind}, {broker.home}\n{broker.tail()}")
    if isinstance(broker, Kavka):
        assert "Traceback (most recent call last)" not in broker.output(), broker.tail()
