"""`kavka get-offsets` and `kavka log-dirs` print what Apache Kafka's tools print."""

from __future__ import annotations

from pathlib import Path

import pytest
from kafka import KafkaProducer

from commands.sessions import differences
from kavka.tools.admin import get_offsets, log_dirs
from support import java
from support.broker import Kavka
from support.clients.kafka_python import create_topic
from support.java_tools import Tools
from support.oracle import ApacheKafka
from support.process import BrokerProcess, running

GET_OFFSETS = "org.apache.kafka.tools.GetOffsetShell"
LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"
FIRST_MS = 1_700_000_000_000

OFFSETS = f"""
    --topic orders
    --topic orders --time earliest
    --topic orders --time -1
    --topic orders --time -2
    --topic orders --time -3
    --topic orders --time max-timestamp
    --topic orders --time earliest-local
    --topic orders --time latest-tiered
    --topic orders --time earliest-pending-upload
    --topic orders --time -6
    --topic orders --time {FIRST_MS + 7}
    --topic orders --time {FIRST_MS + 10_000}
    --topic orders --partitions 1,10
    --topic orders --partitions 40
    --topic o.*,p.* --exclude-internal-topics
    --topic-partitions orders:0,plain
    --topic-partitions orders:9-,plain:-1
    --topic-partitions :1-3
    --topic-partitions o.*:2
    --topic-partitions orders:x
    --topic nope
    --topic orders --time soon
    --topic orders --partitions a
    --topic orders --topic-partitions orders
    --orders
    !--topic orders
"""

DIRECTORIES = """
    --describe
    --describe --topic-list orders
    --describe --topic-list orders,nope,plain
    --describe --topic-list nope
    --describe --broker-list 1
    --describe --broker-list 1,7,9
    --describe --broker-list one
    --topic-list orders
    !--describe
"""


def fill(broker: BrokerProcess) -> None:
    create_topic(broker.bootstrap, "orders", 12)
    create_topic(broker.bootstrap, "plain", 2)
    create_topic(broker.bootstrap, "empty", 1)
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, linger_ms=0)
    for number in range(60):
        sent = producer.send(
            "orders" if number % 3 else "plain",
            b"%04d" % number,
            partition=number % 12 if number % 3 else number % 2,
            timestamp_ms=FIRST_MS + number,
        )
        sent.get(timeout=60)
    producer.close()


@pytest.mark.parametrize("kind", [Kavka, ApacheKafka], ids=lambda kind: kind.kind)
def test_both_tools_say_the_same(kind: type[BrokerProcess], tmp_path: Path) -> None:
    java.program("java")
    brokers = [kind(tmp_path / f"broker-{number}", {}) for number in (1, 2)]
    with running(brokers), Tools(tmp_path / "tools.log") as tools:
        for broker in brokers:
            fill(broker)
        reads = ("--topic", "--describe")  # the last topic may not be known at first
        found = [
            *differences(get_offsets.TOOL, GET_OFFSETS, tools, brokers, OFFSETS, reads=reads),
            *differences(log_dirs.TOOL, LOG_DIRS, tools, brokers, DIRECTORIES, reads=reads),
        ]
        assert not found, "\n".join(found)
