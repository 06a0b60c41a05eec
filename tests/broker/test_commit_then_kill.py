"""SIGKILL when a commit is acknowledged and its markers are not written yet: it is finished.

A standalone broker of Apache Kafka 4.3.1 need not: see docs/transactions.md. Run as a program
(`make commits`) this shows what it does.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pytest

from support import segments
from support.broker import finish
from support.clients.kafka_python import create_topic
from support.doomed_broker import DoomedKavka
from support.oracle import ApacheKafka
from support.ports import HOST
from support.process import BrokerProcess
from support.raw import RawConnection
from support.transactional import TransactionalProducer, play
from support.wait import eventually

TOPIC = "killed"
PARTITIONS = 2
RECORDS = 3
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
SEGMENT = "0" * 20 + ".log"
CONTROL = 0x20
WITHIN_S = 60.0
STUCK_S = 60.0
SKIPPED = "likely deleted already and hence can be skipped"


class Ends(NamedTuple):
    """Of each partition: where it ends for who reads committed records, and for who reads all."""

    committed: list[int]
    all: list[int]


def write_and_commit(
    broker: BrokerProcess, protocol: int, before_commit: Callable[[], None]
) -> None:
    """A transaction on all partitions, to the answer to its commit."""
    create_topic(broker.bootstrap, TOPIC, PARTITIONS)
    producer = TransactionalProducer(
        "killed", protocol, TOPIC, written_ms=time.time_ns() // 1_000_000
    )
    with RawConnection(HOST, broker.port) as connection:
        play(connection, producer.find())
        play(connection, producer.init())
        play(connection, producer.add(range(PARTITIONS)))
        for partition in range(PARTITIONS):
            play(connection, producer.write(partition, [b"value"] * RECORDS))
        before_commit()
        play(connection, producer.end(commit=True))


def ends(broker: BrokerProcess) -> Ends:
    """As ListOffsets returns them."""
    with RawConnection(HOST, broker.port) as connection:
        found = [
            [
                connection.list_offset(TOPIC, partition, isolation=isolation)["offset"]
                for partition in range(PARTITIONS)
            ]
            for isolation in (READ_COMMITTED, READ_UNCOMMITTED)
        ]
    return Ends(*found)


def all_is_decided(found: Ends) -> bool:
    """Whether there are markers, and no open transactions."""
    return found.committed == found.all and min(found.all) > RECORDS


def markers(data_dir: Path) -> int:
    """How many the log has."""
    return sum(
        bool(attributes & CONTROL)
        for segment in data_dir.glob(f"{TOPIC}-*/*.log")
        for attributes in attributes_of(segment)
    )


def attributes_of(segment: Path) -> list[int]:
    """Of all whole batches: of the last there may be a part."""
    content, position, found = segment.read_bytes(), 0, []
    while position + segments.HEADER.size <= len(content):
        fields = segments.HEADER.unpack_from(content, position)
        position += segments.LENGTH_PREFIX_BYTES + fields[1]
        if position <= len(content):
            found.append(fields[5])
    return found


@pytest.mark.parametrize("protocol", [1, 2])
@pytest.mark.parametrize("marked", range(PARTITIONS))
def test_a_commit_without_all_its_markers_is_finished(
    tmp_path: Path, protocol: int, marked: int
) -> None:
    """The death is in the middle of a marker, with `marked` markers written before."""
    broker = DoomedKavka(tmp_path / "broker")
    try:
        broker.start()
        write_and_commit(broker, protocol, lambda: broker.doom(0, f"/{TOPIC}-{marked}/{SEGMENT}"))
        eventually(broker.has_died, within_s=WITHIN_S, what="the broker dies", detail=broker.tail)
        assert markers(broker.data_dir) == marked
        broker.start()
        eventually(
            lambda: all_is_decided(ends(broker)),
            within_s=WITHIN_S,
            what="readers of committed records get to the end",
            detail=lambda: f"{ends(broker)}\n{broker.tail()}",
        )
        # one that was written already may be there twice, as it may with Apache Kafka
        assert markers(broker.data_dir) in (PARTITIONS, PARTITIONS + marked)
    finally:
        finish(broker)


def record(data_dir: Path, protocol: int) -> None:
    """Print what Apache Kafka does."""
    kafka = ApacheKafka(data_dir)
    try:
        kafka.start()
        write_and_commit(kafka, protocol, lambda: None)
        kafka.kill()
        print(f"\nmarkers written before SIGKILL: {markers(kafka.data_dir)} of {PARTITIONS}")
        kafka.start()
        deadline = time.monotonic() + STUCK_S
        found = ends(kafka)
        while time.monotonic() < deadline and not all_is_decided(found):
            time.sleep(1)
            found = ends(kafka)
        print(f"{found} at the end of {STUCK_S:.0f} s at most")
        for line in kafka.output().splitlines():
            if SKIPPED in line:
                print(line)
    finally:
        kafka.close()


if __name__ == "__main__":
    for number in (1, 2):
        with TemporaryDirectory() as directory:
            record(Path(directory), number)
