"""Compaction in a running broker: Kavka beside Apache Kafka 4.3.1, on the same batches."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kafka import KafkaConsumer, TopicPartition

from support.batches import CODECS, Written, build
from support.broker import Kavka
from support.clients.kafka_python import create_topic
from support.compaction import Keyed
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


def fill(broker: BrokerProcess, wanted: Sequence[bytearray]) -> None:
    create_topic(broker.bootstrap, TOPIC, 1, CONFIGS)
    with RawConnection("127.0.0.1", broker.port) as connection:
        for batch in wanted:
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
                found.extend(Keyed(r.offset, r.key, r.value, r.timestamp) for r in records)
            return bool(consumer.position(partition) >= end)

        eventually(at_end, within_s=60, what="everything is read", detail=broker.tail)
        return found
    finally:
        consumer.close()


def test_the_same_records_are_left_as_by_apache_kafka(tmp_path: Path) -> None:
    wanted = batches(1, 400)
    left: list[list[Keyed]] = []
    for kind in (Kavka, ApacheKafka):
        broker = kind(tmp_path / kind.__name__, SETTINGS)
        try:
            broker.start()
            fill(broker, wanted)
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
