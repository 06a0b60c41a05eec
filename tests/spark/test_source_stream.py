"""Spark's Kafka source in streaming queries: which topics and offsets they read, how much in a
batch, and what they make of topics and partitions that come while they run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from kafka import KafkaAdminClient

from support.process import BrokerProcess
from support.spark import (
    CLIENT_WITHIN_S,
    Stored,
    by_partition,
    create_topic,
    numbered,
    place,
    produce,
)
from support.spark_queries import Options, Query, finished, offsets, running, stream, wait_for_start
from support.wait import eventually

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIRST_MS: Final = 1_700_000_000_000


@pytest.mark.oracle
def test_a_pattern_takes_in_topics_and_partitions_that_come(
    spark: SparkSession, broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    """A new topic or partition is read from its first record, with any startingOffsets."""
    bootstrap = broker.bootstrap
    create_topic(bootstrap, f"{topic}-1", 2)
    produce(bootstrap, f"{topic}-1", numbered(8, partitions=2))
    frame = stream(spark, bootstrap, {"subscribePattern": f"{topic}-\\d", "failOnDataLoss": "true"})
    with running(frame, tmp_path) as query:  # from the latest offsets, as is the default
        wait_for_start(query, tmp_path)
        stored = produce(bootstrap, f"{topic}-1", numbered(10, partitions=2, start=8))
        query.wait_for_records(stored)
        create_topic(bootstrap, f"{topic}-2", 1)
        stored += produce(bootstrap, f"{topic}-2", numbered(5, start=18))
        create_topic(bootstrap, f"{topic}-other", 1)
        produce(bootstrap, f"{topic}-other", numbered(5))
        query.wait_for_records(stored)
        with closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
            admin.create_partitions({f"{topic}-1": 4})
            eventually(
                lambda: partitions(admin, f"{topic}-1") == 4,
                within_s=CLIENT_WITHIN_S,
                what="the broker knows of the new partitions",
            )
        stored += produce(bootstrap, f"{topic}-1", numbered(20, partitions=4, start=23))
        query.wait_for_records(stored)
    assert {(each.topic[-1], each.partition) for each in query.records} == {
        *(("1", partition) for partition in range(4)),
        ("2", 0),
    }


def partitions(admin: KafkaAdminClient, topic: str) -> int:
    """How many partitions of a topic have leaders. A producer knows no others."""
    (found,) = admin.describe_topics([topic])
    return sum(not partition["error_code"] for partition in found["partitions"])


def test_available_now_reads_so_many_a_batch_and_goes_on_where_it_was(
    spark: SparkSession, broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    create_topic(broker.bootstrap, topic, 3)
    first = produce(broker.bootstrap, topic, numbered(90, partitions=3))
    options = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "31"}
    first_run = finished(stream(spark, broker.bootstrap, options), tmp_path)
    assert first_run.records == sorted(first, key=place)
    assert len(first_run.batch_sizes) == 3 and max(first_run.batch_sizes) <= 31, (
        first_run.batch_sizes
    )
    for batch in first_run.batches.values():  # each partition gets its share
        assert set(by_partition(batch)) == {0, 1, 2}

    second = produce(broker.bootstrap, topic, numbered(30, partitions=1, start=90))
    second_run = finished(
        stream(spark, broker.bootstrap, {**options, "startingOffsets": "latest"}), tmp_path
    )
    assert second_run.records == second
    assert second_run.batch_sizes == [30]
    assert min(second_run.batches) == max(first_run.batches) + 1, "the checkpoint was read"


def test_a_batch_waits_for_enough_records_or_the_delay(
    spark: SparkSession, broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    create_topic(broker.bootstrap, topic, 2)
    first = produce(broker.bootstrap, topic, numbered(10, partitions=2))
    options = {
        "subscribe": topic,
        "startingOffsets": "earliest",
        "minOffsetsPerTrigger": "10",
        "maxOffsetsPerTrigger": "12",
    }
    spark.conf.set("spark.sql.streaming.noDataProgressEventInterval", "50")  # ms; reports idle
    try:
        patient = stream(spark, broker.bootstrap, {**options, "maxTriggerDelay": "1h"})
        with running(patient, tmp_path / "patient") as query:
            query.wait_for_records(first)
            second = produce(broker.bootstrap, topic, numbered(6, partitions=2, start=10))
            wait_until_seen(query, topic, {0: 8, 1: 8})
            assert query.batch_sizes == [10], "6 are too few"
            third = produce(broker.bootstrap, topic, numbered(4, partitions=2, start=16))
            query.wait_for_records(first + second + third)
            assert query.batch_sizes == [10, 10]
        hasty = stream(spark, broker.bootstrap, {**options, "maxTriggerDelay": "1s"})
        with running(hasty, tmp_path / "hasty") as query:
            query.wait_for_count(12)
            assert query.batch_sizes[0] == 12
            query.wait_for_records(first + second + third)  # the delay lets the last 8 through
            assert query.batch_sizes == [12, 8]
    finally:
        spark.conf.unset("spark.sql.streaming.noDataProgressEventInterval")


def wait_until_seen(query: Query, topic: str, ends: dict[int, int]) -> None:
    """Wait until the query has seen these ends of partitions on the broker."""
    expected = {str(number): end for number, end in ends.items()}
    query.wait_for(lambda: query.latest().get(topic) == expected, f"the query has seen {expected}")


def test_where_a_stream_starts(
    spark: SparkSession, broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    create_topic(broker.bootstrap, topic, 3)
    stored = produce(
        broker.bootstrap, topic, numbered(30, partitions=3, first_ms=FIRST_MS, step_ms=1000)
    )
    late = FIRST_MS + 14_000
    start = offsets(topic, {0: 4, 1: -2, 2: -1})
    by_time = {0: FIRST_MS + 28_000, 1: late, 2: late}

    def since(*times: int) -> list[Stored]:
        return [each for each in stored if each.timestamp_ms >= times[each.partition]]

    below = {"startingOffsets": "latest"}  # what goes before offsets
    for number, (options, expected) in enumerate(
        (
            (
                {"startingOffsets": start},
                [each for each in stored if each.offset >= (4, 0, 99)[each.partition]],
            ),
            ({"startingTimestamp": str(late), **below}, since(late, late, late)),
            (
                {
                    "startingOffsetsByTimestamp": offsets(topic, by_time),
                    "startingOffsetsByTimestampStrategy": "latest",
                    **below,
                },
                [each for each in since(*by_time.values()) if each.partition],
            ),
        )
    ):
        given = {"subscribe": topic, **options}
        query = finished(stream(spark, broker.bootstrap, given), tmp_path / str(number))
        assert query.records == sorted(expected, key=place), options


def test_a_batch_is_divided_among_tasks(
    spark: SparkSession, broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    create_topic(broker.bootstrap, topic, 3)
    stored = produce(broker.bootstrap, topic, numbered(60, partitions=2))
    assigned = {"assign": f'{{"{topic}":[0,1]}}', "startingOffsets": "earliest"}
    cases: list[tuple[Options, Callable[[Sequence[int]], bool]]] = [
        ({}, lambda sizes: len(sizes) == 2),
        ({"minPartitions": "6"}, lambda sizes: len(sizes) >= 6),
        ({"maxRecordsPerPartition": "8"}, lambda sizes: max(sizes) <= 8),
    ]
    for number, (options, fits) in enumerate(cases):
        frame = stream(spark, broker.bootstrap, {**assigned, **options})
        query = finished(
            frame.selectExpr("*", "spark_partition_id() as task"), tmp_path / str(number)
        )
        assert query.records == sorted(stored, key=place), options
        assert sum(query.task_sizes) == 60 and fits(query.task_sizes), (options, query.task_sizes)
