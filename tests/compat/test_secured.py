"""The suite against a broker with TLS and logins: Apache Kafka, with a client of each language."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import pytest

from compat.passing import check_passed
from compat.secured import WAYS, let_in
from kavka.compat_tests.broker import given
from kavka.compat_tests.clients.table import CLIENTS, Client
from kavka.compat_tests.scenarios.every import SCENARIOS
from kavka.compat_tests.suite import Suite
from support import java
from support.process import running
from support.secure_kafka import SecureKafka

JOBS: Final = 2
SETTINGS: Final = {"group.initial.rebalance.delay.ms": "0"}
TRIED: Final = ("plain", "commits", "transactions", "topic-admin")
"""Scenarios with all a driver has: a producer, a member of a group, an admin client."""


ONE: Final = "SASL_SSL"
NOT_SERVED: Final = ("java-0.9", "java-0.10")
"""By Apache Kafka 4 (KIP-896). It lets in no kcat by SCRAM, either: librdkafka sends a wrong nonce
before 2.6.1, and Debian's is older."""

PAIRS: Final = [
    pytest.param(name, client, id=f"{name}-{client.name}")
    for name, way in WAYS.items()
    for client in CLIENTS
    if not client.is_application and not client.access.lack(way.required)
    if client.name not in NOT_SERVED and not (client.name == "kcat" and "SCRAM" in way.mechanism)
    if not (name == ONE and client.quick)
]


class Secured(NamedTuple):
    """The broker, and what clients are given for each way."""

    broker: SecureKafka
    properties: Mapping[str, Mapping[str, str]]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    java.program("java")
    broker = SecureKafka(tmp_path_factory.mktemp("secured"), SETTINGS)
    with running([broker]):
        yield Secured(broker, {name: let_in(broker, way) for name, way in WAYS.items()})


@pytest.mark.parametrize(
    "client", [client for client in CLIENTS if client.quick], ids=lambda client: client.name
)
async def test_a_client_of_each_language_gets_in(secured: Secured, client: Client) -> None:
    await gets_in(secured, ONE, client)


@pytest.mark.parametrize(("way", "client"), PAIRS)
async def test_every_client_gets_in_every_way(secured: Secured, way: str, client: Client) -> None:
    await gets_in(secured, way, client)


async def gets_in(secured: Secured, way: str, client: Client) -> None:
    scenarios = [scenario for scenario in SCENARIOS if scenario.name in TRIED]
    bootstrap = secured.broker.at(WAYS[way].listener)
    async with given(bootstrap, secured.properties[way]) as broker:
        suite = Suite(broker, JOBS, lambda cell, left: None)
        results = await suite.run([client], scenarios, "secured")
    check_passed(results)
