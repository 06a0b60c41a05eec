"""Brokers for the tests of this directory: one shared by tests that leave it running, and a
factory for those that kill, stop or configure theirs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient

from support.broker import StartBroker, broker_kind, finish
from support.oracle import ApacheKafka
from support.process import BrokerProcess


@pytest.fixture
def start_broker(tmp_path: Path) -> Iterator[StartBroker]:
    """Start brokers of the kind under test: `start_broker(**{"log.segment.bytes": "1048576"})`."""
    brokers: list[BrokerProcess] = []

    def start(**settings: str) -> BrokerProcess:
        broker = broker_kind()(tmp_path / f"broker-{len(brokers)}", settings)
        brokers.append(broker)
        return broker.start()

    yield start
    for broker in brokers:
        finish(broker)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One broker for all tests that don't disturb it. Each test uses topics of its own."""
    shared = broker_kind()(tmp_path_factory.mktemp("shared-broker"))
    try:
        yield shared.start()
    finally:
        finish(shared)


@pytest.fixture(scope="session")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """Apache Kafka itself."""
    kafka = ApacheKafka(tmp_path_factory.mktemp("oracle"))
    try:
        yield kafka.start()
    finally:
        kafka.close()


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic name that no other test uses."""
    kept = [char if char.isalnum() or char in ".-" else "-" for char in request.node.name]
    return "".join(kept)


@pytest.fixture
def admin(broker: BrokerProcess) -> Iterator[KafkaAdminClient]:
    """kafka-python's admin client."""
    with closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap)) as client:
        yield client


@pytest.fixture
def confluent(broker: BrokerProcess) -> AdminClient:
    """librdkafka's admin client."""
    return AdminClient({"bootstrap.servers": broker.bootstrap})
