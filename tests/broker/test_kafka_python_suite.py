"""kafka-python's own integration tests, unmodified, against a broker (`make foreign`)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support import kafka_python_suite as suite
from support.broker import Kavka, broker_kind, finish
from support.kafka_python_suite import PASSED
from support.ports import HOST

NEEDS_AN_AUTHORIZER = "test_create_describe_delete_acls"
"""Which neither broker has here: a broker without one knows no ACLs."""

FOR_OLDER_BROKERS = "test_kafka_consumer_offsets_for_time_old"


class AdvertisingKavka(Kavka):
    """The setting whose source the tests look at is in its configuration, as in Apache Kafka's."""

    def command(self) -> list[str]:
        advertised = f"advertised.listeners=PLAINTEXT://{HOST}:{self.port}"
        return [*super().command(), "--override", advertised]


@pytest.fixture
def bootstrap(tmp_path: Path) -> Iterator[str]:
    kind = AdvertisingKavka if broker_kind() is Kavka else broker_kind()
    broker = kind(tmp_path / "broker", suite.SETTINGS)
    try:
        yield broker.start().bootstrap
    finally:
        finish(broker)


@pytest.mark.timeout(300)
def test_quorum_and_moves_between_log_directories(bootstrap: str, tmp_path: Path) -> None:
    names = ("test_describe_metadata_quorum", "test_alter_replica_log_dirs")
    tests = [f"test_admin_integration.py::{name}" for name in names]
    found = suite.run(bootstrap, tmp_path, tests)
    assert found == dict.fromkeys(names, PASSED)


@pytest.mark.timeout(1200)
def test_the_whole_suite(bootstrap: str, tmp_path: Path) -> None:
    found = suite.run(bootstrap, tmp_path)
    assert found.pop(FOR_OLDER_BROKERS).startswith("skipped")
    assert found.pop(NEEDS_AN_AUTHORIZER) != PASSED
    assert {name: outcome for name, outcome in found.items() if outcome != PASSED} == {}
    assert len(found) > 50
