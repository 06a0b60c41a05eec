"""SIGKILL when a commit is acknowledged and its markers are not written yet: it is finished.

A lone broker of Apache Kafka 4.3.1 does not: see docs/transactions.md. With COMMIT_THEN_KILL_ORACLE=1
its run is recorded, and nothing asserted of it.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from support import segments
from support.clients.kafka_python import create_topic
from support.oracle import ApacheKafka
from support.process import HOST, BrokerProcess
from support.raw import RawConnection
from support.transactional import TransactionalProducer, play

TOPIC = "killed"
PARTITIONS = 2
RECORDS = 3
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
CONTROL = 0x20
STUCK_S = 60.0
SKIPPED = "likely deleted already and hence can be skipped"


class Ends(NamedTuple):
    """Of each partition: where it ends for who reads committed records, and for who reads all."""

    committed: list[int]
    all: list[int]


def commit_and_kill(broker: BrokerProcess, protocol: int) -> None:
    """A transaction on all partitions; the broker is killed as soon as its commit is answered."""
    create_topic(broker.bootstrap, TOPIC, PARTITIONS)
    producer = TransactionalProducer("killed", protocol, TOPIC)
    with RawConnection(HOST, broker.port) as connection:
        play(connection, producer.find())
        play(connection, producer.init())
        play(connection, producer.add(range(PARTITIONS)))
        for partition in range(PARTITIONS):
            play(connection, producer.write(partition, [b"value"] * RECORDS))
        play(connection, producer.end(commit=True))
        broker.kill()


def ends(broker: BrokerProcess) -> Ends:
    """As ListOffsets tells them."""
    with RawConnection(HOST, broker.port) as connection:
        told = [
            [end(connection, partition, isolation) for partition in range(PARTITIONS)]
            for isolation in (READ_COMMITTED, READ_UNCOMMITTED)
        ]
    return Ends(*told)


def end(connection: RawConnection, partition: int, isolation: int) -> int:
    at = {"partition_index": partition, "current_leader_epoch": -1, "timestamp": -1}
    answer = connection.request(
        "ListOffsets",
        8,
        replica_id=-1,
        isolation_level=isolation,
        topics=[{"name": TOPIC, "partitions": [at]}],
    )
    offset: int = answer["topics"][0]["partitions"][0]["offset"]
    return offset


def markers(data_dir: Path) -> int:
    """How many the log has."""
    return sum(
        bool(attributes & CONTROL)
        for segment in data_dir.glob(f"{TOPIC}-*/*.log")
        for attributes in attributes_of(segment)
    )


def attributes_of(segment: Path) -> list[int]:
    content, position, found = segment.read_bytes(), 0, []
    while position < len(content):
        fields = segments.HEADER.unpack_from(content, position)
        found.append(fields[5])
        position += segments.LENGTH_PREFIX_BYTES + fields[1]
    return found


@pytest.mark.skipif("COMMIT_THEN_KILL_ORACLE" not in os.environ, reason="is only recorded")
@pytest.mark.parametrize("protocol", [1, 2])
def test_what_apache_kafka_does_is_recorded(tmp_path: Path, protocol: int) -> None:
    kafka = ApacheKafka(tmp_path / "kafka")
    try:
        kafka.start()
        commit_and_kill(kafka, protocol)
        print(f"\nmarkers written before SIGKILL: {markers(kafka.data_dir)} of {PARTITIONS}")
        kafka.start()
        deadline = time.monotonic() + STUCK_S
        found = ends(kafka)
        while time.monotonic() < deadline and (found.committed != found.all or -1 in found.all):
            time.sleep(1)
            found = ends(kafka)
        print(f"{found} at the end of {STUCK_S:.0f} s at most")
        for line in kafka.output().splitlines():
            if SKIPPED in line:
                print(line)
    finally:
        kafka.close()
