"""One data directory, served in turn by Apache Kafka 3.9 with ZooKeeper and by Kavka.

`kavka storage` carries what ZooKeeper knows; the records stay where they are, and each broker
reads what the other wrote, whether it had stopped in order or was killed.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    Message,
    Producer,
    TopicCollection,
)
from confluent_kafka import TopicPartition as ConfluentPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
)

from support.broker import Kavka, kavka_environment
from support.clients import corpus
from support.clients.every import CONFLUENT
from support.clients.kafka_python import create_topic
from support.dump_log import assert_sound
from support.oracle39 import ApacheKafka39, ZooKeeper
from support.process import HOST, BrokerProcess
from support.wait import eventually

BROKER_ID = "1"
CLEANED_WITHIN_S = 60.0
SESSION_ENDS_WITHIN_S = 30.0
READ_WITHIN_S = 60.0
RECORDS = 1_500
SEGMENT_MS = "300"
"""The corpus covers more, so that there are several segments a partition."""
PARTITIONS = 2
TRANSACTION_TIMEOUT_MS = 900_000

APACHE_SETTINGS: Mapping[str, str] = {
    "broker.id": BROKER_ID,
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "log.cleaner.backoff.ms": "200",
    "log.cleaner.dedupe.buffer.size": "10000000",
    "zookeeper.session.timeout.ms": "4000",
    "group.initial.rebalance.delay.ms": "0",
}

INTERNAL = {"__consumer_offsets", "__transaction_state"}

Reading = dict[tuple[str, int], list[tuple[object, ...]]]
"""All records by partition: offset, timestamp, key, value and headers."""


@dataclass
class Stage:
    """One data directory, one ZooKeeper, and the two brokers that may serve it."""

    home: Path
    data: Path
    zookeeper: ZooKeeper
    apache: ApacheKafka39
    kavka: Kavka

    @property
    def place(self) -> str:
        """What Apache Kafka has as `zookeeper.connect`."""
        return f"{HOST}:{self.zookeeper.port}/kafka"

    def storage(self, order: str, *more: str) -> subprocess.CompletedProcess[str]:
        """`kavka storage` on the directory."""
        command = [sys.executable, "-m", "kavka", "storage", order, *more]
        command += ["--override", f"log.dirs={self.data}"]
        return subprocess.run(command, capture_output=True, text=True, env=kavka_environment())

    def carry(self, order: str, *more: str) -> str:
        """`storage` with ZooKeeper, once a killed broker's session is over; what it printed."""

        def done() -> subprocess.CompletedProcess[str] | None:
            ran = self.storage(order, "--zookeeper", self.place, *more)
            return None if "registered" in ran.stderr else ran

        ran = eventually(done, within_s=SESSION_ENDS_WITHIN_S, what="the session ends")
        assert ran.returncode == 0, ran.stderr
        assert not ran.stderr
        return ran.stdout


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    data = tmp_path / "data"
    zookeeper = ZooKeeper(tmp_path / "zookeeper").start()
    settings = {
        **APACHE_SETTINGS,
        "log.dirs": str(data),
        "zookeeper.connect": f"{HOST}:{zookeeper.port}/kafka",
    }
    apache = ApacheKafka39(tmp_path / "apache", settings, zookeeper)
    kavka = Kavka(tmp_path / "kavka", {"broker.id": BROKER_ID, "log.dirs": str(data)})
    try:
        yield Stage(tmp_path, data, zookeeper, apache, kavka)
    finally:
        for process in (apache, kavka, zookeeper):
            process.close()


def stop(broker: BrokerProcess) -> None:
    broker.stop()


def kill(broker: BrokerProcess) -> None:
    broker.kill()


@pytest.mark.parametrize("end", [stop, kill])
def test_from_apache_kafka_and_back(stage: Stage, end: Callable[[BrokerProcess], None]) -> None:
    apache, kavka = stage.apache.start(), stage.kavka
    fill(stage, apache)
    wait_for_cleaning(stage, "compacted")
    written, committed = read_all(apache), read_all(apache, "read_committed")
    assert len(committed["transactional", 0]) < len(written["transactional", 0])
    topics = described(apache)
    end(apache)
    before = log_files(stage.data)

    stage.carry("import")
    kavka.start()
    assert described(kavka) == topics
    assert_same(read_all(kavka), written)
    assert_same(read_all(kavka, "read_committed"), committed)
    kavka.stop()
    assert log_files(stage.data) == before, "Kavka only read"

    kavka.start()
    more = write_every_codec(kavka)
    both = read_all(kavka)
    assert_grown(both, written, more)
    end(kavka)

    stage.carry("export", "--replace")
    apache.start()
    wait_for_leaders(apache, len(topics))
    assert described(apache) == topics
    assert_same(read_all(apache), both)
    assert_grown(read_all(apache, "read_committed"), committed, more)
    apache.stop()
    dumped = assert_sound(stage.data, compacted=["compacted"])
    assert dumped.aborted > 0 and dumped.producers > 0


def test_from_kavka_and_back(stage: Stage) -> None:
    """A cluster that Kavka began; killed, so that Apache Kafka has to recover its files."""
    apache, kavka = stage.apache, stage.kavka.start()
    create_topic(kavka.bootstrap, "gone", corpus.PARTITIONS)
    CONFLUENT.write(kavka.bootstrap, "gone", corpus.make(CONFLUENT.shapes, 0, 10), "none")
    for codec in corpus.CODECS:
        configs = {"segment.ms": SEGMENT_MS, "retention.ms": "-1"}
        create_topic(kavka.bootstrap, f"codec.{codec}", PARTITIONS, configs)
    write_every_codec(kavka)
    delete_topic(kavka, "gone")
    topics, written = described(kavka), read_all(kavka)
    kavka.kill()
    kavka.start()
    kavka.stop()
    assert_sound(stage.data)
    kavka.start()
    kavka.kill()

    said = stage.carry("export")
    assert f"{len(corpus.CODECS)} topics with {len(corpus.CODECS) * PARTITIONS} part" in said
    refused = stage.storage("export", "--zookeeper", stage.place)
    assert refused.returncode == 1 and "--replace" in refused.stderr
    apache.start()
    wait_for_leaders(apache, len(topics))
    assert described(apache) == topics
    assert_same(read_all(apache), written)
    assert "using" in stage.storage("import", "--replace", "--zookeeper", stage.place).stderr

    more = write_every_codec(apache)
    create_topic(apache.bootstrap, "transactional", PARTITIONS, {"segment.ms": SEGMENT_MS})
    write_transactions(apache)
    commit_offsets(apache)
    topics, both, committed = (
        described(apache),
        read_all(apache),
        read_all(apache, "read_committed"),
    )
    new = {place: records for place, records in both.items() if place not in written}
    assert {topic for topic, _ in new} == INTERNAL | {"transactional"}
    assert_grown({place: both[place] for place in written}, written, more)
    apache.kill()

    refused = stage.storage("import", "--zookeeper", stage.place)
    assert refused.returncode == 1 and "--replace" in refused.stderr
    stage.carry("import", "--replace")
    kavka.start()
    assert described(kavka) == topics
    assert_same(read_all(kavka), both)
    assert_same(read_all(kavka, "read_committed"), committed)
    kavka.stop()
    assert_sound(stage.data)


# --- writing


def fill(stage: Stage, apache: BrokerProcess) -> None:
    """Topics of every kind that has files of its own, and what the coordinators keep."""
    rolled = {"segment.ms": SEGMENT_MS, "index.interval.bytes": "512"}
    for codec in corpus.CODECS:
        create_topic(apache.bootstrap, f"codec.{codec}", PARTITIONS, rolled)
    write_every_codec(apache)
    create_topic(
        apache.bootstrap,
        "compacted",
        1,
        {**rolled, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"},
    )
    write_keys(apache)
    create_topic(apache.bootstrap, "transactional", PARTITIONS, rolled)
    write_transactions(apache)
    create_topic(apache.bootstrap, "empty", PARTITIONS, {"max.message.bytes": "2000000"})
    commit_offsets(apache)


def write_every_codec(broker: BrokerProcess) -> dict[str, int]:
    """Write the corpus in each codec; how many records went to each topic."""
    records = [
        record
        for record in corpus.make(CONFLUENT.shapes, time.time_ns() // 1_000_000, RECORDS)
        if record.partition in range(PARTITIONS)
    ]
    for codec in corpus.CODECS:
        CONFLUENT.write(broker.bootstrap, f"codec.{codec}", records, codec)
    return dict.fromkeys((f"codec.{codec}" for codec in corpus.CODECS), len(records))


def write_keys(broker: BrokerProcess) -> None:
    """Values of a few keys, again and again, some deleted; over several segments."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True})
    began_ms = time.time_ns() // 1_000_000
    for number in range(1_000):
        value = None if number % 17 == 0 else b"%d" % number
        producer.produce(
            "compacted", value, b"key-%d" % (number % 40), timestamp=began_ms + 10 * number
        )
        if number % 20 == 19:  # batches of their own
            assert producer.flush(READ_WITHIN_S) == 0


def write_transactions(broker: BrokerProcess) -> None:
    """Committed, aborted and, at the end, open transactions of several producers, interleaved."""
    producers = []
    for name in ("commits", "aborts", "both", "open"):
        producer = Producer(
            {
                "bootstrap.servers": broker.bootstrap,
                "transactional.id": name,
                "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
            }
        )
        producer.init_transactions(READ_WITHIN_S)
        producers.append((name, producer))
    began_ms = time.time_ns() // 1_000_000
    for turn in range(6):
        for name, producer in producers:
            if name != "open" or turn == 5:
                producer.begin_transaction()
            for number in range(5):
                if name == "open" and turn < 5:
                    continue
                producer.produce(
                    "transactional",
                    f"{name}/{turn}/{number}".encode(),
                    partition=number % PARTITIONS,
                    timestamp=began_ms + 100 * turn + number,
                )
            assert producer.flush(READ_WITHIN_S) == 0
        for name, producer in producers:
            if name == "commits" or (name == "both" and turn % 2):
                producer.commit_transaction(READ_WITHIN_S)
            elif name != "open":
                producer.abort_transaction(READ_WITHIN_S)


def commit_offsets(broker: BrokerProcess) -> None:
    """A group's offsets, for the log of the group coordinator."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "committed"})
    try:
        places = [ConfluentPartition("codec.none", index, 7) for index in range(PARTITIONS)]
        consumer.commit(offsets=places, asynchronous=False)
    finally:
        consumer.close()


def wait_for_cleaning(stage: Stage, topic: str) -> None:
    """Apache Kafka has compacted partition 0 of `topic`, and will not do so again."""
    checkpoint = stage.data / "cleaner-offset-checkpoint"
    eventually(
        lambda: checkpoint.exists() and f"{topic} 0 " in checkpoint.read_text(),
        within_s=CLEANED_WITHIN_S,
        what=f"{topic} is compacted",
    )
    admin = AdminClient({"bootstrap.servers": stage.apache.bootstrap})
    change = ConfigResource(
        ConfigResource.Type.TOPIC,
        topic,
        incremental_configs=[
            ConfigEntry(
                "min.compaction.lag.ms", str(2**62), incremental_operation=AlterConfigOpType.SET
            )
        ],
    )
    admin.incremental_alter_configs([change])[change].result(READ_WITHIN_S)


def delete_topic(broker: BrokerProcess, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.delete_topics([topic])[topic].result(READ_WITHIN_S)


# --- reading


def read_all(broker: BrokerProcess, isolation: str = "read_uncommitted") -> Reading:
    """Every record of every topic, as librdkafka reads it."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "no group: librdkafka wants a name, but only assigns",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
            "auto.offset.reset": "error",
        }
    )
    try:
        topics = consumer.list_topics(timeout=READ_WITHIN_S).topics
        places = [(name, index) for name, topic in topics.items() for index in topic.partitions]
        found: Reading = {place: [] for place in sorted(places)}
        consumer.assign([ConfluentPartition(*place, OFFSET_BEGINNING) for place in places])
        unfinished = dict.fromkeys(places)

        def at_end() -> bool:
            for message in consumer.consume(1_000, 0.5):
                place = (message.topic(), message.partition())
                if message.error() is None:
                    found[place].append(shown(message))
                else:
                    assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                    unfinished.pop(place, None)
            return not unfinished

        eventually(at_end, within_s=READ_WITHIN_S, what=f"{broker.kind} is read to its end")
    finally:
        consumer.close()
    return found


def shown(message: Message) -> tuple[object, ...]:
    headers = tuple(message.headers() or ())
    return message.offset(), message.timestamp(), message.key(), message.value(), headers


def wait_for_leaders(broker: BrokerProcess, topics: int) -> None:
    """Apache Kafka says that it has started before its controller has."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})

    def all_led() -> bool:
        found = admin.list_topics(timeout=READ_WITHIN_S).topics.values()
        led = [part.leader >= 0 for topic in found for part in topic.partitions.values()]
        return len(found) == topics and all(led)

    eventually(all_led, within_s=READ_WITHIN_S, what="every partition has a leader")


def described(broker: BrokerProcess) -> dict[str, tuple[str, int, dict[str, str]]]:
    """Id, number of partitions and configs of each topic."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    names = sorted(admin.list_topics(timeout=READ_WITHIN_S).topics)
    resources = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in names]
    configs = admin.describe_configs(resources)
    topics = admin.describe_topics(TopicCollection(names))
    found = {}
    for name, resource in zip(names, resources, strict=True):
        topic = topics[name].result(READ_WITHIN_S)
        entries = configs[resource].result(READ_WITHIN_S).values()
        own = {
            entry.name: entry.value
            for entry in entries
            if entry.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
        }
        found[name] = (str(topic.topic_id), len(topic.partitions), own)
    return found


def log_files(data: Path) -> dict[str, str]:
    """Digest of every segment by its path."""
    return {
        str(path.relative_to(data)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(data.glob("*-*/*.log"))
    }


def assert_same(found: Reading, expected: Reading) -> None:
    """The same records, with the first difference named."""
    assert sorted(found) == sorted(expected)
    for place, records in expected.items():
        for one, other in zip(found[place], records, strict=False):
            assert one == other, place
        assert len(found[place]) == len(records), place


def assert_grown(found: Reading, before: Reading, more: Mapping[str, int]) -> None:
    """All that was there before, and as many records more a topic as were written."""
    assert_same({place: found[place][: len(records)] for place, records in before.items()}, before)
    grown: dict[str, int] = {}
    for (topic, partition), records in found.items():
        new = len(records) - len(before[topic, partition])
        grown[topic] = grown.get(topic, 0) + new
    assert {topic: count for topic, count in grown.items() if count} == more
