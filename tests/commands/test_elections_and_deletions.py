"""`kavka broker-api-versions`, `kavka delete-records` and `kavka leader-election` print what Apache
Kafka's tools print."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from kafka import KafkaProducer

from commands.sessions import apache_kafka, differences, kavka
from kavka.tools.admin import broker_api_versions, delete_records, leader_election, topics
from kavka.wire.known_apis import KNOWN
from support import java
from support.broker import Kavka
from support.clients.kafka_python import create_topic
from support.java_tools import Tools
from support.kavka_cluster import serving
from support.oracle import ApacheKafka
from support.oracle39 import ApacheKafka39
from support.process import BrokerProcess, running

API_VERSIONS = "org.apache.kafka.tools.BrokerApiVersionsCommand"
DELETE_RECORDS = "org.apache.kafka.tools.DeleteRecordsCommand"
LEADER_ELECTION = "org.apache.kafka.tools.LeaderElectionCommand"

VERSIONS = """
    --bootstrap-server BROKER
    --bootstrap-server BROKER --nothing
    --bootstrap-server
    !--help-me
"""

ENTRY = {"topic": "orders", "partition": 0, "offset": 3}
FILES = {
    "some": {"partitions": [ENTRY, {**ENTRY, "partition": 1, "offset": -1}], "version": 1},
    "again": {"partitions": [ENTRY]},
    "far": {"partitions": [{**ENTRY, "offset": 99}, {**ENTRY, "partition": 1, "offset": 1}]},
    "compacted": {"partitions": [{**ENTRY, "topic": "kept"}]},
    "none": {"partitions": []},
    "twice": {"partitions": [ENTRY, {**ENTRY, "offset": 4}]},
    "other": {"partitions": [ENTRY], "version": 2},
    "text": {"partitions": [{**ENTRY, "offset": "3"}]},
    "part": {"partitions": [{"topic": "orders"}]},
    "object": {"partitions": {}},
    "empty": {},
    "list": [],
}
DELETIONS = "\n".join(f"--offset-json-file DIR/{name}" for name in (*FILES, "broken", "missing"))
DELETIONS += """
    --offset-json-file DIR/some --offset-json-file DIR/some
    --offset-json-file
    !--offset-json-file DIR/some
    --command-config DIR/missing --offset-json-file DIR/some
"""

ELECTIONS = """
    --election-type preferred --all-topic-partitions
    --election-type PREFERRED --topic orders --partition 0
    --election-type unclean --topic orders --partition 1
    --election-type preferred --topic nope --partition 0
    --election-type preferred --topic orders --partition 9
    --election-type unclean --topic nope --partition 0
    --election-type preferred --path-to-json-file DIR/some
    --election-type preferred --path-to-json-file DIR/again --admin.config DIR/config
    --election-type preferred --path-to-json-file DIR/twice
    --election-type preferred --path-to-json-file DIR/empty
    --election-type preferred --path-to-json-file DIR/part
    --election-type preferred --path-to-json-file DIR/longer
    --election-type preferred --path-to-json-file DIR/broken
    --election-type preferred --path-to-json-file DIR/missing
    --election-type preferred --topic orders
    --election-type preferred --partition 0 --all-topic-partitions
    --election-type preferred --topic orders --partition 0 --all-topic-partitions
    --election-type preferred --topic orders --partition x
    --election-type dirty --all-topic-partitions
    --election-type preferred
    --all-topic-partitions --admin.config DIR/config --command-config DIR/config
    --all-topic-partitions
    !--election-type preferred --all-topic-partitions
"""


def write_files(home: Path) -> None:
    for name, content in FILES.items():
        (home / name).write_text(json.dumps(content))
    (home / "broken").write_text('{"partitions": [')
    (home / "longer").write_text('{"partitions": [{"topic": "orders", "partition": 0}]} and more')
    (home / "config").write_text("client.id=elections\n")


def fill(broker: BrokerProcess) -> None:
    create_topic(broker.bootstrap, "orders", 2)
    create = "--create --topic kept --partitions 1 --config cleanup.policy=compact"
    assert kavka(topics.TOOL, broker, create).exit_code == 0
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, linger_ms=0)
    for number in range(10):
        for topic, partition in (("orders", number % 2), ("kept", 0)):
            producer.send(topic, b"x", key=b"k", partition=partition).get(timeout=60)
    producer.close()


def in_any_order(text: str) -> str:
    """Java gives partitions in an order that differs from process to process."""
    return "\n".join(sorted(text.splitlines()))


@pytest.mark.parametrize("kind", [Kavka, ApacheKafka], ids=lambda kind: kind.kind)
def test_both_tools_say_the_same(kind: type[BrokerProcess], tmp_path: Path) -> None:
    java.program("java")
    write_files(tmp_path)
    brokers = [kind(tmp_path / f"broker-{number}", {}) for number in (1, 2)]
    with running(brokers), Tools(tmp_path / "tools.log") as tools:
        for broker in brokers:
            fill(broker)
        deletions, elections = (
            lines.replace("DIR", str(tmp_path)) for lines in (DELETIONS, ELECTIONS)
        )
        same = [brokers[0], brokers[0]]
        found = [
            *differences(broker_api_versions.TOOL, API_VERSIONS, tools, same, VERSIONS),
            *differences(
                delete_records.TOOL, DELETE_RECORDS, tools, brokers, deletions, in_any_order
            ),
            *differences(leader_election.TOOL, LEADER_ELECTION, tools, brokers, elections),
        ]
        assert not found, "\n".join(found)


def test_versions_of_an_older_broker(tmp_path: Path) -> None:
    java.program("java")
    broker = ApacheKafka39(tmp_path / "broker", {"broker.rack": "r"})
    with running([broker]), Tools(tmp_path / "tools.log") as tools:
        found = [
            *differences(
                broker_api_versions.TOOL,
                API_VERSIONS,
                tools,
                [broker, broker],
                "--bootstrap-server BROKER",
            )
        ]
        assert not found, "\n".join(found)


def brokers_in_any_order(brokers: str) -> str:
    """Of brokers in one bucket of its HashMap Java's tool prints any first: it shuffles them."""
    return "".join(sorted(brokers.split("\n)\n")))


def test_elections_on_three_brokers(tmp_path: Path) -> None:
    """Broker 1 should lead everything, and has been away. Each tool has a topic of its own."""
    java.program("java")
    names = {"a": "java", "b": "kavka"}
    for name in names:
        document = {"partitions": [{"topic": name, "partition": number} for number in (0, 1, 2)]}
        (tmp_path / name).write_text(json.dumps(document))
    settings = {"auto.leader.rebalance.enable": "false"}
    with (
        serving(tmp_path / "cluster", settings) as cluster,
        Tools(tmp_path / "tools.log") as tools,
    ):
        first, second = cluster.members[:2]
        for name in names:
            create = f"--create --topic {name} --replica-assignment 1:2:3,1:3:2"
            assert kavka(topics.TOOL, second, create).exit_code == 0
        cluster.await_in_sync()
        first.stop()
        first.start()
        cluster.await_in_sync()
        of_one = "--election-type preferred --topic TOPIC --partition 0"
        of_several = f"--election-type preferred --path-to-json-file {tmp_path}/TOPIC"
        for line in (of_one, of_one, of_several):
            theirs = apache_kafka(tools, LEADER_ELECTION, second, line.replace("TOPIC", "a"))
            ours = kavka(leader_election.TOOL, second, line.replace("TOPIC", "b"))
            assert ours.stdout == theirs.stdout.replace("a-", "b-"), theirs
            assert ours.exit_code == theirs.exit_code
            if line == of_one:
                assert "b-0" in ours.stdout
            else:
                assert "(PREFERRED) for partitions b-1" in ours.stdout
                assert "Valid replica already elected for partitions b-0" in ours.stdout
        same = [
            *differences(
                broker_api_versions.TOOL,
                API_VERSIONS,
                tools,
                [second, second],
                "--bootstrap-server BROKER",
                brokers_in_any_order,
            )
        ]
        assert not same, "\n".join(same)


def test_the_table_is_that_of_the_golden_run() -> None:
    """Some rows, as kafka-broker-api-versions 4.3.1 printed them of its own broker."""
    assert KNOWN[0] == ("Produce", 3, 13, True)
    assert KNOWN[4] == ("LeaderAndIsr", 0, -1, False)
    assert KNOWN[78] == ("ShareFetch", 1, 2, True)
