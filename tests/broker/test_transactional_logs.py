"""Logs that transactional producers wrote with Apache Kafka, served by Kavka: every fetch, of
committed records or of all, is answered as by Apache Kafka, with the same aborted transactions."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from kafka import KafkaConsumer, TopicPartition

from kavka.log.txn_index import TXN_ENTRY_BYTES
from kavka.wire.control_records import end_marker, read_marker
from kavka.wire.record_batches import read_header, set_offset_and_epoch
from support import dump_log, java
from support.broker import Kavka, StartBroker, broker_kind
from support.clients.kafka_python import create_topic
from support.oracle import ApacheKafka
from support.oracle39 import ApacheKafka39
from support.ports import HOST
from support.process import BrokerProcess
from support.raw import RawConnection
from support.segments import HEADER, LENGTH_PREFIX_BYTES
from support.wait import eventually

TOPIC = "transactions"
PARTITIONS = 2
APPEND_TIME = "LogAppendTime"
CRC_AT, TIMES_AT = 17, 27
LATEST = -1
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
SIZES = (1, 1_000_000)
"""Bytes that a fetch may give. In between Kavka may cut elsewhere than Apache Kafka."""
CUT_BYTES = (3_000, 100_000)
VALUE_BYTES_MAX = 400
FLUSH_S = 120.0
OPEN_FOR_MS = 600_000

PERFORMANCE = "org.apache.kafka.tools.ProducerPerformance"
CLEAN = ".kafka_cleanshutdown"
OWN = ("partition.metadata",)
"""What stays Kavka's when it is given another broker's partition."""

pytestmark = pytest.mark.skipif(broker_kind() is not Kavka, reason="compares with Apache Kafka")


class Writers:
    """Producers of one topic: some in transactions, one outside of any."""

    def __init__(self, bootstrap: str, names: list[str]) -> None:
        self._chance = random.Random(6)
        self.plain = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
        self.named = {name: self._transactional(bootstrap, name) for name in names}
        self.began: dict[str, bool] = dict.fromkeys(names, False)

    @staticmethod
    def _transactional(bootstrap: str, name: str) -> Producer:
        producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": name,
                "transaction.timeout.ms": OPEN_FOR_MS,
                "linger.ms": 0,
            }
        )
        producer.init_transactions(FLUSH_S)
        return producer

    def write(self, name: str | None, partition: int | None = None) -> None:
        """A batch or two, begun as a transaction where there is none."""
        producer = self.plain if name is None else self.named[name]
        if name is not None and not self.began[name]:
            producer.begin_transaction()
            self.began[name] = True
        for _ in range(self._chance.randint(1, 3)):
            value = self._chance.randbytes(self._chance.randint(1, VALUE_BYTES_MAX))
            at = self._chance.randrange(PARTITIONS) if partition is None else partition
            producer.produce(TOPIC, value, b"key", partition=at)
        assert producer.flush(FLUSH_S) == 0

    def end(self, name: str, *, commit: bool) -> None:
        """End the transaction that is going on."""
        if not self.began[name]:
            return
        self.began[name] = False
        if commit:
            self.named[name].commit_transaction(FLUSH_S)
        else:
            self.named[name].abort_transaction(FLUSH_S)

    def story(self, steps: int) -> None:
        """Random steps: transactions across and within each other."""
        names: list[str | None] = [*self.named, None]
        for _ in range(steps):
            name = self._chance.choice(names)
            if name is None or self._chance.random() < 0.6:
                self.write(name)
            else:
                self.end(name, commit=self._chance.random() < 0.5)


def write_everything(broker: BrokerProcess, segment_bytes: str, timestamps: str) -> None:
    """Transactions of several producers in several segments, the last of them left open."""
    configs = {segment_bytes: "6000", "index.interval.bytes": "500"}
    configs["message.timestamp.type"] = timestamps
    create_topic(broker.bootstrap, TOPIC, PARTITIONS, configs)
    writers = Writers(broker.bootstrap, ["one", "two", "three"])
    writers.story(120)
    if isinstance(broker, ApacheKafka):  # Java's client raises its epoch with each transaction
        properties = ["--producer-props", f"bootstrap.servers={broker.bootstrap}"]
        amount = ["--num-records", "60", "--record-size", "100", "--throughput", "200"]
        id_ = ["--transactional-id", "java", "--transaction-duration-ms", "50"]
        done = java.run(PERFORMANCE, "--topic", TOPIC, *amount, *id_, *properties)
        assert done.exit_code == 0, done.text + done.stderr
    for name in writers.named:
        writers.end(name, commit=name == "one")
    writers.write("two", 0)  # is never ended
    writers.write(None, 0)
    writers.write("one", 0)
    writers.write("three", 0)
    writers.end("one", commit=False)
    writers.end("three", commit=True)
    writers.write(None, 0)
    eventually(
        lambda: open_transactions(broker) == [1, 0],
        within_s=FLUSH_S,
        what="all markers but that of the open transaction are written",
    )


def open_transactions(broker: BrokerProcess) -> list[int]:
    """How many each partition has: an end is answered before its markers are written."""
    with RawConnection(HOST, broker.port) as connection:
        described = [producers(connection, partition) for partition in range(PARTITIONS)]
    return [
        sum(producer["current_txn_start_offset"] >= 0 for producer in active)
        for active in described
    ]


def observe(broker: BrokerProcess) -> Iterator[tuple[str, Any]]:
    """All that a reader can learn."""
    with RawConnection(HOST, broker.port) as connection:
        for partition in range(PARTITIONS):
            end = 0
            for isolation in (READ_UNCOMMITTED, READ_COMMITTED):
                found = connection.list_offset(TOPIC, partition, isolation=isolation)
                end = max(end, found["offset"])
                yield (
                    f"{partition}: the end for {isolation}",
                    (found["error_code"], found["offset"]),
                )
            for offset in range(end + 2):
                for isolation in (READ_UNCOMMITTED, READ_COMMITTED):
                    for size in SIZES:
                        fetched = fetch(connection, partition, offset, isolation, size)
                        yield f"{partition}: {size} from {offset} for {isolation}", fetched
            yield f"{partition}: producers", producers(connection, partition)
    for size in CUT_BYTES:
        for isolation_level in ("read_uncommitted", "read_committed"):
            yield f"{isolation_level} by {size}", consumed(broker, isolation_level, size)


def consumed(broker: BrokerProcess, isolation: str, size: int) -> dict[int, list[Any]]:
    """What kafka-python gives its user."""
    partitions = [TopicPartition(TOPIC, partition) for partition in range(PARTITIONS)]
    found: dict[int, list[Any]] = {partition: [] for partition in range(PARTITIONS)}
    consumer = KafkaConsumer(
        bootstrap_servers=broker.bootstrap,
        isolation_level=isolation,
        max_partition_fetch_bytes=size,
        fetch_max_wait_ms=10,
    )
    with closing(consumer):
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        ends = consumer.end_offsets(partitions)

        def at_end() -> bool:
            for batch in consumer.poll(timeout_ms=100).values():
                for message in batch:
                    found[message.partition].append((message.offset, message.value))
            return all(consumer.position(partition) >= ends[partition] for partition in partitions)

        eventually(at_end, within_s=FLUSH_S, what=f"a reader gets to {ends}")
    return found


def fetch(
    connection: RawConnection, partition: int, offset: int, isolation: int, size: int
) -> dict[str, Any]:
    """One partition of an answer, with those of the aborted transactions that begin in its
    records: how many more are listed depends on the index of offsets."""
    found = connection.fetch(
        TOPIC, partition, offset, version=12, isolation=isolation, bytes_max=size
    )
    if found["aborted_transactions"]:
        end = end_of(found["records"])
        described = found["aborted_transactions"]
        found["aborted_transactions"] = [
            transaction for transaction in described if transaction["first_offset"] < end
        ]
    return found


def end_of(records: bytes) -> int:
    """The offset behind the last batch, of which a part may be missing."""
    position, end = 0, 0
    while position + HEADER.size <= len(records):
        base, length, *_, last_delta = HEADER.unpack_from(records, position)[:7]
        end = base + last_delta + 1
        position += LENGTH_PREFIX_BYTES + length
    return end


def producers(connection: RawConnection, partition: int) -> list[dict[str, Any]]:
    """What DescribeProducers returns."""
    answer = connection.request(
        "DescribeProducers", 0, topics=[{"name": TOPIC, "partition_indexes": [partition]}]
    )
    found = answer["topics"][0]["partitions"][0]
    assert found["error_code"] == 0, found
    return sorted(found["active_producers"], key=lambda producer: str(producer["producer_id"]))


def hand_over(theirs: BrokerProcess, ours: BrokerProcess, *, clean: bool) -> None:
    """Give Kavka the partitions of another broker, as after its clean stop or its death."""
    create_topic(ours.bootstrap, TOPIC, PARTITIONS)
    ours.stop()
    for partition in range(PARTITIONS):
        name = f"{TOPIC}-{partition}"
        target = ours.data_dir / name
        for path in target.iterdir():
            if path.name not in OWN:
                path.unlink()
        for path in (theirs.data_dir / name).iterdir():
            if path.name not in OWN:
                shutil.copy(path, target / path.name)
    if not clean:
        (ours.data_dir / CLEAN).unlink()
    ours.start()


def assert_markers_are_ours(data_dir: Path, timestamps: str) -> None:
    """The markers that Apache Kafka wrote are byte for byte those that Kavka would write."""
    seen: dict[bool, int] = {True: 0, False: 0}
    for content in contents(data_dir, ".log").values():
        position = 0
        while position < len(content):
            header = read_header(content, position)
            batch = content[position : position + header.size]
            position += header.size
            if header.is_control:
                marker = read_marker(header, batch)
                assert marker is not None
                made = end_marker(
                    header.producer_id,
                    header.producer_epoch,
                    marker,
                    append_time=timestamps == APPEND_TIME,
                )
                set_offset_and_epoch(memoryview(made), header.base_offset, header.leader_epoch)
                if timestamps == APPEND_TIME:  # of the record, and of the batch: a moment apart
                    assert without_times(made) == without_times(batch)
                else:
                    assert made == batch
                seen[marker.committed] += 1
    assert min(seen.values()) > 5, seen


def without_times(batch: bytes | bytearray) -> bytes:
    """A batch without its timestamps, and so without its CRC."""
    return bytes(batch[:CRC_AT] + batch[CRC_AT + 4 : TIMES_AT] + batch[TIMES_AT + 16 :])


def contents(data_dir: Path, suffix: str) -> dict[str, bytes]:
    """The files of a kind."""
    found = sorted(data_dir.glob(f"{TOPIC}-*/*{suffix}"))
    return {f"{path.parent.name}/{path.name}": path.read_bytes() for path in found}


@pytest.mark.parametrize(
    ("kind", "segment_bytes", "timestamps"),
    [
        (ApacheKafka39, "segment.bytes", "CreateTime"),
        (ApacheKafka, "internal.segment.bytes", "CreateTime"),
        (ApacheKafka, "internal.segment.bytes", APPEND_TIME),
    ],
    ids=["3.9", "4", "4, times by the log"],
)
def test_fetches_are_answered_as_by_apache_kafka(
    start_broker: StartBroker,
    tmp_path: Path,
    kind: type[BrokerProcess],
    segment_bytes: str,
    timestamps: str,
) -> None:
    theirs = kind(tmp_path / "theirs")
    try:
        theirs.start()
        write_everything(theirs, segment_bytes, timestamps)
        expected = dict(observe(theirs))
        theirs.stop()
    finally:
        theirs.close()
    indexes = contents(theirs.data_dir, ".txnindex")
    assert sum(map(len, indexes.values())) >= 10 * TXN_ENTRY_BYTES
    assert len(contents(theirs.data_dir, ".log")) > 3 * PARTITIONS
    assert_markers_are_ours(theirs.data_dir, timestamps)

    for clean in (True, False):
        ours = start_broker()
        hand_over(theirs, ours, clean=clean)
        found = dict(observe(ours))
        assert found.keys() == expected.keys()
        for observation in expected:
            assert found[observation] == expected[observation], observation
        ours.stop()
        assert contents(ours.data_dir, ".txnindex") == indexes
        if not clean:
            dump_log.assert_sound(ours.data_dir)
