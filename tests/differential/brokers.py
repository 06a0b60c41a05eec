"""The brokers of the differential test: two judges, and a Kavka beside each of them.

One Kavka for each judge, so that both of a pair have seen the same requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from differential.run import Pair
from kavka.compat_tests.broker import RECORDED_WITH, SETTINGS_FOR_PROTOCOL
from kavka.compat_tests.raw.judges import NEW, OLD
from support import java
from support.broker import Kavka
from support.oracle import AskingApacheKafka
from support.oracle39 import ApacheKafka39
from support.process import BrokerProcess, running

JUDGES: Final[Mapping[str, type[BrokerProcess]]] = {NEW: AskingApacheKafka, OLD: ApacheKafka39}

PROJECTS: Final = ("kafka4", "kafka39")
"""The jars of both judges."""

SAME_SETTINGS: Final[Mapping[str, str]] = {"broker.id": "1", **SETTINGS_FOR_PROTOCOL}
"""Of Kavka, so that both of a pair have the same id, and ask clients for metrics."""


@contextmanager
def judges(home: Path, names: Iterable[str]) -> Iterator[dict[str, BrokerProcess]]:
    """Apache Kafkas, by version; they are started at the same time."""
    for project in PROJECTS:  # without Java the test is skipped here and not in a thread
        java.libs(project)
    brokers = {name: JUDGES[name](home / f"kafka-{name}", RECORDED_WITH) for name in names}
    with running(brokers.values()):
        yield brokers


@contextmanager
def pairs(home: Path, ports: Mapping[str, int], prefix: str = "") -> Iterator[dict[str, Pair]]:
    """A Kavka beside each judge, of which the ports are given."""
    kavkas = {name: Kavka(home / f"kavka-for-{name}", SAME_SETTINGS) for name in ports}
    try:
        for kavka in kavkas.values():
            kavka.start()
        yield {name: Pair(name, kavkas[name].port, port, prefix) for name, port in ports.items()}
    finally:
        for kavka in kavkas.values():
            kavka.close()
    for kavka in kavkas.values():
        assert "Traceback (most recent call last)" not in kavka.output(), kavka.tail()
