"""All clients' rounds against both brokers, and what differs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from admin import (
    confluent,
    confluent_groups,
    java_configs,
    java_features,
    java_groups,
    java_tools,
    java_transactions,
    kafka_python,
    kafka_python_features,
    kafka_python_groups,
    kafka_python_transactions,
)
from admin.cells import Client, Outcome
from admin.operations import IN_ORDER
from admin.place import Place
from kavka.compat_tests.raw.differences import Difference, differences
from support import java
from support.broker import Kavka
from support.oracle import ApacheKafka
from support.process import BrokerProcess, running

MORE_CELLS: Final = (
    confluent_groups,
    java_configs,
    java_features,
    java_groups,
    java_transactions,
    kafka_python_features,
    kafka_python_groups,
    kafka_python_transactions,
)
"""They add to the clients' cells."""

CLIENTS: Final[Sequence[Client]] = (kafka_python.CLIENT, confluent.CLIENT, java_tools.CLIENT)
NO_WAITING: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
}
"""Groups are made for the clients, and need not wait for more members."""


@dataclass(frozen=True)
class Cell:
    """One operation of one client, with what both brokers made of it."""

    client: str
    operation: str
    kavka: Outcome
    kafka: Outcome

    def differences(self) -> list[Difference]:
        """Where the two differ; in the path "" when it is the word."""
        if self.kavka.word != self.kafka.word:
            return [Difference("", self.kavka.word, self.kafka.word)]
        return list(differences(self.kavka.shown, self.kafka.shown))


@contextmanager
def brokers(home: Path) -> Iterator[tuple[BrokerProcess, BrokerProcess]]:
    """Kavka and Apache Kafka, running."""
    java.kafka_libs()  # without Java the test is skipped here and not in a thread
    pair = (
        Kavka(home / "kavka", {"broker.id": "1", **NO_WAITING}),
        ApacheKafka(home / "kafka", NO_WAITING),
    )
    with running(pair):
        yield pair
    kavka, _ = pair
    assert "Traceback (most recent call last)" not in kavka.output(), kavka.tail()


def matrix(
    pair: tuple[BrokerProcess, BrokerProcess], home: Path, clients: Sequence[Client] = CLIENTS
) -> list[Cell]:
    """Every cell; the brokers are asked at the same time, the clients one after another."""
    with ThreadPoolExecutor(2) as pool:
        ours, theirs = pool.map(lambda broker: _rounds(broker, home, clients), pair)
    return [
        Cell(client.name, operation, ours[client.name][operation], theirs[client.name][operation])
        for client in clients
        for operation in IN_ORDER
        if operation in client.cells
    ]


def _rounds(
    broker: BrokerProcess, home: Path, clients: Sequence[Client]
) -> Mapping[str, Mapping[str, Outcome]]:
    found = {}
    for client in clients:
        folder = home / f"{client.prefix}-{broker.kind.replace(' ', '-')}"
        folder.mkdir()
        found[client.name] = client.run(Place(broker, client.prefix, folder))
    return found
