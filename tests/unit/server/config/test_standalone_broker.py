"""What a standalone broker can't do is said at the start, with the line to change."""

from __future__ import annotations

import pytest

from kavka.server.config import BrokerSettings

TYPICAL = b"""\
offsets.topic.replication.factor=3
transaction.state.log.replication.factor=3
transaction.state.log.min.isr=2
"""


def warnings(*overrides: str, properties: bytes = b"") -> tuple[str, ...]:
    return BrokerSettings.load(properties, environ={}, overrides=overrides).warnings


def test_a_file_that_was_written_for_a_cluster() -> None:
    groups, transactions, in_sync = warnings(properties=TYPICAL)
    assert groups == (
        "consumer groups will not be served: offsets.topic.replication.factor=3, but a lone "
        "broker can't hold more than one replica of a partition; set "
        "offsets.topic.replication.factor=1 (server.properties, line 1)"
    )
    assert transactions.startswith("transactions will not be served: ")
    assert "set transaction.state.log.replication.factor=1" in transactions
    assert "server.properties, line 2" in transactions
    assert "transaction.state.log.min.isr=2 (server.properties, line 3)" in in_sync


@pytest.mark.parametrize(
    "key",
    [
        "default.replication.factor",
        "min.insync.replicas",
        "offsets.topic.replication.factor",
        "transaction.state.log.min.isr",
        "transaction.state.log.replication.factor",
    ],
)
def test_each_is_named_if_it_is_more_than_one(key: str) -> None:
    assert warnings(f"{key}=1") == ()
    (warning,) = warnings(f"{key}=2")
    assert f"{key}=2" in warning and f"set {key}=1" in warning


def test_what_was_left_alone_is_not() -> None:
    """Though by Apache Kafka's defaults two are above 1: they count for no standalone broker."""
    assert warnings() == ()


def test_settings_of_clusters_have_no_effect() -> None:
    given = ["replica.fetch.min.bytes=2", "replica.fetch.max.bytes=1048576"]
    (warning,) = BrokerSettings.load(overrides=given).warnings
    assert warning == "no effect: replica.fetch.min.bytes (there is no zookeeper.connect)"
    beside_others = ["zookeeper.connect=z", "broker.id=1", "offsets.topic.replication.factor=3"]
    assert BrokerSettings.load(overrides=[*given, *beside_others]).warnings == ()
