from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path

import pytest

import kavka.groupcoord
import kavka.server
import kavka.txncoord
from kavka.server.config import BrokerSettings, ConfigError, Listener
from kavka.server.config.log_defaults import topic_default
from kavka.server.config.table import BROKER, TOPIC, broker_row, broker_rows
from kavka.server.config.value_types import Type

DAY_MS = 86_400_000


def load(*overrides: str) -> BrokerSettings:
    return BrokerSettings.load(overrides=overrides)


def described(listeners: tuple[Listener, ...]) -> str:
    return " ".join(f"{listener.name},{listener.host},{listener.port}" for listener in listeners)


def retention_ms(settings: BrokerSettings) -> str:
    rows = {key: broker_row(key) for key in settings.given}
    values = {key: row.parse(settings.given[key].value) for key, row in rows.items() if row}
    return str(topic_default(TOPIC["retention.ms"], values))


def test_starts_as_kafka_does(recorded: Callable[[str], list[list[str | None]]]) -> None:
    base = ["node.id=1", "log.dirs=d", "controller.listener.names=C"]
    differing = {}
    for given, *expected in recorded("starts.tsv"):
        try:
            settings = load(*base, *filter(None, str(given).split("|")))
        except ConfigError as error:
            ours = ["refused", str(error)]
        else:
            ours = [
                "ok",
                described(settings.listeners),
                described(settings.advertised_listeners),
                " ".join(settings.log_dirs),
                retention_ms(settings),
            ]
        if ours[0] != expected[0] or (ours[0] == "ok" and ours != expected):
            differing[given] = (ours, expected)
    # broker.id's own default is what Kafka refuses beside a node.id; to us it says nothing.
    assert list(differing) == ["broker.id=-1"]


def test_defaults() -> None:
    settings = load()
    assert settings.broker_id == 1
    assert settings.listeners == (Listener("PLAINTEXT", "", 9092),)
    assert settings.advertised_listeners == settings.listeners
    assert settings.log_dirs == ("/tmp/kafka-logs",)
    assert settings.num_partitions == 1
    assert settings.auto_create_topics_enable is True
    assert settings.warnings == ()


PARSED_FURTHER = {
    "kavka_http_listener",
    "max_connections_per_ip_overrides",
    "queued_max_request_bytes",
}
"""Texts with a form of their own."""


def test_each_field_has_one_row() -> None:
    named = sorted(row.field for row in broker_rows() if row.field)
    own = {"dynamic", "given", "group_version", "listener_limits", "topic_defaults", "warnings"}
    own |= {"zookeeper_security"}
    assert named == sorted({field.name for field in dataclasses.fields(BrokerSettings)} - own)


def test_each_field_is_read_somewhere() -> None:
    """A setting is honoured, or its row says that it is not; never is it passed over."""
    server = Path(kavka.server.__file__).parent
    own = server / "config"
    rules = [
        Path(path) for package in (kavka.groupcoord, kavka.txncoord) for path in package.__path__
    ]
    paths = [path for place in (server, *rules) for path in place.rglob("*.py")]
    code = "".join(path.read_text("utf-8") for path in paths if own not in path.parents)
    read = set(re.findall(r"\b(?:settings|settings\(\)|now|old|new)\.([a-z_]+)", code))
    assert [row.name for row in BROKER.values() if row.field and row.field not in read] == []


def test_rows_with_a_field_are_at_hand_at_start_up() -> None:
    assert {row.name for row in broker_rows() if row.field} <= set(BROKER)


def test_every_plain_field_takes_its_row_s_value() -> None:
    texts = {
        Type.BOOLEAN: "false",
        Type.INT: "77777",
        Type.LONG: "7777777",
        Type.STRING: "plaintext",
    }
    narrow = {
        "offsets.topic.compression.codec": "2",
        "group.consumer.assignment.interval.ms": "7777",
        "group.consumer.heartbeat.interval.ms": "7777",
        "group.consumer.min.assignment.interval.ms": "777",
        "group.consumer.min.heartbeat.interval.ms": "777",
        "group.consumer.min.session.timeout.ms": "7777",
        "group.consumer.migration.policy": "upgrade",
        "group.consumer.session.timeout.ms": "47777",
        "kavka.transaction.version": "1",
        "replica.fetch.wait.max.ms": "7777",
        "replica.selector.class": "org.apache.kafka.common.replica.LeaderSelector",
        "zookeeper.connect": "host:77",
        "broker.id": "1",
        "node.id": "1",
    }
    room = (
        "socket.request.max.bytes=77777",
        "log.cleaner.dedupe.buffer.size=1000000000000",
        "broker.id=1",
    )
    plain = [row for row in BROKER.values() if row.field and row.type in texts]
    assert len(plain) > 12
    for row in plain:
        if row.field in PARSED_FURTHER:
            continue
        text = narrow.get(row.name, texts[row.type])
        value = getattr(load(*room, f"{row.name}={text}"), row.field)
        assert value in (row.parse(text), text.upper()), row.name


@pytest.mark.parametrize(
    "given", ["log.cleaner.dedupe.buffer.size=1048576", "log.cleaner.threads=128"]
)
def test_a_cleaner_has_room_for_keys(given: str) -> None:
    with pytest.raises(ConfigError, match="must be more than 1 MiB for each") as caught:
        load(given)
    assert str(caught.value).startswith(given)
    assert load("log.cleaner.dedupe.buffer.size=1048577").log_cleaner_threads == 1
    assert load("log.cleaner.threads=127").log_cleaner_dedupe_buffer_size == 128 << 20


def test_kafka_s_own_file_starts_a_broker(properties: Callable[[str], bytes]) -> None:
    settings = BrokerSettings.load(properties("plain.properties"))
    assert settings.broker_id == 1
    assert settings.listeners == (Listener("PLAINTEXT", "127.0.0.1", 19092),)
    assert settings.advertised_listeners == settings.listeners
    assert settings.log_dirs == ("/tmp/kraft-combined-logs",)
    assert settings.warnings == (
        "no effect: process.roles, controller.quorum.bootstrap.servers "
        "(Kavka's controller is in the broker, there is no KRaft quorum)",
        "no effect: share.coordinator.state.topic.replication.factor, "
        "share.coordinator.state.topic.min.isr (share groups and streams groups are not served)",
    )


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ("ssl.keystore.location=x", "ssl.keystore.location"),
        ("sasl.enabled.mechanisms=PLAIN", "sasl.enabled.mechanisms"),
        ("authorizer.class.name=x", "authorizer.class.name"),
        ("zookeeper.ssl.crl.enable=true", "zookeeper.ssl.crl.enable"),
        ("quota.window.num=3", "quota.window.num"),
        ("remote.log.storage.system.enable=true", "remote.log.storage.system.enable"),
        ("listener.name.in.ssl.client.auth=required", "listener.name.in.ssl.client.auth"),
        ("listener.name.in.plain.sasl.jaas.config=x", "listener.name.in.plain.sasl.jaas.config"),
    ],
)
def test_refused_because_a_broker_that_ignores_it_would_be_wrong(given: str, key: str) -> None:
    with pytest.raises(ConfigError, match="not supported: ") as caught:
        load(given)
    assert caught.value.key == key


@pytest.mark.parametrize(
    "given",
    ["ssl.client.auth=none", "zookeeper.session.timeout.ms=18000", "log.retention.hours=168"],
)
def test_a_setting_at_its_default_logs_nothing(given: str) -> None:
    assert load(given).warnings == ()


@pytest.mark.parametrize(
    ("given", "warning"),
    [
        ("log.preallocate=true", "log.preallocate (segment files grow as they are written)"),
        ("num.io.threads=1", "num.io.threads (Kavka runs on one event loop"),
        ("my.own=1", "my.own (--override): not a setting of Apache Kafka 4.3 or of Kavka"),
        ("listener.name.in.max.connections=5", "listener.name.in.max.connections (no listener"),
        ("listener.name.in.num.partitions=5", "(a setting for one listener is not honoured yet)"),
    ],
)
def test_settings_without_effect_are_logged(given: str, warning: str) -> None:
    (received,) = load(given).warnings
    assert received.startswith("no effect: ")
    assert warning in received


def test_a_bad_value_is_reported_with_place_and_range() -> None:
    with pytest.raises(ConfigError) as caught:
        BrokerSettings.load(b"# head\nnum.partitions=none\n", path="a.properties")
    assert str(caught.value) == (
        "num.partitions=none (a.properties, line 2): "
        "the value must be a whole number from 1 to 2147483647"
    )
    assert caught.value.key == "num.partitions"
    with pytest.raises(ConfigError, match=r"^num.partitions=0 \(variable KAVKA_NUM_PARTITIONS\)"):
        BrokerSettings.load(environ={"KAVKA_NUM_PARTITIONS": "0"})
    with pytest.raises(ConfigError, match=r"^listeners=x \(--override\): x is not of the form"):
        load("listeners=x")


def test_passwords_are_not_described() -> None:
    with pytest.raises(ConfigError) as caught:
        load("ssl.key.password=hush")
    assert "hush" not in str(caught.value)
    assert "ssl.key.password=[hidden] (--override)" in str(caught.value)


def test_node_id_and_broker_id_are_one() -> None:
    assert load("broker.id=7").broker_id == 7
    assert load("node.id=7").broker_id == 7
    assert load("node.id=7", "broker.id=7").broker_id == 7
    assert load("node.id=7", "broker.id=-1").broker_id == 7
    assert load("broker.id=-1").broker_id == 1
    with pytest.raises(ConfigError, match=r"node.id=7 .* differs from broker.id=8 \(--override\)"):
        load("node.id=7", "broker.id=8")
    with pytest.raises(ConfigError, match="node.id=-3"):
        load("node.id=-3")
    with pytest.raises(ConfigError, match="broker.id=x"):
        load("broker.id=x")


def test_log_dirs_stand_above_log_dir() -> None:
    assert load("log.dir=/a, /b").log_dirs == ("/a", "/b")
    assert load("log.dir=/a", "log.dirs=/b").log_dirs == ("/b",)


def test_listeners_of_a_kraft_controller_stay_closed() -> None:
    settings = load("listeners=PLAINTEXT://h:1,CTL://h:2", "controller.listener.names=CTL")
    assert settings.listeners == (Listener("PLAINTEXT", "h", 1),)
    with pytest.raises(ConfigError, match="at least one listener"):
        load("listeners=CTL://h:2", "controller.listener.names=CTL")


def test_the_listener_between_brokers() -> None:
    assert load().inter_broker_listener_name == "PLAINTEXT"
    own = "listener.security.protocol.map=IN:PLAINTEXT"
    settings = load("listeners=IN://h:1", own, "inter.broker.listener.name=in")
    assert settings.inter_broker_listener_name == "IN"
    with pytest.raises(ConfigError, match=r"\(not set\): PLAINTEXT is none of .* listeners IN"):
        load("listeners=IN://h:1", own)


def test_a_controller_alone_is_refused() -> None:
    with pytest.raises(ConfigError, match="cannot be a controller alone"):
        load("process.roles=controller")


def test_times_in_several_units() -> None:
    assert load().topic_defaults.segment_ms == 7 * DAY_MS
    assert load("log.roll.hours=24").topic_defaults.segment_ms == DAY_MS
    assert load("log.roll.hours=24", "log.roll.ms=5").topic_defaults.segment_ms == 5
    assert load("log.flush.scheduler.interval.ms=9").topic_defaults.flush_ms == 9
    both = load("log.flush.scheduler.interval.ms=9", "log.flush.interval.ms=3")
    assert both.topic_defaults.flush_ms == 3


def test_settings_cannot_change() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        load().num_partitions = 2  # type: ignore[misc]
