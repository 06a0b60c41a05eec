"""Rules over several settings; most are judged through `BrokerSettings` in test_settings."""

from __future__ import annotations

import pytest

from kavka.server.config import BrokerSettings, ConfigError
from kavka.server.config.cluster_rows import ID_TO_GENERATE
from kavka.server.config.dynamic_rules import Dynamic


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


def in_cluster(*overrides: str) -> BrokerSettings:
    return BrokerSettings.load(overrides=["zookeeper.connect=z:1", *overrides])


def test_the_id_of_a_broker_of_a_cluster_may_be_generated() -> None:
    """As `KafkaConfig.validateValues` of Apache Kafka 3.9 says."""
    assert in_cluster().broker_id == ID_TO_GENERATE
    assert in_cluster("broker.id=-1").broker_id == ID_TO_GENERATE
    assert in_cluster("broker.id=-1", "node.id=4").broker_id == 4
    assert in_cluster("broker.id=0", "broker.id.generation.enable=false").broker_id == 0
    (only,) = problems("zookeeper.connect=z:1", "broker.id.generation.enable=false")
    assert only == (
        "broker.id (not set): zookeeper.connect needs it, as broker.id.generation.enable=false; "
        "set broker.id=1"
    )


def test_generated_ids_are_above_those_that_are_given() -> None:
    assert in_cluster("broker.id=1000").broker_id == 1000
    (only,) = problems("zookeeper.connect=z:1", "broker.id=1001")
    assert only == (
        "broker.id=1001 (--override): is above reserved.broker.max.id=1000: such ids are "
        "generated; raise reserved.broker.max.id, or set broker.id.generation.enable=false"
    )
    assert in_cluster("node.id=1001", "reserved.broker.max.id=1001").broker_id == 1001
    assert in_cluster("broker.id=9999", "broker.id.generation.enable=false").broker_id == 9999
    assert BrokerSettings.load(overrides=["broker.id=1001"]).broker_id == 1001, "alone"


def test_a_generated_id_stays_when_settings_change() -> None:
    settings = in_cluster().with_generated_id(1001)
    changed = settings.with_dynamic(Dynamic({"log.retention.ms": "5"}))
    assert (changed.broker_id, changed.value("broker.id")) == (1001, 1001)
    assert changed.topic_defaults.retention_ms == 5


def test_times_of_replication() -> None:
    key = "replica.fetch.wait.max.ms"
    (only,) = problems("replica.lag.time.max.ms=100")
    reason = f"{key} must be at most replica.lag.time.max.ms"
    assert only == f"replica.lag.time.max.ms=100 (--override): {reason}"
    received = problems(f"{key}=40000")
    assert [problem.rpartition(" ")[2] for problem in received] == [
        "replica.socket.timeout.ms",
        "replica.lag.time.max.ms",
    ]
    (only,) = problems("zookeeper.session.timeout.ms=0")
    assert only == "zookeeper.session.timeout.ms=0 (--override): must be at least 1"


def test_a_selector_of_replicas_that_kavka_does_not_have() -> None:
    (only,) = problems(
        "replica.selector.class=com.acme.Nearest", "zookeeper.connect=z:1", "broker.id=1"
    )
    assert only == (
        "replica.selector.class=com.acme.Nearest (--override): Kavka does not run Java plug-ins, "
        "and has two selectors of its own; set replica.selector.class="
        "org.apache.kafka.common.replica.RackAwareReplicaSelector"
    )


@pytest.mark.parametrize("name", ["RackAwareReplicaSelector", "LeaderSelector"])
@pytest.mark.parametrize("cluster", [True, False])
def test_selectors_that_it_has(name: str, cluster: bool) -> None:
    own = [f"replica.selector.class=org.apache.kafka.common.replica.{name}", "broker.id=1"]
    found = BrokerSettings.load(environ={}, overrides=[*own, *["zookeeper.connect=z:1"] * cluster])
    assert bool(found.warnings) is not cluster, "a standalone broker says that it has no effect"
