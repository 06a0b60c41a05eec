"""Rules over several settings; most are judged through `BrokerSettings` in test_settings."""

from __future__ import annotations

import pytest

from kavka.server.config import BrokerSettings, ConfigError


def problems(*overrides: str) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        BrokerSettings.load(overrides=overrides)
    return caught.value.problems


def test_a_bad_list_of_listeners_is_the_only_problem_reported() -> None:
    (only,) = problems("listeners=IN:1", "inter.broker.listener.name=IN")
    assert only.startswith("listeners=IN:1 (--override): IN:1 is not of the form NAME://host:port")


def test_listeners_of_a_controller_alone() -> None:
    received = problems(
        "listeners=C://:1",
        "advertised.listeners=C://h:1",
        "controller.listener.names=C",
        "process.roles=controller",
    )
    assert [text.partition("=")[0] for text in received] == [
        "process.roles",
        "listeners",
        "advertised.listeners",
    ]
    assert received[1].endswith("at least one listener is needed; set listeners=PLAINTEXT://:9092")
    assert received[2].endswith("at least one listener is needed; leave this --override out")


def test_all_listeners_that_use_tls_are_named_with_one_thing_to_do() -> None:
    (only,) = problems(
        "listeners=PLAINTEXT://:1,IN://:2,SSL://:3", "listener.security.protocol.map=IN:SSL,SSL:SSL"
    )
    assert "it has no protocol for listener PLAINTEXT" in only
    assert "listener IN uses SSL, SSL uses SSL, but Kavka speaks PLAINTEXT only" in only
    remedy = "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,IN:PLAINTEXT,SSL:PLAINTEXT"
    assert f"set {remedy} (without encryption" in only
    BrokerSettings.load(overrides=["listeners=PLAINTEXT://:1,IN://:2,SSL://:3", remedy])


def test_a_value_stays_on_its_line() -> None:
    (only,) = problems("listeners=a\nb")
    assert "\n" not in only


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "'' is not host:port, as in host1:2181,host2:2181/kafka"),
        ("a:2181,b:x", "'b:x' is not host:port, as in host1:2181,host2:2181/kafka"),
        ("a:2181//kafka", "the path '//kafka' has an empty part"),
    ],
)
def test_where_zookeeper_is(text: str, reason: str) -> None:
    (only,) = problems(f"zookeeper.connect={text}", "broker.id=1")
    assert only == f"zookeeper.connect={text} (--override): {reason}"


def test_a_broker_of_a_cluster_has_an_id() -> None:
    (only,) = problems("zookeeper.connect=z:1")
    assert only == (
        "broker.id (not set): zookeeper.connect needs it: ids are not generated; set broker.id=1"
    )
    for key in ("broker.id", "node.id"):
        BrokerSettings.load(overrides=["zookeeper.connect=z:1", f"{key}=0"])


def test_times_of_replication() -> None:
    key = "replica.fetch.wait.max.ms"
    (only,) = problems("replica.lag.time.max.ms=100")
    reason = f"{key} must be at most replica.lag.time.max.ms"
    assert only == f"replica.lag.time.max.ms=100 (--override): {reason}"
    received = problems(f"{key}=40000")
    assert [one.rpartition(" ")[2] for one in received] == [
        "replica.socket.timeout.ms",
        "replica.lag.time.max.ms",
    ]
    (only,) = problems("zookeeper.session.timeout.ms=0")
    assert only == "zookeeper.session.timeout.ms=0 (--override): must be at least 1"
