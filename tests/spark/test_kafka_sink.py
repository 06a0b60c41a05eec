"""Spark's Kafka sink: what `df.write` and `df.writeStream` write, read back with kafka-python."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from support.process import BrokerProcess
from support.spark import (
    Headers,
    Stored,
    by_partition,
    create_topic,
    end_offsets,
    numbered,
    place,
    produce,
    read_topic,
    rows,
)
from support.spark_queries import Query, noted, read, stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA: Final = (
    "key binary, value binary, headers array<struct<key string, value binary>>, "
    "partition int, topic string"
)

Row = tuple[bytes | None, bytes | None, Headers | None, int, str]


def row(number: int, topic: str, partition: int) -> Row:
    """A row for the sink. Some have no key, no value, no headers, or a null among them."""
    headers: Sequence[Headers | None] = (
        None,
        (),
        (("a", b"1"), ("a", b""), ("\u00e9", None), ("", b"\x00\xff")),
    )
    key = None if number % 4 == 3 else b"key %d" % number
    value = None if number % 5 == 4 else bytes([number]) * number
    return key, value, headers[number % 3], partition, topic


def contents(records: Iterable[Stored]) -> list[tuple[Any, ...]]:
    """What a record has in it, apart from its offset and time."""
    return [(each.key, each.value, each.headers, each.partition, each.topic) for each in records]


def expected(made: Iterable[Row]) -> list[tuple[Any, ...]]:
    """The same of rows: a sink without headers writes none."""
    return [(key, value, headers or (), *rest) for key, value, headers, *rest in made]


def write(frame: DataFrame, broker: BrokerProcess, **options: str) -> None:
    given = {"kafka.bootstrap.servers": broker.bootstrap, **options}
    frame.write.format("kafka").options(**given).save()


@pytest.mark.oracle
def test_rows_go_where_their_columns_say(
    spark: SparkSession, broker: BrokerProcess, topic: str
) -> None:
    """Partition and topic of each row, and its headers with nulls; read back by both."""
    topics = [create_topic(broker.bootstrap, f"{topic}-{letter}", 3) for letter in "ab"]
    made = [row(number, topics[number // 3 % 2], number % 3) for number in range(60)]
    frame = spark.createDataFrame(made, SCHEMA).coalesce(1)  # one task: the order of rows is kept
    before_ms = time.time_ns() // 1_000_000
    write(frame, broker)
    after_ms = time.time_ns() // 1_000_000
    for name in topics:
        records = read_topic(broker.bootstrap, name)
        sent = [record for record in made if record[4] == name]
        sent.sort(key=lambda record: record[3])  # the order within a partition stays
        assert contents(records) == expected(sent)
        assert all(before_ms <= record.timestamp_ms <= after_ms for record in records)
        assert rows(read(spark, broker.bootstrap, {"subscribe": name})) == records


def test_options_of_the_sink(spark: SparkSession, broker: BrokerProcess, topic: str) -> None:
    """The option `topic` goes before the column; a key without a partition goes where stock
    producers put it; text is written as UTF-8; the producer gets what begins with `kafka.`."""
    bootstrap = broker.bootstrap
    chosen = create_topic(bootstrap, topic, 3)
    other = create_topic(bootstrap, f"{topic}-other", 3)
    frame = spark.createDataFrame(
        [(f"key {number}", f"w\u00e9rt {number}", other) for number in range(50)],
        "key string, value string, topic string",
    )
    write(frame, broker, topic=chosen, **{"kafka.compression.type": "zstd", "kafka.acks": "all"})
    assert read_topic(bootstrap, other) == []
    by_hand = [
        each._replace(key=f"key {number}".encode(), value=f"w\u00e9rt {number}".encode())
        for number, each in enumerate(numbered(50))
    ]
    by_hand = [each._replace(partition=None, headers=()) for each in by_hand]
    judged = produce(bootstrap, other, by_hand)
    assert sorted((each.key, each.value, each.partition) for each in judged) == sorted(
        (each.key, each.value, each.partition) for each in read_topic(bootstrap, chosen)
    )

    with pytest.raises(Exception, match="topic"):
        write(frame.drop("topic"), broker)
    with pytest.raises(Exception, match="not present in metadata"):
        write(frame, broker, topic=f"{topic}-missing", **{"kafka.max.block.ms": "500"})
    too_large = spark.sql("select repeat('x', 2000000) as value")
    larger = {"kafka.max.request.size": "3000000"}
    with pytest.raises(Exception, match="larger than the max message size|RecordTooLarge"):
        write(too_large, broker, topic=chosen, **larger)
    assert len(read_topic(bootstrap, chosen)) == 50


def copying(
    spark: SparkSession, broker: BrokerProcess, source: str, sink: str, checkpoint: Path, **how: Any
) -> Query:
    """A query that copies a topic's records to another one, partition by partition."""
    frame = stream(
        spark, broker.bootstrap, {"subscribe": source, "startingOffsets": "earliest"}
    ).select("key", "value", "headers", "partition")
    writer = frame.writeStream.format("kafka").trigger(**how)
    writer = writer.options(**{"kafka.bootstrap.servers": broker.bootstrap, "topic": sink})
    query = Query()
    query.start(writer, checkpoint)
    return query


def moved(records: Iterable[Stored], topic: str) -> list[tuple[Any, ...]]:
    """The contents of records as they are in another topic."""
    ordered = sorted(records, key=place)
    return contents(each._replace(topic=topic) for each in ordered)


def test_a_stream_from_topic_to_topic(
    spark: SparkSession, broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    """What a query has written, another run of it does not write again."""
    source = create_topic(broker.bootstrap, f"{topic}-in", 2)
    sink = create_topic(broker.bootstrap, f"{topic}-out", 2)
    stored: list[Stored] = []
    for round_number in range(2):
        stored += produce(
            broker.bootstrap, source, numbered(40, partitions=2, start=40 * round_number)
        )
        query = copying(spark, broker, source, sink, tmp_path, availableNow=True)
        query.wait_for_end()
        found = read_topic(broker.bootstrap, sink)
        assert contents(found) == moved(stored, sink)


def test_continuous_processing(
    spark: SparkSession, broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    """Records that are there and records that come, without batches; a query that was stopped
    writes none again that it had noted, and all others."""
    source = create_topic(broker.bootstrap, f"{topic}-in", 2)
    sink = create_topic(broker.bootstrap, f"{topic}-out", 2)
    stored: list[Stored] = []

    def copied() -> bool:
        return sum(end_offsets(broker.bootstrap, sink, 2).values()) >= len(stored)

    def all_noted() -> bool:
        return noted(tmp_path, source) == {
            number: len(those) for number, those in by_partition(stored).items()
        }

    for start in (0, 40):
        stored += produce(broker.bootstrap, source, numbered(20, partitions=2, start=start))
        query = copying(spark, broker, source, sink, tmp_path, continuous="200 milliseconds")
        try:
            query.wait_for(copied, "the first are copied")
            stored += produce(
                broker.bootstrap, source, numbered(20, partitions=2, start=start + 20)
            )
            query.wait_for(copied, "the second are copied")
            query.wait_for(all_noted, "their offsets are noted")
        finally:
            query.spark_query.stop()
    assert contents(read_topic(broker.bootstrap, sink)) == moved(stored, sink)
