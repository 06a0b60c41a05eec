"""The clients, one row each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from kavka.compat_tests.clients import java, python
from kavka.compat_tests.driver import Program


class Client(NamedTuple):
    """One line of the matrix."""

    name: str
    """As options spell it."""
    title: str
    language: str
    install: Callable[[], Program]
    """How to start its driver; what it needs is there when this returns. Unavailable."""
    quick: bool = False
    """Whether the quick subset has it: one a language."""


def _java(name: str, version: str, driver: str, *, quick: bool = False) -> Client:
    install = java.kafka_clients(version, driver)
    return Client(name, "Apache Kafka's client", "Java", install, quick=quick)


CLIENTS: Final = (
    Client(
        "kafka-python",
        "kafka-python",
        "Python",
        python.here("kafka_python_driver.py", "kafka"),
        quick=True,
    ),
    _java("java-4", "kafka_4", "modern", quick=True),
    _java("java-3.9", "kafka_3_9", "modern"),
    _java("java-2.8", "kafka_2_8", "modern"),
    _java("java-1.1", "kafka_1_1", "old"),
    _java("java-0.10", "kafka_0_10", "old"),
    _java("java-0.9", "kafka_0_9", "old"),
    _java("java-0.8", "kafka_0_8", "old"),
)
