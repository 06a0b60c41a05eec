"""The broker dies by SIGKILL in the middle of Spark's queries and is started again on its data.
Queries go on by themselves; each record is read, and written, exactly once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kafka import KafkaProducer

from support.process import BrokerProcess
from support.spark import (
    Record,
    by_partition,
    create_topic,
    end_offsets,
    numbered,
    place,
    produce,
    read_topic,
    send,
)
from support.spark_queries import Query, running, stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COUNT: Final = 4000
PARTITIONS: Final = 2
BATCH: Final = 250
CHUNK: Final = 100
PATIENT: Final = {"reconnect_backoff_max_ms": 500, "delivery_timeout_ms": 180_000}
"""Of a producer that outlives the broker's absence."""


@contextmanager
def writing(bootstrap: str, topic: str, records: list[Record], query: Query) -> Iterator[None]:
    """Write records meanwhile, as fast as the query reads; at the end all are written."""
    failures: list[BaseException] = []

    def write() -> None:
        try:
            with closing(KafkaProducer(bootstrap_servers=bootstrap, acks="all", **PATIENT)) as own:
                for first in range(0, len(records), CHUNK):
                    query.wait_for_count(first + CHUNK)
                    send(own, topic, records[first : first + CHUNK])
        except BaseException as failure:
            failures.append(failure)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        writer.join()
    assert not failures, failures


def values(records: list[Record]) -> dict[int, list[bytes | None]]:
    """By partition, in order."""
    return {
        number: [record.value for record in records if record.partition == number]
        for number in range(PARTITIONS)
    }


def kill_and_restart(broker: BrokerProcess, query: Query, done: Callable[[], int]) -> None:
    """Kill the broker when the query has done a part of its work."""
    query.wait_for(lambda: done() >= 2 * BATCH, "the query is at work")
    assert done() < COUNT
    broker.kill()
    broker.start()


def test_a_stream_is_read_across_a_restart(
    spark: SparkSession, broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    """Half of the records is there when the query starts, the others come while it runs and the
    broker dies."""
    create_topic(broker.bootstrap, topic, PARTITIONS)
    records = numbered(COUNT, partitions=PARTITIONS)
    produce(broker.bootstrap, topic, records[: COUNT // 2])
    options = {
        "subscribe": topic,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": str(BATCH),
    }
    with (
        running(stream(spark, broker.bootstrap, options), tmp_path) as query,
        writing(broker.bootstrap, topic, records[COUNT // 2 :], query),
    ):
        kill_and_restart(broker, query, lambda: query.count)
        query.wait_for_count(COUNT)
    stored = read_topic(broker.bootstrap, topic)
    assert query.records == sorted(stored, key=place)
    for partition, those in values(records).items():
        assert [each.value for each in by_partition(stored)[partition]] == those


def test_the_sink_writes_across_a_restart(
    spark: SparkSession, broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    """From topic to topic, both on the broker that dies. Spark's sink writes at least once where
    its query fails; this one does not, and its producers are idempotent."""
    source = create_topic(broker.bootstrap, f"{topic}-in", PARTITIONS)
    sink = create_topic(broker.bootstrap, f"{topic}-out", PARTITIONS)
    records = numbered(COUNT, partitions=PARTITIONS)
    stored = produce(broker.bootstrap, source, records)
    options = {
        "subscribe": source,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": str(BATCH),
    }
    frame = stream(spark, broker.bootstrap, options)
    writer = frame.select("key", "value", "headers", "partition").writeStream.format("kafka")
    writer = writer.options(**{"kafka.bootstrap.servers": broker.bootstrap, "topic": sink})

    def written() -> int:
        return sum(end_offsets(broker.bootstrap, sink, PARTITIONS).values())

    query = Query()
    query.start(writer, tmp_path)
    try:
        kill_and_restart(broker, query, written)
        query.wait_for(lambda: written() >= COUNT, f"{COUNT} records written")
    finally:
        query.spark_query.stop()
    found = by_partition(read_topic(broker.bootstrap, sink))
    for partition, those in by_partition(stored).items():
        assert [(each.key, each.value, each.headers) for each in found[partition]] == [
            (each.key, each.value, each.headers) for each in those
        ]
