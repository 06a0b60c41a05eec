"""Topics and configurations through the admin clients of kafka-python, librdkafka and Java."""

from __future__ import annotations

import re
from contextlib import closing
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.admin import ConfigResource as PythonConfigResource
from kafka.errors import TopicAlreadyExistsError, UnknownTopicOrPartitionError

from support import java
from support.broker import StartBroker
from support.clients.kafka_python import create_topic, offsets
from support.ports import HOST
from support.process import BrokerProcess
from support.wait import eventually

TIMEOUT_S = 60
RETENTION = {"retention.ms": "60000"}


def is_gone(admin: KafkaAdminClient, topic: str) -> bool:
    """Whether the metadata no longer names a topic."""
    return topic not in admin.list_topics()


def await_gone(admin: KafkaAdminClient, topic: str) -> None:
    """Deletion is acknowledged before it has reached each broker."""
    eventually(lambda: is_gone(admin, topic), within_s=TIMEOUT_S, what=f"{topic} is gone")


def await_topic(admin: KafkaAdminClient, topic: str, partitions: int) -> dict[str, Any]:
    """The metadata of a topic once it is there with a leader for each partition."""
    admin.wait_for_topics([topic], timeout_ms=TIMEOUT_S * 1000)
    (found,) = admin.describe_topics([topic])
    assert sorted(partition["partition_index"] for partition in found["partitions"]) == list(
        range(partitions)
    )
    described: dict[str, Any] = found
    return described


def topic_configs(bootstrap: str, topic: str) -> dict[str, dict[str, Any]]:
    """All that DescribeConfigs says of a topic, by key."""
    resources = [PythonConfigResource("TOPIC", topic)]
    with closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
        answer = admin.describe_configs(resources, config_filter="all")
    configs: dict[str, dict[str, Any]] = answer["topic"][topic]
    return configs


def test_kafka_python(broker: BrokerProcess, admin: KafkaAdminClient, topic: str) -> None:
    create_topic(broker.bootstrap, topic, 3, RETENTION)
    described = await_topic(admin, topic, 3)
    (node,) = admin.describe_cluster()["brokers"]
    for partition in described["partitions"]:
        assert partition["leader_id"] == node["broker_id"]
        assert partition["replica_nodes"] == partition["isr_nodes"] == [node["broker_id"]]
    assert topic in admin.list_topics()
    with pytest.raises(TopicAlreadyExistsError):
        create_topic(broker.bootstrap, topic, 3)
    found = topic_configs(broker.bootstrap, topic)["retention.ms"]
    assert (found["value"], found["config_source"]) == ("60000", "DYNAMIC_TOPIC_CONFIG")

    admin.delete_topics([topic])
    await_gone(admin, topic)
    with pytest.raises(UnknownTopicOrPartitionError):
        admin.delete_topics([topic])


def test_describe_cluster(broker: BrokerProcess, admin: KafkaAdminClient) -> None:
    cluster = admin.describe_cluster()
    (node,) = cluster["brokers"]
    assert (node["host"], node["port"]) == (HOST, broker.port)
    assert cluster["controller_id"] == node["broker_id"]
    assert re.fullmatch(r"[A-Za-z0-9_-]{22}", cluster["cluster_id"])


def test_confluent(confluent: AdminClient, topic: str) -> None:
    created = confluent.create_topics([NewTopic(topic, 2, 1, config=RETENTION)])
    created[topic].result(TIMEOUT_S)

    def found() -> bool:
        listed = confluent.list_topics(timeout=TIMEOUT_S).topics
        return topic in listed and sorted(listed[topic].partitions) == [0, 1]

    eventually(found, within_s=TIMEOUT_S, what=f"{topic} is listed")
    resource = ConfigResource(ResourceType.TOPIC, topic)
    configs = confluent.describe_configs([resource])[resource].result(TIMEOUT_S)
    assert configs["retention.ms"].value == "60000"
    assert not configs["retention.ms"].is_default
    assert configs["cleanup.policy"].is_default
    with pytest.raises(KafkaException, match="TOPIC_ALREADY_EXISTS"):
        confluent.create_topics([NewTopic(topic, 2, 1)])[topic].result(TIMEOUT_S)

    confluent.delete_topics([topic])[topic].result(TIMEOUT_S)
    eventually(
        lambda: topic not in confluent.list_topics(timeout=TIMEOUT_S).topics,
        within_s=TIMEOUT_S,
        what=f"{topic} is gone",
    )
    with pytest.raises(KafkaException, match="UNKNOWN_TOPIC_OR_PART"):
        confluent.delete_topics([topic])[topic].result(TIMEOUT_S)


def topics(broker: BrokerProcess, *arguments: str) -> java.Finished:
    """Run Java's TopicCommand."""
    return java.run(java.TOPICS, f"--bootstrap-server={broker.bootstrap}", *arguments)


def test_java_topic_command(broker: BrokerProcess, admin: KafkaAdminClient, topic: str) -> None:
    named = f"--topic={topic}"
    made = topics(
        broker,
        "--create",
        named,
        "--partitions=3",
        "--replication-factor=1",
        "--config=retention.ms=60000",
    )
    assert (made.exit_code, made.text) == (0, f"Created topic {topic}.\n"), made
    await_topic(admin, topic, 3)
    again = topics(broker, "--create", named)
    assert again.exit_code == 1
    assert f"Topic '{topic}' already exists." in again.text

    assert topic in topics(broker, "--list").text.splitlines()
    described = topics(broker, "--describe", named)
    assert (described.exit_code, described.stderr) == (0, "")
    head, *partitions = described.text.splitlines()
    assert re.fullmatch(
        rf"Topic: {topic}\tTopicId: [A-Za-z0-9_-]{{22}}\tPartitionCount: 3\t"
        r"ReplicationFactor: 1\tConfigs: (.*,)?retention\.ms=60000(,.*)?",
        head,
    )
    for number, line in enumerate(partitions):
        assert re.match(
            rf"\tTopic: {topic}\tPartition: {number}\tLeader: (\d+)\tReplicas: \1\tIsr: \1\t", line
        )
    assert len(partitions) == 3

    gone = topics(broker, "--delete", named)
    assert (gone.exit_code, gone.text, gone.stderr) == (0, "", "")
    await_gone(admin, topic)
    missing = topics(broker, "--describe", named)
    assert missing.exit_code == 1
    assert f"Topic '{topic}' does not exist as expected" in missing.text


def test_first_use_creates_a_topic(
    broker: BrokerProcess, admin: KafkaAdminClient, topic: str
) -> None:
    with closing(KafkaProducer(bootstrap_servers=broker.bootstrap)) as producer:
        sent = producer.send(topic, b"first").get(timeout=TIMEOUT_S)
    assert (sent.partition, sent.offset) == (0, 0)
    await_topic(admin, topic, 1)


def test_a_client_may_forbid_creation(
    broker: BrokerProcess, admin: KafkaAdminClient, topic: str
) -> None:
    with closing(
        KafkaConsumer(bootstrap_servers=broker.bootstrap, allow_auto_create_topics=False)
    ) as consumer:
        assert not consumer.partitions_for_topic(topic)
    assert is_gone(admin, topic)


def test_a_recreated_topic_is_empty(
    broker: BrokerProcess, admin: KafkaAdminClient, topic: str
) -> None:
    create_topic(broker.bootstrap, topic, 1)
    first = await_topic(admin, topic, 1)["topic_id"]
    with closing(KafkaProducer(bootstrap_servers=broker.bootstrap)) as producer:
        producer.send(topic, b"old").get(timeout=TIMEOUT_S)
    admin.delete_topics([topic])
    await_gone(admin, topic)
    create_topic(broker.bootstrap, topic, 1)
    second = await_topic(admin, topic, 1)["topic_id"]
    assert first != second
    assert offsets(broker.bootstrap, topic, 1) == ({0: 0}, {0: 0})


def test_topics_survive_sigkill(start_broker: StartBroker) -> None:
    broker = start_broker()
    create_topic(broker.bootstrap, "kept", 3, RETENTION)
    create_topic(broker.bootstrap, "dropped", 1)
    with closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap)) as admin:
        before = await_topic(admin, "kept", 3)["topic_id"]
        cluster_id = admin.describe_cluster()["cluster_id"]
        admin.delete_topics(["dropped"])
        await_gone(admin, "dropped")
    broker.kill()
    broker.start()
    with closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap)) as admin:
        assert await_topic(admin, "kept", 3)["topic_id"] == before
        await_gone(admin, "dropped")
        assert admin.describe_cluster()["cluster_id"] == cluster_id
    assert topic_configs(broker.bootstrap, "kept")["retention.ms"]["value"] == "60000"


def test_a_topics_settings_are_the_oracles(
    broker: BrokerProcess, oracle: BrokerProcess, topic: str
) -> None:
    found = []
    for side in (broker, oracle):
        create_topic(side.bootstrap, topic, 1, RETENTION)
        with closing(KafkaAdminClient(bootstrap_servers=side.bootstrap)) as admin:
            await_topic(admin, topic, 1)
        configs = topic_configs(side.bootstrap, topic)
        found.append(
            {key: (found["value"], found["config_type"]) for key, found in configs.items()}
        )
    ours, theirs = found
    assert ours == theirs
