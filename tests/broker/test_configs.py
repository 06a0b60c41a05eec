"""Settings changed while the broker runs, by the admin clients of kafka-python and librdkafka, and
what producers and files see of it. On Apache Kafka a change may be a moment late."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing, suppress
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ResourceType,
)
from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import ConfigResource as PythonConfigResource
from kafka.errors import MessageSizeTooLargeError

from support import java
from support.broker import StartBroker
from support.clients.kafka_python import create_topic
from support.process import BrokerProcess
from support.wait import eventually

TIMEOUT_S = 60
SMALL_BYTES = 1000
RECORD = b"x" * (3 * SMALL_BYTES)


@pytest.fixture
def broker(start_broker: StartBroker) -> BrokerProcess:
    """A broker whose settings may be changed."""
    return start_broker()


def alter(admin: KafkaAdminClient, kind: str, name: str, configs: Mapping[str, Any]) -> str:
    """Change configs by kafka-python; the outcome in words."""
    resource = PythonConfigResource(kind, name, configs=dict(configs))
    answer = admin.alter_configs([resource], raise_on_unknown=False)
    outcome: str = answer[kind.lower()][name]
    return outcome


def change(confluent: AdminClient, resource: ConfigResource, *changes: ConfigEntry) -> None:
    """Change configs by librdkafka."""
    for entry in changes:
        resource.add_incremental_config(entry)
    confluent.incremental_alter_configs([resource])[resource].result(TIMEOUT_S)


def set_to(key: str, value: str) -> ConfigEntry:
    return ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)


def unset(key: str) -> ConfigEntry:
    return ConfigEntry(key, None, incremental_operation=AlterConfigOpType.DELETE)


def send(broker: BrokerProcess, topic: str) -> bool:
    """Whether a record of a few kilobytes is taken."""
    with closing(KafkaProducer(bootstrap_servers=broker.bootstrap)) as producer:
        try:
            producer.send(topic, RECORD).get(timeout=TIMEOUT_S)
        except MessageSizeTooLargeError:
            return False
    return True


def await_sent(broker: BrokerProcess, topic: str, taken: bool) -> None:
    """The change is in force."""
    eventually(
        lambda: send(broker, topic) is taken, within_s=TIMEOUT_S, what=f"records taken: {taken}"
    )


def segments(broker: BrokerProcess, topic: str) -> int:
    """Files with records."""
    return len(list((broker.data_dir / f"{topic}-0").glob("*.log")))


def test_a_topic_s_limit(broker: BrokerProcess, admin: KafkaAdminClient, topic: str) -> None:
    create_topic(broker.bootstrap, topic, 1)
    await_sent(broker, topic, True)
    assert alter(admin, "TOPIC", topic, {"max.message.bytes": str(SMALL_BYTES)}) == "OK"
    await_sent(broker, topic, False)
    assert alter(admin, "TOPIC", topic, {"max.message.bytes": ("DELETE", None)}) == "OK"
    await_sent(broker, topic, True)


def test_the_broker_s_limit(broker: BrokerProcess, confluent: AdminClient, topic: str) -> None:
    create_topic(broker.bootstrap, topic, 1)
    resource = ConfigResource(ResourceType.BROKER, "1")
    change(confluent, resource, set_to("message.max.bytes", str(SMALL_BYTES)))
    await_sent(broker, topic, False)
    resource = ConfigResource(ResourceType.BROKER, "1")
    change(confluent, resource, unset("message.max.bytes"))
    await_sent(broker, topic, True)


def test_the_limit_of_all_brokers(broker: BrokerProcess, topic: str) -> None:
    """By Java's tool, since no other client has the defaults of all brokers."""
    create_topic(broker.bootstrap, topic, 1)
    defaults = (
        f"--bootstrap-server={broker.bootstrap}",
        "--entity-type=brokers",
        "--entity-default",
    )
    limit = f"message.max.bytes={SMALL_BYTES}"
    made = java.run(java.CONFIGS, *defaults, "--alter", f"--add-config={limit}")
    assert (made.exit_code, made.stderr) == (0, ""), made
    await_sent(broker, topic, False)
    printed = java.run(java.CONFIGS, *defaults, "--describe")
    assert (
        f"  {limit} sensitive=false synonyms={{DYNAMIC_DEFAULT_BROKER_CONFIG:{limit}}}"
        in printed.text
    )
    made = java.run(java.CONFIGS, *defaults, "--alter", "--delete-config=message.max.bytes")
    assert (made.exit_code, made.stderr) == (0, ""), made
    await_sent(broker, topic, True)


def test_segments_roll(broker: BrokerProcess, admin: KafkaAdminClient, topic: str) -> None:
    create_topic(broker.bootstrap, topic, 1)
    assert alter(admin, "TOPIC", topic, {"segment.bytes": "1048576"}) == "OK"
    with closing(KafkaProducer(bootstrap_servers=broker.bootstrap, acks="all")) as producer:

        def rolled() -> bool:
            producer.send(topic, b"x" * 900_000).get(timeout=TIMEOUT_S)
            return segments(broker, topic) > 1

        eventually(rolled, within_s=TIMEOUT_S, what="a second segment")


def test_what_is_described_and_kept(
    broker: BrokerProcess, confluent: AdminClient, topic: str
) -> None:
    create_topic(broker.bootstrap, topic, 1)
    of_topic = ConfigResource(ResourceType.TOPIC, topic)
    change(confluent, of_topic, set_to("retention.ms", "60000"), set_to("flush.ms", "77"))
    of_broker = ConfigResource(ResourceType.BROKER, "1")
    change(confluent, of_broker, set_to("log.index.interval.bytes", "5000"))

    def described(confluent: AdminClient) -> dict[str, tuple[str | None, str]]:
        resource = ConfigResource(ResourceType.TOPIC, topic)
        configs = confluent.describe_configs([resource])[resource].result(TIMEOUT_S)
        keys = ("retention.ms", "flush.ms", "index.interval.bytes", "segment.bytes")
        return {key: (configs[key].value, ConfigSource(configs[key].source).name) for key in keys}

    expected = {
        "retention.ms": ("60000", "DYNAMIC_TOPIC_CONFIG"),
        "flush.ms": ("77", "DYNAMIC_TOPIC_CONFIG"),
        "index.interval.bytes": ("5000", "DYNAMIC_BROKER_CONFIG"),
        "segment.bytes": ("1073741824", "DEFAULT_CONFIG"),
    }
    eventually(
        lambda: described(confluent) == expected, within_s=TIMEOUT_S, what="all is described"
    )
    broker.kill()
    broker.start()
    again = AdminClient({"bootstrap.servers": broker.bootstrap})

    def described_again() -> bool:
        with suppress(KafkaException):  # Apache Kafka loads topics after it has started
            return described(again) == expected
        return False

    eventually(described_again, within_s=TIMEOUT_S, what="all is described after SIGKILL")


@pytest.mark.parametrize(
    ("kind", "name", "configs", "reason"),
    [
        ("BROKER", "1", {"num.partitions": "3"}, "Cannot update these configs dynamically"),
        ("BROKER", "1", {"log.retention.ms": "x"}, "Not a number of type LONG"),
        ("BROKER", "1", {"log.cleanup.policy": ("APPEND", "keep")}, "String must be one of"),
        ("TOPIC", "no-such-topic", {"retention.ms": "1"}, "The topic 'no-such-topic' does not"),
        ("BROKER_LOGGER", "1", {"no.such.logger": "INFO"}, "Logger no.such.logger does not exist"),
    ],
)
def test_refused(
    broker: BrokerProcess,
    admin: KafkaAdminClient,
    kind: str,
    name: str,
    configs: Mapping[str, Any],
    reason: str,
) -> None:
    assert reason in alter(admin, kind, name, configs)


def test_loggers(broker: BrokerProcess, admin: KafkaAdminClient) -> None:
    assert alter(admin, "BROKER_LOGGER", "1", {"root": "DEBUG"}) == "OK"
    resources = [PythonConfigResource("BROKER_LOGGER", "1")]
    found = admin.describe_configs(resources, config_filter="all")["broker_logger"]["1"]
    assert found["root"]["value"] == "DEBUG"
    assert len(found) > 10
    eventually(lambda: " DEBUG " in broker.output(), within_s=TIMEOUT_S, what="debug lines")
