"""The topics that a fuzzed broker has, and the stock clients that look after them."""

from __future__ import annotations

from contextlib import closing
from typing import Any
from uuid import UUID

from kafka import KafkaConsumer, KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic
from kafka.errors import TopicAlreadyExistsError, UnknownTopicOrPartitionError

from fuzz import prober
from fuzz.requests import BOMB_TOPIC, PARTITIONS, TOPICS, World
from support.process import BrokerProcess
from support.wait import eventually

BROKER_ID = 1
KEPT = {**dict.fromkeys(TOPICS, PARTITIONS), BOMB_TOPIC: 1, prober.TOPIC: 1}
"""Topics with their numbers of partitions."""

CLIENT_TIMEOUT_MS = 60_000
AFTERWARDS_RECORDS = 200


def prepare(broker: BrokerProcess) -> World:
    """Create the topics; what there is then."""
    with _admin(broker) as admin:
        admin.create_topics([NewTopic(name, count, 1) for name, count in KEPT.items()])
        found = eventually(
            lambda: _described(admin), within_s=CLIENT_TIMEOUT_MS / 1000, what="topics are known"
        )
    return World(BROKER_ID, found)


def _described(admin: KafkaAdminClient) -> dict[str, UUID] | None:
    found = admin.describe_topics(list(TOPICS))
    if any(topic["error_code"] for topic in found):
        return None
    return {topic["name"]: _uuid(topic["topic_id"]) for topic in found}


def _uuid(found: Any) -> UUID:
    return found if isinstance(found, UUID) else UUID(str(found))


def tidy(broker: BrokerProcess) -> None:
    """Take away the topics that damaged requests made, and put back those that they took."""
    eventually(
        lambda: _try_to_tidy(broker),
        within_s=CLIENT_TIMEOUT_MS / 1000,
        what="there are the topics that there should be",
        detail=broker.tail,
    )


def _try_to_tidy(broker: BrokerProcess) -> bool:
    """A topic may be on its way in or out when it is looked for."""
    with _admin(broker) as admin:
        there = admin.list_topics()
        made = [name for name in there if name not in KEPT]
        missing = [NewTopic(name, n, 1) for name, n in KEPT.items() if name not in there]
        try:
            if made:
                admin.delete_topics(made)
            if missing:
                admin.create_topics(missing)
        except (TopicAlreadyExistsError, UnknownTopicOrPartitionError):
            return False
    return True


def _admin(broker: BrokerProcess) -> closing[KafkaAdminClient]:
    """A stock admin client for as long as the context lasts."""
    return closing(
        KafkaAdminClient(bootstrap_servers=broker.bootstrap, request_timeout_ms=CLIENT_TIMEOUT_MS)
    )


def write_and_read(broker: BrokerProcess, topic: str) -> tuple[list[bytes], list[bytes]]:
    """What a stock client wrote to a new topic, and what it read from it."""
    with _admin(broker) as admin:
        admin.create_topics([NewTopic(topic, 1, 1)])
    values = [b"%d" % index for index in range(AFTERWARDS_RECORDS)]
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
    sent = [producer.send(topic, value) for value in values]
    for future in sent:
        future.get(CLIENT_TIMEOUT_MS / 1000)
    producer.close()
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=broker.bootstrap,
        auto_offset_reset="earliest",
        group_id=None,
        consumer_timeout_ms=CLIENT_TIMEOUT_MS,
    )
    read = [record.value for record, _ in zip(consumer, values, strict=False)]
    consumer.close()
    return values, read
