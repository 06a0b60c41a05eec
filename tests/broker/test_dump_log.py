"""Apache Kafka's DumpLogSegments reads every file that the broker wrote, without complaint."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from support.broker import Kavka, StartBroker
from support.clients import corpus
from support.clients.every import CONFLUENT
from support.clients.kafka_python import create_topic
from support.dump_log import Dumped, assert_sound, dump, files
from support.process import BrokerProcess

SEGMENT_BYTES = 1_048_576
"""The least that Apache Kafka 4 takes; the uncompressed corpus needs several a partition."""
COPIES = 3
"""How often the corpus is written to the uncompressed topic."""


def test_dump_log_reads_every_file(start_broker: StartBroker) -> None:
    broker = start_broker()
    create_topics(broker)
    written = write_every_codec(broker)

    broker.kill()
    broker.start()
    if isinstance(broker, Kavka):  # Apache Kafka's open index files end in zeros
        check(broker, written)

    written += write_every_codec(broker)
    broker.stop()
    dumped = check(broker, written)
    assert dumped.producers > 0


def test_the_judge_finds_planted_faults(start_broker: StartBroker) -> None:
    broker = start_broker()
    create_topic(broker.bootstrap, "faults", 1, {"index.interval.bytes": "2048"})
    records = [
        replace(record, partition=0)
        for record in corpus.make(CONFLUENT.shapes, time.time_ns() // 1_000_000, count=2_000)
    ]
    CONFLUENT.write(broker.bootstrap, "faults", records, "none")
    broker.stop()
    assert assert_sound(broker.data_dir).records == len(records)
    log = broker.data_dir / "faults-0" / f"{0:020}.log"
    for suffix, position, complaint in (
        (".log", -3, "isvalid: false"),
        (".index", 3, "Index offset"),
        (".timeindex", 7, "Index timestamp"),
    ):
        path = log.with_suffix(suffix)
        with planted(path, position):
            assert complaint in " ".join(dump([path], "--deep-iteration").complaints)


@contextmanager
def planted(path: Path, position: int) -> Iterator[None]:
    """A file with one bit turned around."""
    sound = path.read_bytes()
    broken = bytearray(sound)
    broken[position] ^= 1
    path.write_bytes(broken)
    yield
    path.write_bytes(sound)


def create_topics(broker: BrokerProcess) -> None:
    """A topic a codec, with small segments and dense indexes."""
    configs = {"segment.bytes": str(SEGMENT_BYTES), "index.interval.bytes": "2048"}
    for codec in corpus.CODECS:
        create_topic(broker.bootstrap, f"dump.{codec}", 2, configs)


def write_every_codec(broker: BrokerProcess) -> int:
    """Write the corpus in each codec. Returns the number of records."""
    records = [
        record
        for record in corpus.make(CONFLUENT.shapes, time.time_ns() // 1_000_000)
        if record.partition in (0, 1)
    ]
    written = 0
    for codec in corpus.CODECS:
        for _ in range(COPIES if codec == "none" else 1):
            written += len(CONFLUENT.write(broker.bootstrap, f"dump.{codec}", records, codec))
    return written


def check(broker: BrokerProcess, written: int) -> Dumped:
    """All files are sound and hold what was written; one partition has several segments."""
    names = [path.name for path in files(broker.data_dir) if path.parent.name == "dump.none-0"]
    assert sum(name.endswith(".log") for name in names) > 1, names
    assert any(name.endswith(".snapshot") for name in names), names
    dumped = assert_sound(broker.data_dir)
    assert dumped.records == written
    assert dumped.index_entries > 0
    return dumped
