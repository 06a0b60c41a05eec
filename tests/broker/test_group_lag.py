"""The lag of groups on /metrics is what Apache Kafka's kafka-consumer-groups says of them."""

from __future__ import annotations

from contextlib import closing

from kafka import KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition

from support import java
from support.broker import StartBroker
from support.clients.kafka_python import create_topic
from support.metrics import Scrape, scrape
from support.ports import HOST, free_port
from support.process import BrokerProcess

CONSUMER_GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
WRITTEN = (30, 7, 12)
"""Records by partition."""

READ_WITHIN_MS = 60_000
LAG = "kafka_consumergroup_lag"
NO_LAG = "-"


def fill(broker: BrokerProcess, topic: str) -> None:
    create_topic(broker.bootstrap, topic, len(WRITTEN))
    with closing(KafkaProducer(bootstrap_servers=broker.bootstrap, acks="all")) as producer:
        for partition, count in enumerate(WRITTEN):
            for _ in range(count):
                producer.send(topic, b"v", partition=partition)
        producer.flush()


def read_some(broker: BrokerProcess, topic: str, group_id: str, count: int) -> KafkaConsumer:
    """A member of a group that has read so many records, and committed that."""
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=broker.bootstrap,
        group_id=group_id,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        consumer_timeout_ms=READ_WITHIN_MS,
    )
    consumer.topics()  # a leader that does not know the topic yet may assign nothing, for ever
    for _ in range(count):
        next(consumer)
    consumer.commit()
    return consumer


def described(broker: BrokerProcess) -> dict[tuple[str, str, str], int]:
    """What the tool says of all groups: by group, topic and partition."""
    server = ("--bootstrap-server", broker.bootstrap)
    done = java.run(CONSUMER_GROUPS, *server, "--describe", "--all-groups")
    assert done.exit_code == 0, done.text + done.stderr
    rows = [line.split() for line in done.text.splitlines()]
    return {
        (group, topic, partition): int(lag)
        for group, topic, partition, _, _, lag, *_ in (row for row in rows if len(row) > 5)
        if group != "GROUP" and lag != NO_LAG
    }


def lags(page: Scrape) -> dict[tuple[str, str, str], float]:
    return {
        (group, topic, partition): lag for (group, partition, topic), lag in page.all(LAG).items()
    }


def test_lag_is_what_apache_kafka_s_tool_says(start_broker: StartBroker) -> None:
    port = free_port()
    broker = start_broker(**{"kavka.http.listener": f"{HOST}:{port}"})
    for topic in ("orders", "payments"):
        fill(broker, topic)
    assert lags(scrape(port)) == {}
    with (
        closing(read_some(broker, "orders", "billing", 20)),
        closing(read_some(broker, "orders", "shipping", sum(WRITTEN))),
        closing(read_some(broker, "payments", "billing's", 5)) as third,
    ):
        third.commit({TopicPartition("payments", 2): OffsetAndMetadata(3, "", -1)})
        found = lags(scrape(port))
        assert found == described(broker)
        by_group = {
            group: sum(lag for (owner, _, _), lag in found.items() if owner == group)
            for group in ("billing", "shipping")
        }
        assert by_group == {"billing": sum(WRITTEN) - 20, "shipping": 0}
        fill_more(broker)
        assert lags(scrape(port)) == described(broker)
    assert lags(scrape(port)) == described(broker), "without members"


def fill_more(broker: BrokerProcess) -> None:
    with closing(KafkaProducer(bootstrap_servers=broker.bootstrap, acks="all")) as producer:
        for _ in range(100):
            producer.send("orders", b"v", partition=1)
        producer.flush()
