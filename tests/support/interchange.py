"""A data directory that Apache Kafka 3.9 with ZooKeeper and Kavka serve in round_number.

What is in it, written by stock clients, and what each broker shows of it.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    Message,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigResource,
    ConfigSource,
)

from support import segments
from support.broker import Kavka, kavka_environment
from support.clients import corpus
from support.clients.every import CONFLUENT, KAFKA_PYTHON
from support.clients.kafka_python import create_topic
from support.dump_log import Dumped, assert_sound
from support.oracle39 import ApacheKafka39, ZooKeeper
from support.ports import HOST
from support.process import BrokerProcess
from support.raw import RawConnection
from support.wait import eventually

BROKER_ID: Final = "1"
CLEANED_WITHIN_S: Final = 60.0
SESSION_ENDS_WITHIN_S: Final = 60.0
WITHIN_S: Final = 60.0
RECORDS: Final = 1_500
SEGMENT_MS: Final = "300"
"""The corpus covers more, so that there are several segments a partition."""
PARTITIONS: Final = 2
TRANSACTION_TIMEOUT_MS: Final = 900_000
"""So that no coordinator ends an open one in the middle of a test."""
DELETED_BEFORE: Final = 100
COMMITTED_OFFSET: Final = 7
GROUP: Final = "committed"
ROUNDS: Final = 6
TRANSACTIONS: Final = 3 * ROUNDS + 1
OPEN: Final = "open"
"""Transactional id of the producer that has not ended its transaction."""
INTERNAL: Final = {"__consumer_offsets", "__transaction_state"}

APACHE_SETTINGS: Final[Mapping[str, str]] = {
    "broker.id": BROKER_ID,
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "log.cleaner.backoff.ms": "200",
    "log.cleaner.dedupe.buffer.size": "10000000",
    "log.flush.start.offset.checkpoint.interval.ms": "100",
    "log.initial.task.delay.ms": "100",
    # short, as that of one that was killed is waited for; longer than a busy machine pauses
    "zookeeper.session.timeout.ms": "12000",
    # between its log directories it copies so much, however low the limit, each 11 s
    "replica.fetch.max.bytes": "100000",
    "group.initial.rebalance.delay.ms": "0",
}

KAVKA_SETTINGS: Final = {
    "broker.id": BROKER_ID,
    "offsets.topic.num.partitions": "3",
    "log.cleaner.backoff.ms": "200",
    "log.cleaner.dedupe.buffer.size": "10000000",
}
CLEANED_UPTO: Final = 500
"""Each key comes several times before this offset, which a first pass need not reach."""

COMPACT: Final = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}

Place = tuple[str, int]
Records = dict[Place, list[tuple[object, ...]]]
"""By partition: offset, timestamp, key, value and headers."""


class Stage:
    """Two log directories, one ZooKeeper, and the two brokers that may serve them."""

    def __init__(self, home: Path) -> None:
        self.directories = [home / "data-a", home / "data-b"]
        for directory in self.directories:
            directory.mkdir()
        log_dirs = ",".join(map(str, self.directories))
        self.zookeeper = ZooKeeper(home / "zookeeper").start()
        self.connect = f"{HOST}:{self.zookeeper.port}/kafka"
        settings = {**APACHE_SETTINGS, "log.dirs": log_dirs, "zookeeper.connect": self.connect}
        self.apache = ApacheKafka39(home / "apache", settings, self.zookeeper)
        self.kavka = Kavka(home / "kavka", KAVKA_SETTINGS | {"log.dirs": log_dirs})

    def close(self) -> None:
        with ExitStack() as closing:  # one that ended by itself does not keep the others
            for process in (self.zookeeper, self.kavka, self.apache):
                closing.callback(process.close)

    def storage(self, order: str, *more: str) -> subprocess.CompletedProcess[str]:
        """`kavka storage`, between the directories and ZooKeeper."""
        command = [sys.executable, "-m", "kavka", "storage", order, "--zookeeper", self.connect]
        own_file = self.apache.home / "server.properties"  # from its first start on
        if own_file.exists():
            command += ["--config", str(own_file), *more]
        else:
            command += ["--override", f"log.dirs={self.kavka.settings['log.dirs']}", *more]
        return subprocess.run(command, capture_output=True, text=True, env=kavka_environment())

    def carry(self, order: str, *more: str) -> str:
        """`storage`, once a killed broker's session is over; what it printed."""

        def done() -> subprocess.CompletedProcess[str] | None:
            ran = self.storage(order, *more)
            return None if "registered" in ran.stderr else ran

        ran = eventually(done, within_s=SESSION_ENDS_WITHIN_S, what="the session ends")
        assert ran.returncode == 0, ran.stderr
        assert not ran.stderr
        return ran.stdout

    def segments(self) -> dict[str, str]:
        """Digest of every segment by its path."""
        paths = [path for top in self.directories for path in top.glob("*-*/*.log")]
        return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(paths)}

    def checkpoint(self, name: str) -> str:
        """A checkpoint file of every directory."""
        files = [directory / name for directory in self.directories]
        return "".join(file.read_text() for file in files if file.exists())

    def assert_sound(self) -> Dumped:
        """Apache Kafka's tool reads every file without complaint."""
        return assert_sound(*self.directories, compacted=["compacted"])

    def codecs(self, topic: str) -> set[str]:
        """Which codecs a topic's batches are compressed with."""
        return set().union(*(segments.codecs(path, topic) for path in self.directories))

    def has_zeros_at_the_end(self, suffix: str) -> bool:
        """Whether a file of this kind ends as Apache Kafka makes files before it fills them."""
        paths = [path for top in self.directories for path in top.glob(f"*-*/*{suffix}")]
        return any(path.read_bytes()[-100:] == bytes(100) for path in paths)


# --- writing


def fill(stage: Stage) -> None:
    """Apache Kafka writes topics of every kind that has files or fields of its own."""
    apache = stage.apache.bootstrap
    rolled = {"segment.ms": SEGMENT_MS, "index.interval.bytes": "512"}
    for codec in corpus.CODECS:
        create_topic(apache, f"codec.{codec}", PARTITIONS, rolled)
    write_every_codec(stage.apache)
    create_topic(apache, "compacted", 1, rolled | COMPACT)
    write_keys(stage.apache)
    create_topic(apache, "transactional", PARTITIONS, rolled)
    write_transactions(stage.apache)
    create_topic(apache, "empty", PARTITIONS, {"max.message.bytes": "2000000"})
    create_topic(apache, "preallocated", 1, {"preallocate": "true", "segment.bytes": "1048576"})
    create_topic(apache, "stamped", 1, {"message.timestamp.type": "LogAppendTime"})
    for topic in ("preallocated", "stamped"):
        write_keys(stage.apache, topic, 100)
    commit_offsets(stage.apache)
    configure_brokers(stage.apache)
    delete_records(stage.apache, "codec.gzip", 1)
    eventually(
        lambda: f"codec.gzip 1 {DELETED_BEFORE}" in stage.checkpoint("log-start-offset-checkpoint"),
        within_s=WITHIN_S,
        what="the start offset is written",
    )
    wait_for_cleaning(stage, stage.apache, "compacted")


def write_every_codec(broker: BrokerProcess) -> dict[str, int]:
    """Write the corpus in each codec; how many records went to each topic."""
    written = {}
    for codec in corpus.CODECS:
        # librdkafka sends lz4 only to brokers that have consumer groups
        client = KAFKA_PYTHON if codec == "lz4" else CONFLUENT
        records = [
            record
            for record in corpus.make(client.shapes, time.time_ns() // 1_000_000, RECORDS)
            if record.partition in range(PARTITIONS)
        ]
        client.write(broker.bootstrap, f"codec.{codec}", records, codec)
        written[f"codec.{codec}"] = len(records)
    return written


def write_keys(broker: BrokerProcess, topic: str = "compacted", count: int = 1_000) -> None:
    """Values of a few keys, again and again, some deleted; over several segments."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True})
    began_ms = time.time_ns() // 1_000_000
    for number in range(count):
        value = None if number % 17 == 0 else b"%d" % number
        producer.produce(topic, value, b"key-%d" % (number % 40), timestamp=began_ms + 10 * number)
        if number % 20 == 19:  # batches of their own
            assert producer.flush(WITHIN_S) == 0


def write_transactions(broker: BrokerProcess) -> None:
    """Committed, aborted and, at the end, open transactions of several producers, interleaved; with
    each of them offsets of a group of the producer's name."""
    producers = {name: transactional(broker, name) for name in ("commits", "aborts", "both")}
    opener = transactional(broker, OPEN)
    began_ms = time.time_ns() // 1_000_000
    settings = {"bootstrap.servers": broker.bootstrap}
    groups = {name: Consumer({**settings, "group.id": name}) for name in [*producers, OPEN]}

    def write(name: str, producer: Producer, round_number: int) -> None:
        producer.begin_transaction()
        for number in range(5):
            producer.produce(
                "transactional",
                f"{name}/{round_number}/{number}".encode(),
                partition=number % PARTITIONS,
                timestamp=began_ms + 100 * round_number + number,
            )
        topic_partition = TopicPartition("codec.none", 0, 1 + round_number)
        group = groups[name].consumer_group_metadata()
        producer.send_offsets_to_transaction([topic_partition], group, WITHIN_S)
        assert producer.flush(WITHIN_S) == 0

    for round_number in range(ROUNDS):
        for name, producer in producers.items():
            write(name, producer, round_number)
        if round_number == 4:
            write(OPEN, opener, round_number)
        for name, producer in producers.items():
            if name == "commits" or (name == "both" and round_number % 2):
                producer.commit_transaction(WITHIN_S)
            else:
                producer.abort_transaction(WITHIN_S)
    for consumer in groups.values():
        consumer.close()


def transactional(broker: BrokerProcess, name: str) -> Producer:
    """A producer that has ended what its predecessor of this name had left open."""
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "transactional.id": name,
            "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
        }
    )
    producer.init_transactions(WITHIN_S)
    return producer


def delete_records(broker: BrokerProcess, topic: str, partition: int) -> None:
    """All before `DELETED_BEFORE`."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    before = TopicPartition(topic, partition, DELETED_BEFORE)
    [done] = admin.delete_records([before]).values()
    assert done.result(WITHIN_S).low_watermark == DELETED_BEFORE


def commit_offsets(
    broker: BrokerProcess, group: str = GROUP, offset: int = COMMITTED_OFFSET
) -> None:
    """A group's offsets, for the log of the group coordinator."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})
    try:
        topic_partitions = [
            TopicPartition("codec.none", index, offset) for index in range(PARTITIONS)
        ]
        consumer.commit(offsets=topic_partitions, asynchronous=False)
    finally:
        consumer.close()


def committed_offsets(broker: BrokerProcess) -> dict[str, dict[Place, int]]:
    """What groups have committed, those in open transactions left out."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    listed = admin.list_consumer_groups(request_timeout=WITHIN_S).result(WITHIN_S)
    assert not listed.errors, listed.errors
    found: dict[str, dict[Place, int]] = {}
    for group in sorted(listing.group_id for listing in listed.valid):
        requests = [ConsumerGroupTopicPartitions(group)]
        [answer] = admin.list_consumer_group_offsets(requests, request_timeout=WITHIN_S).values()
        topic_partitions = answer.result(WITHIN_S).topic_partitions
        if (
            topic_partitions
        ):  # a group without any is there only as long as its coordinator remembers
            found[group] = {
                (topic_partition.topic, topic_partition.partition): topic_partition.offset
                for topic_partition in topic_partitions
            }
    return found


def wait_for_cleaning(stage: Stage, broker: BrokerProcess, topic: str) -> None:
    """Until `broker` has compacted most of partition 0 of `topic`; it is not compacted again."""
    prefix = f"{topic} 0 "

    def upto() -> int:
        lines = stage.checkpoint("cleaner-offset-checkpoint").splitlines()
        return max(
            (int(line[len(prefix) :]) for line in lines if line.startswith(prefix)), default=0
        )

    eventually(
        lambda: upto() >= CLEANED_UPTO,
        within_s=CLEANED_WITHIN_S,
        what=f"{topic} is compacted",
    )
    alter(broker, ConfigResource.Type.TOPIC, topic, "min.compaction.lag.ms", str(2**62))


def alter(broker: BrokerProcess, kind: ConfigResource.Type, name: str, key: str, to: str) -> None:
    """Set one config; that of all brokers with the name "", which librdkafka does not send."""
    change = {"name": key, "config_operation": AlterConfigOpType.SET.value, "value": to}
    resource = {"resource_type": kind.value, "resource_name": name, "configs": [change]}
    with RawConnection(HOST, broker.port) as connection:
        answer = connection.request("IncrementalAlterConfigs", 1, resources=[resource])
    [done] = answer["responses"]
    assert done["error_code"] == 0, done


def configure_brokers(broker: BrokerProcess) -> None:
    """Settings for this broker, and for all; returns when it shows them."""
    configs = {"log.retention.ms": "900000001", "log.segment.delete.delay.ms": "50001"}
    for name, (key, value) in zip((BROKER_ID, ""), configs.items(), strict=True):
        alter(broker, ConfigResource.Type.BROKER, name, key, value)
    eventually(
        lambda: configs.items() <= broker_configs(broker).items(),
        within_s=WITHIN_S,
        what="the broker has heard of its settings",
    )


def delete_topic(broker: BrokerProcess, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.delete_topics([topic])[topic].result(WITHIN_S)


# --- reading


@dataclass
class Shown:
    """What a broker shows of everything that it has."""

    brokers: dict[str, str]
    """Settings of the broker and of all brokers, made while they run."""
    topics: dict[str, tuple[str, int, dict[str, str]]]
    ours: dict[tuple[str, str], str]
    """Configs of topics that Apache Kafka keeps but, since it does not know them, does not show."""
    records: Records
    committed: Records
    """What a consumer reads that asks for `read_committed`."""
    producers: dict[Place, list[dict[str, Any]]]
    """What partitions remember of their producers."""


def look(broker: BrokerProcess) -> Shown:
    """Ask for all of it."""
    topics = described(broker)
    ours = {
        (name, key): configs.pop(key)
        for name, (_, _, configs) in topics.items()
        for key in list(configs)
        if key.startswith("kavka.")
    }
    places = [(name, index) for name, (_, count, _) in topics.items() for index in range(count)]
    return Shown(
        broker_configs(broker),
        topics,
        ours,
        read_all(broker, places, "read_uncommitted"),
        read_all(broker, places, "read_committed"),
        producers(broker, places),
    )


def assert_same(found: Shown, expected: Shown) -> None:
    """No difference; the first one is named."""
    assert found.brokers == expected.brokers
    assert found.topics == expected.topics
    assert_same_records(found.records, expected.records)
    assert_same_records(found.committed, expected.committed)
    assert found.producers == expected.producers


def assert_same_records(found: Records, expected: Records) -> None:
    assert sorted(found) == sorted(expected)
    for place, records in expected.items():
        for record, expected_record in zip(found[place], records, strict=False):
            assert record == expected_record, place
        assert len(found[place]) == len(records), place


def assert_grown(found: Records, before: Records, more: Mapping[str, int]) -> None:
    """All that was there before, and as many records more a topic as were written."""
    kept = {place: found[place][: len(records)] for place, records in before.items()}
    assert_same_records(kept, before)
    grown: dict[str, int] = {}
    for place, records in before.items():
        new = len(found[place]) - len(records)
        grown[place[0]] = grown.get(place[0], 0) + new
    assert {topic: count for topic, count in grown.items() if count} == more


def producers(broker: BrokerProcess, places: list[Place]) -> dict[Place, list[dict[str, Any]]]:
    """As DescribeProducers returns them, in the order of their ids."""
    topics = [{"name": topic, "partition_indexes": [index]} for topic, index in places]
    with RawConnection(HOST, broker.port) as connection:
        answer = connection.request("DescribeProducers", 0, topics=topics)
    found = {}
    for topic in answer["topics"]:
        for partition in topic["partitions"]:
            assert partition["error_code"] == 0, (topic["name"], partition)
            known = sorted(
                partition["active_producers"], key=lambda state: int(state["producer_id"])
            )
            found[topic["name"], partition["partition_index"]] = known
    return found


def read_all(broker: BrokerProcess, places: list[Place], isolation: str) -> Records:
    """Every record, as librdkafka reads it."""
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
        found: Records = {place: [] for place in places}
        consumer.assign([TopicPartition(*place, OFFSET_BEGINNING) for place in places])
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

        eventually(at_end, within_s=WITHIN_S, what=f"{broker.kind} is read to its end")
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
        found = admin.list_topics(timeout=WITHIN_S).topics.values()
        led = [part.leader >= 0 for topic in found for part in topic.partitions.values()]
        return len(found) == topics and all(led)

    eventually(all_led, within_s=WITHIN_S, what="every partition has a leader")


def described(broker: BrokerProcess) -> dict[str, tuple[str, int, dict[str, str]]]:
    """Id, number of partitions and configs of each topic."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    names = sorted(admin.list_topics(timeout=WITHIN_S).topics)
    resources = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in names]
    configs = admin.describe_configs(resources)
    topics = admin.describe_topics(TopicCollection(names))
    found = {}
    for name, resource in zip(names, resources, strict=True):
        topic = topics[name].result(WITHIN_S)
        entries = configs[resource].result(WITHIN_S).values()
        own = {
            entry.name: entry.value
            for entry in entries
            if entry.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
        }
        found[name] = (str(topic.topic_id), len(topic.partitions), own)
    return found


def broker_configs(broker: BrokerProcess) -> dict[str, str]:
    """Those that `configure_brokers` and the like have made."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    resource = ConfigResource(ConfigResource.Type.BROKER, BROKER_ID)
    entries = admin.describe_configs([resource])[resource].result(WITHIN_S).values()
    dynamic = (ConfigSource.DYNAMIC_BROKER_CONFIG, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)
    sources = [source.value for source in dynamic]
    return {entry.name: entry.value for entry in entries if entry.source in sources}
