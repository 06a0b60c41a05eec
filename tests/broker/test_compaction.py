"""Compaction in a running broker: Kavka beside Apache Kafka 4.3.1, on the same batches."""

from __future__ import annotations

import random
import shutil
import struct
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import Producer
from kafka import KafkaConsumer, TopicPartition

from kavka.compat_tests.raw.codec.batches import CODECS, FIELDS, Written, build, field
from kavka.compat_tests.raw.codec.batches import read as read_batch
from kavka.log.fs import OsFs
from kavka.wire.record_batches import CONTROL
from support import logs
from support.broker import Kavka
from support.clients.kafka_python import create_topic
from support.compaction import Keyed, clean
from support.dump_log import assert_sound
from support.oracle import ApacheKafka
from support.process import BrokerProcess
from support.raw import RawConnection
from support.wait import eventually

SETTINGS = {
    "log.cleaner.backoff.ms": "200",
    "log.initial.task.delay.ms": "200",
    "log.segment.delete.delay.ms": "0",
    "replica.high.watermark.checkpoint.interval.ms": "200",
}
TOPIC = "compacted"
CONFIGS = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "internal.segment.bytes": "20000",
    "index.interval.bytes": "500",
}


def cleaned_upto(broker: BrokerProcess, topic: str) -> int:
    """What the broker's checkpoint says."""
    path = broker.data_dir / "cleaner-offset-checkpoint"
    lines = path.read_text().splitlines()[2:] if path.exists() else []
    return {line.split()[0]: int(line.split()[2]) for line in lines}.get(topic, 0)


def batches(seed: int, count: int) -> list[bytearray]:
    """Of a few records each, with keys that come again and some that are deleted."""
    chance = random.Random(seed)
    codecs = list(CODECS)
    made = []
    for number in range(count):
        records = [
            Written(
                b"key-%d" % chance.randrange(300),
                None if chance.random() < 0.1 else b"value %d" % number,
                [("h", b"%d" % number)] if chance.random() < 0.2 else (),
                number * 100 + chance.randrange(1000),
            )
            for _ in range(chance.randrange(1, 40))
        ]
        made.append(build(records, codec=chance.choice(codecs)))
    return made


def fill(broker: BrokerProcess, written: Sequence[bytearray]) -> None:
    create_topic(broker.bootstrap, TOPIC, 1, CONFIGS)
    first, *rest = written
    with RawConnection("127.0.0.1", broker.port) as connection:
        eventually(
            lambda: connection.write(TOPIC, 0, first)["error_code"] == 0,
            within_s=60,
            what="the new partition has its leader",
            detail=broker.tail,
        )
        for batch in rest:
            assert connection.produce(TOPIC, 0, bytes(batch)).error_code == 0


def active_base(broker: BrokerProcess) -> int:
    directory = broker.data_dir / f"{TOPIC}-0"
    return max(int(path.stem) for path in directory.glob("*.log"))


def wait_until_clean(broker: BrokerProcess) -> None:
    eventually(
        lambda: cleaned_upto(broker, TOPIC) == active_base(broker),
        within_s=120,
        what="the log is compacted",
        detail=broker.tail,
    )


def read(broker: BrokerProcess) -> list[Keyed]:
    """Everything, by a stock consumer."""
    partition = TopicPartition(TOPIC, 0)
    consumer: Any = KafkaConsumer(
        bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest", enable_auto_commit=False
    )
    try:
        consumer.assign([partition])
        end = consumer.end_offsets([partition])[partition]
        found: list[Keyed] = []

        def at_end() -> bool:
            for records in consumer.poll(timeout_ms=200).values():
                found.extend(
                    Keyed(record.offset, record.key, record.value, record.timestamp)
                    for record in records
                )
            return bool(consumer.position(partition) >= end)

        eventually(at_end, within_s=60, what="everything is read", detail=broker.tail)
        return found
    finally:
        consumer.close()


def test_the_same_records_are_left_as_by_apache_kafka(tmp_path: Path) -> None:
    written = batches(1, 400)
    left: list[list[Keyed]] = []
    for kind in (Kavka, ApacheKafka):
        broker = kind(tmp_path / kind.__name__, SETTINGS)
        try:
            broker.start()
            fill(broker, written)
            wait_until_clean(broker)
            left.append(read(broker))
            if kind is Kavka:
                broker.kill()
                broker.start()
                assert read(broker) == left[0]
                broker.stop()
                assert_sound(broker.data_dir, compacted=(TOPIC,))
                assert "Traceback" not in broker.output(), broker.tail()
        finally:
            broker.close()
    assert left[0] == left[1]
    assert len(left[0]) < 2000, "some 8000 were written"


# --- transactions: one directory of Apache Kafka's, compacted by both

TRANSACTIONAL = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.0001",
    "delete.retention.ms": "0",
    "internal.segment.bytes": "15000",
}
NOT_YET = {"log.cleaner.enable": "false"}
FLUSH_S = 120.0


def write_transactions(broker: BrokerProcess, seed: int, names: Sequence[str]) -> None:
    """Of several producers, across and within each other, all of them ended."""
    chance = random.Random(seed)
    plain = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0})
    writers = {}
    for name in names:
        ids = {"transactional.id": name, "linger.ms": 0}
        writers[name] = Producer({"bootstrap.servers": broker.bootstrap, **ids})
        writers[name].init_transactions(FLUSH_S)
    began: dict[str, bool] = {}
    for step in range(200):
        name = chance.choice([*names, ""])
        if name in began and chance.random() < 0.4:
            end(writers[name], commit=chance.random() < 0.5)
            del began[name]
            continue
        if name and name not in began:
            writers[name].begin_transaction()
            began[name] = True
        producer = writers.get(name, plain)
        for _ in range(chance.randint(1, 4)):
            value = b"%d" % step * 30 if chance.random() < 0.8 else None
            producer.produce(TOPIC, value, b"key-%d" % chance.randrange(40), partition=0)
        assert producer.flush(FLUSH_S) == 0
    for name in began:
        end(writers[name], commit=name == names[0])


def end(producer: Producer, *, commit: bool) -> None:
    if commit:
        producer.commit_transaction(FLUSH_S)
    else:
        producer.abort_transaction(FLUSH_S)


NAMES = [name for name in FIELDS if name not in ("batch_length", "crc", "base_timestamp")]
"""The base timestamp, which may be the time of the compaction, is left out."""


class Batch(NamedTuple):
    """Header and records of one batch."""

    fields: tuple[int, ...]
    records: tuple[Any, ...]

    def field(self, name: str) -> int:
        return self.fields[NAMES.index(name)]


class Stored(NamedTuple):
    """What is in a partition's directory."""

    batches: list[Batch]
    first_ones: list[Batch]
    last_ones: list[Batch]
    """Of each segment that is not empty."""

    aborted: list[tuple[int, ...]]
    """Entries of the transaction indexes."""


def stored(directory: Path) -> Stored:
    """All that is in its files."""
    found = Stored([], [], [], [])
    for path in sorted(directory.glob("*.log")):
        data = path.read_bytes()
        at, first = 0, len(found.batches)
        while at < len(data):
            size = 12 + int.from_bytes(data[at + 8 : at + 12], "big")
            batch = data[at : at + size]
            fields = tuple(field(batch, name) for name in NAMES)
            found.batches.append(Batch(fields, tuple(map(fields_of, read_batch(batch)))))
            at += size
        found.first_ones.extend(found.batches[first : first + 1])
        found.last_ones.extend(found.batches[-1:])
    for path in sorted(directory.glob("*.txnindex")):
        found.aborted.extend(struct.iter_unpack(">hqqqq", path.read_bytes()))
    return found


def fields_of(record: Any) -> tuple[Any, ...]:
    return record.offset, record.timestamp, record.key, record.value


def compact_here(source: Path, target: Path, upto: int) -> Path:
    """A copy of the directory `source`, compacted by Kavka; `upto` is clean already."""
    partition = f"{TOPIC}-0"
    shutil.copytree(source / partition, target / partition)
    for name in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint"):
        shutil.copy(source / name, target)  # else it would be recovered, its indexes rebuilt
    fs = OsFs()
    configs = {"cleanup_policy": ("compact",), "delete_retention_ms": 0, "segment_bytes": 15_000}
    broker = logs.Broker(fs, str(target), log_settings=logs.settings(**configs))
    log = broker.log(TOPIC)
    log.compaction.clean_upto = upto
    clean(log, fs, now_ms=time.time_ns() // 1_000_000)
    broker.logs.close()
    return target / partition


def test_transactions_are_compacted_as_by_apache_kafka(tmp_path: Path) -> None:
    kafka = ApacheKafka(tmp_path / "kafka", SETTINGS | NOT_YET)
    try:
        for turn in range(2):
            kafka.start()
            if not turn:
                create_topic(kafka.bootstrap, TOPIC, 1, TRANSACTIONAL)
            write_transactions(kafka, turn, ["one", "two", "three"][turn:])
            kafka.stop()
            upto = cleaned_upto(kafka, TOPIC)
            ours = compact_here(kafka.data_dir, tmp_path / f"kavka-{turn}", upto)
            before = stored(kafka.data_dir / ours.name)
            have_a_cleaner(kafka, "true")
            kafka.start()
            wait_until_clean(kafka)
            kafka.stop()
            have_a_cleaner(kafka, "false")
            theirs = stored(kafka.data_dir / ours.name)
            assert len(theirs.batches) < len(before.batches)
            assert 0 < len(theirs.aborted) <= len(before.aborted) - 10 * turn, (
                "markers go one turn later"
            )
            check_same(stored(ours), theirs, before)
    finally:
        kafka.close()


def have_a_cleaner(kafka: ApacheKafka, value: str) -> None:
    with (kafka.home / "server.properties").open("a") as settings:
        settings.write(f"log.cleaner.enable={value}\n")


def check_same(ours: Stored, theirs: Stored, before: Stored) -> None:
    """But for bare headers, which Kavka keeps at the end of a segment, so that one segment ends
    where the next begins, and of the last batch of each producer in what is compacted. The marker
    of that one's transaction stays as long, by the rule of both."""
    known = dict.fromkeys(theirs.batches)
    more = [batch for batch in ours.batches if batch not in known]
    last = last_compacted(before)
    markers = [batch.field("base_offset") for batch in more if batch.records]
    for batch in more:
        if batch.records:
            assert batch.field("base_offset") > last[batch.field("producer_id")]
            assert batch.field("attributes") & CONTROL
        else:
            is_last = batch.field("base_offset") == last.get(batch.field("producer_id"))
            assert is_last or batch in ours.last_ones
    assert [batch for batch in ours.batches if batch in known] == theirs.batches
    assert [
        transaction for transaction in ours.aborted if transaction[3] not in markers
    ] == theirs.aborted


def last_compacted(before: Stored) -> dict[int, int]:
    """Where each producer's last batch with records before the active segment is."""
    active = before.batches.index(before.first_ones[-1])
    return {
        batch.field("producer_id"): batch.field("base_offset")
        for batch in before.batches[:active]
        if not batch.field("attributes") & CONTROL
    }
