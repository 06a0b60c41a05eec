"""All that is wrong with a file is reported in one start, with what to do about it."""

from __future__ import annotations

import pytest

from kavka.server.config import BrokerSettings, ConfigError
from kavka.server.config.problems import Problems
from support.server_properties import NAMES, followed, read


@pytest.mark.parametrize("name", NAMES)
def test_after_one_refusal_the_file_is_mended(name: str) -> None:
    content = read(name)
    try:
        BrokerSettings.load(content)
    except ConfigError as error:
        content = followed(content, error.problems)
    settings = BrokerSettings.load(content)
    assert all(listener.port in (9092, 9093) for listener in settings.listeners)


def test_apache_kafka_4_s_file_starts_a_broker_as_it_is() -> None:
    assert BrokerSettings.load(read("stock-4.3")).broker_id == 1


def test_apache_kafka_3_9_s_file_is_for_a_cluster() -> None:
    settings = BrokerSettings.load(read("stock-3.9"))
    assert settings.zookeeper_connect == "localhost:2181"
    assert settings.in_cluster


def test_several_are_reported_together() -> None:
    with pytest.raises(ConfigError) as caught:
        BrokerSettings.load(
            b"ssl.client.auth=required\nnum.partitions=0\n",
            environ={"KAVKA_ZOOKEEPER_CONNECT": "z:x", "KAVKA_ZOOKEEPER_SET_ACL": "true"},
            overrides=[
                "process.roles=controller",
                "kavka.http.listener=x",
                "log.cleaner.dedupe.buffer.size=1",
                "max.connections.per.ip=0",
                "node.id=1",
                "broker.id=2",
                "group.consumer.session.timeout.ms=1",
                "max.connections.per.ip.overrides=x",
                "advertised.listeners=OTHER://0.0.0.0:1",
            ],
        )
    error = caught.value
    received = [problem.partition("=")[0].partition(" ")[0] for problem in error.problems]
    assert sorted(received) == [
        "advertised.listeners",
        "group.consumer.session.timeout.ms",
        "group.consumer.session.timeout.ms",
        "inter.broker.listener.name",
        "kavka.http.listener",
        "log.cleaner.dedupe.buffer.size",
        "max.connections.per.ip.overrides",
        "node.id",
        "num.partitions",
        "process.roles",
        "ssl.client.auth",
        "zookeeper.connect",
        "zookeeper.set.acl",
    ]
    assert error.key == received[0] == "node.id"
    assert str(error).splitlines()[0] == "13 problems in the settings:"
    assert str(error).splitlines()[1:] == [f"  {problem}" for problem in error.problems]
    for end in ("delete this line", "unset KAVKA_ZOOKEEPER_SET_ACL"):
        assert sum(problem.endswith(end) for problem in error.problems) == 1


def test_what_a_removed_value_covered_is_notified_too() -> None:
    """Else deleting the line that counts would bring the one before it to light."""
    with pytest.raises(ConfigError) as caught:
        BrokerSettings.load(
            b"quota.window.num=3\nquota.window.num=11\nquota.window.num=x\n",
            environ={"KAVKA_QUOTA_WINDOW_NUM": "5"},
            overrides=["quota.window.num=6"],
        )
    places = [problem.partition(": ")[0] for problem in caught.value.problems]
    assert places == [
        "quota.window.num=6 (--override)",
        "quota.window.num=5 (variable KAVKA_QUOTA_WINDOW_NUM)",
        "quota.window.num=x (server.properties, line 3)",
        "quota.window.num=3 (server.properties, line 1)",
    ]


def test_warnings_come_with_a_refusal() -> None:
    with pytest.raises(ConfigError) as caught:
        BrokerSettings.load(read("secured-3.9"))
    unknown = [text for text in caught.value.warnings if "a setting of" in text]
    assert unknown == [
        "no effect: super.users (server.properties, line 14): "
        "a setting of an authorizer; ACLs come later",
        "no effect: num.partition (server.properties, line 15): "
        "not a setting of Apache Kafka 4.3 or of Kavka; did you mean num.partitions?",
        "no effect: retention.ms (server.properties, line 16): "
        "not a setting of Apache Kafka 4.3 or of Kavka; did you mean log.retention.ms?",
    ]


def test_one_is_raised_as_it_is_and_none_not_at_all() -> None:
    problems = Problems()
    problems.raise_any()
    with problems.collecting():
        raise ConfigError("a is wrong", "a")
    assert problems.has("b", "a")
    assert not problems.has("b")
    with pytest.raises(ConfigError, match=r"^a is wrong$"):
        problems.raise_any()
