"""Spark's Kafka source in batch: which records a read gives, by its options."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest

from support.process import BrokerProcess
from support.spark import (
    Record,
    Stored,
    by_partition,
    create_topic,
    numbered,
    place,
    produce,
    read_topic,
    rows,
)
from support.spark_queries import Options, offsets, read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIRST_MS: Final = 1_700_000_000_000
STEP_MS: Final = 1000
PARTITIONS: Final = 4
"""The last has no records."""
COUNT: Final = 90

EARLIEST, LATEST = -2, -1
"""In JSON."""


class Case(NamedTuple):
    """Options of a read, and where it starts and ends in each partition that has records."""

    options: Mapping[str, str]
    starts: Sequence[int]
    ends: Sequence[int]


@pytest.fixture(params=["admin client", pytest.param("consumer", marks=pytest.mark.whole)])
def asks_with(request: pytest.FixtureRequest) -> str:
    """Which client Spark asks with for offsets."""
    asks: str = request.param
    if asks == "consumer":
        request.getfixturevalue("deprecated_fetching")
    return asks


@pytest.fixture
def stored(broker: BrokerProcess, topic: str) -> list[Stored]:
    """Records of rising times over three partitions, and two that are late: in partition 0 a time
    comes that is long over, in partition 1 one of the future."""
    create_topic(broker.bootstrap, topic, PARTITIONS)
    records = numbered(COUNT, partitions=3, first_ms=FIRST_MS, step_ms=STEP_MS)
    records[30] = records[30]._replace(timestamp_ms=FIRST_MS)
    records[31] = records[31]._replace(timestamp_ms=FIRST_MS + 200 * STEP_MS)
    return produce(broker.bootstrap, topic, records)


def expected(stored: Sequence[Stored], case: Case) -> list[Stored]:
    """A plain model of a read."""
    chosen = [
        record
        for record in stored
        if case.starts[record.partition] <= record.offset < case.ends[record.partition]
    ]
    return sorted(chosen, key=place)


def offset_at(stored: Sequence[Stored], partition: int, time_ms: int, otherwise: int) -> int:
    """A plain model of ListOffsets: the first offset with this time or a later one."""
    those = by_partition(stored)[partition]
    return next((each.offset for each in those if each.timestamp_ms >= time_ms), otherwise)


def check(
    spark: SparkSession, broker: BrokerProcess, stored: Sequence[Stored], cases: Sequence[Case]
) -> None:
    for case in cases:
        assert rows(read(spark, broker.bootstrap, case.options)) == expected(stored, case), case


@pytest.mark.oracle
@pytest.mark.usefixtures("asks_with")
def test_offsets_bound_a_read(
    spark: SparkSession, broker: BrokerProcess, topic: str, stored: list[Stored]
) -> None:
    start = offsets(topic, {0: 5, 1: EARLIEST, 2: 30, 3: 0})
    end = offsets(topic, {0: 17, 1: 1, 2: LATEST, 3: LATEST})
    whole = [0] * 3, [30] * 3
    subscribed = {"subscribe": topic}
    cases = [
        Case(subscribed, *whole),
        Case({**subscribed, "startingOffsets": "earliest", "endingOffsets": "latest"}, *whole),
        Case({**subscribed, "startingOffsets": start}, [5, 0, 30], [30] * 3),
        Case({**subscribed, "endingOffsets": end}, [0] * 3, [17, 1, 30]),
        Case(
            {**subscribed, "startingOffsets": start, "endingOffsets": end}, [5, 0, 30], [17, 1, 30]
        ),
        Case(
            {
                "assign": f'{{"{topic}":[0,2]}}',
                "startingOffsets": offsets(topic, {0: 29, 2: 3}),
                "endingOffsets": offsets(topic, {0: 30, 2: 3}),
            },
            [29, 99, 3],
            [30, 99, 3],
        ),
    ]
    check(spark, broker, stored, cases)


@pytest.mark.usefixtures("asks_with")
def test_times_bound_a_read(
    spark: SparkSession, broker: BrokerProcess, topic: str, stored: list[Stored]
) -> None:
    early, late = FIRST_MS + 14 * STEP_MS, FIRST_MS + 61 * STEP_MS + 1

    def at(time_ms: int) -> list[int]:
        return [offset_at(stored, partition, time_ms, 30) for partition in range(3)]

    subscribed = {"subscribe": topic, "startingOffsetsByTimestampStrategy": "latest"}
    start = offsets(topic, {0: early, 1: late, 2: FIRST_MS, 3: early})
    end = offsets(topic, {0: late, 1: FIRST_MS + 300 * STEP_MS, 2: early, 3: early})
    cases = [
        Case({**subscribed, "startingTimestamp": str(early)}, at(early), [30] * 3),
        Case({**subscribed, "endingTimestamp": str(late)}, [0] * 3, at(late)),
        Case(
            {**subscribed, "startingTimestamp": str(early), "endingTimestamp": str(late)},
            at(early),
            at(late),
        ),
        Case(
            {**subscribed, "startingOffsetsByTimestamp": start, "endingOffsetsByTimestamp": end},
            [at(early)[0], at(late)[1], 0],
            [at(late)[0], 30, at(early)[2]],
        ),
        Case(  # the time for all goes before those of partitions, and they before offsets
            {
                **subscribed,
                "startingTimestamp": str(late),
                "startingOffsetsByTimestamp": start,
                "startingOffsets": "earliest",
            },
            at(late),
            [30] * 3,
        ),
        Case(  # nothing is as late: the strategy says latest
            {**subscribed, "startingTimestamp": str(FIRST_MS + 300 * STEP_MS)}, [30] * 3, [30] * 3
        ),
    ]
    assert at(late) == [21, 10, 20], "the late records play a part"
    check(spark, broker, stored, cases)


def test_no_record_of_the_time_is_an_error_by_default(
    spark: SparkSession, broker: BrokerProcess, topic: str, stored: list[Stored]
) -> None:
    too_late = FIRST_MS + 150 * STEP_MS  # partition 1 has one of later
    for options in (
        {"startingTimestamp": str(too_late)},
        {"startingOffsetsByTimestamp": offsets(topic, dict.fromkeys(range(4), too_late))},
        {"startingTimestamp": str(too_late), "startingOffsetsByTimestampStrategy": "error"},
    ):
        once = {"subscribe": topic, "fetchOffset.numRetries": "1"}
        frame = read(spark, broker.bootstrap, {**once, **options})
        with pytest.raises(Exception, match="No offset matched from request"):
            rows(frame)
    assigned = {"assign": f'{{"{topic}":[1]}}', "startingTimestamp": str(too_late)}
    first = offset_at(stored, 1, too_late, 30)
    assert rows(read(spark, broker.bootstrap, assigned)) == by_partition(stored)[1][first:]


def test_topics_are_chosen_by_name_pattern_and_partition(
    spark: SparkSession, broker: BrokerProcess, topic: str
) -> None:
    """Each topic has another codec, and none of its partitions is read in one go."""
    stored = []
    for number, codec in enumerate(("none", "gzip", "snappy", "lz4", "zstd")):
        name = create_topic(broker.bootstrap, f"{topic}-{codec}", 2)
        stored += produce(
            broker.bootstrap,
            name,
            numbered(40, partitions=2, start=40 * number),
            compression_type=None if codec == "none" else codec,
            linger_ms=50,
        )
    stored.sort(key=place)

    def of(*codecs: str) -> list[Stored]:
        return [record for record in stored if record.topic.rpartition("-")[2] in codecs]

    small = {
        "kafka.max.poll.records": "7",
        "kafka.max.partition.fetch.bytes": "300",
        "kafka.fetch.max.bytes": "500",
        "kafkaConsumer.pollTimeoutMs": "60000",
    }
    for options, want in (
        ({"subscribePattern": f"{topic}-.*"}, stored),
        ({"subscribePattern": f"{topic}-[gl].*", **small}, of("gzip", "lz4")),
        ({"subscribe": f"{topic}-zstd, {topic}-none", **small}, of("none", "zstd")),
        (
            {"assign": f'{{"{topic}-snappy":[1],"{topic}-lz4":[0,1]}}'},
            [each for each in of("snappy", "lz4") if each.partition or "lz4" in each.topic],
        ),
    ):
        assert rows(read(spark, broker.bootstrap, options)) == want, options


@pytest.mark.whole
def test_a_read_is_divided_among_tasks(
    spark: SparkSession, broker: BrokerProcess, topic: str, stored: list[Stored]
) -> None:
    whole = {
        "subscribe": topic,
        "startingOffsets": offsets(topic, dict.fromkeys(range(4), 0)),
        "endingOffsets": offsets(topic, {0: 30, 1: 30, 2: 30, 3: 0}),
    }

    cases: list[tuple[Options, Callable[[Sequence[int]], bool]]] = [
        ({}, lambda sizes: len(sizes) == 3),
        ({"minPartitions": "6"}, lambda sizes: len(sizes) >= 6),
        ({"maxRecordsPerPartition": "16"}, lambda sizes: max(sizes) <= 16),
    ]
    for options, fits in cases:
        frame = read(spark, broker.bootstrap, {**whole, **options})
        columns = ("partition", "offset", "value", "spark_partition_id() as task")
        found = [tuple(row) for row in frame.selectExpr(*columns).collect()]
        assert sorted(row[:-1] for row in found) == sorted(
            (record.partition, record.offset, record.value) for record in stored
        ), options
        sizes = list(Counter(row[-1] for row in found).values())
        assert fits(sizes), (options, sizes)


def test_the_columns_of_a_record(spark: SparkSession, broker: BrokerProcess, topic: str) -> None:
    """Headers only if asked for; the time of a topic that keeps the time of appending; values that
    are null, empty and large."""
    create_topic(broker.bootstrap, topic, 1)
    records = [
        Record(bytes(900_000), b"large", headers=(("a", b"1"),)),
        Record(None, b"null value"),
        Record(b"null key"),
        Record(b"", b""),
        *(Record(bytes([number]) * 200_000, b"%d" % number) for number in range(20)),
    ]
    stored = produce(broker.bootstrap, topic, records)
    options = {"subscribe": topic, "kafka.max.partition.fetch.bytes": "10000"}
    assert rows(read(spark, broker.bootstrap, options)) == stored
    without = read(spark, broker.bootstrap, {**options, "includeHeaders": "false"})
    assert "headers" not in without.columns
    assert rows(without) == [record.bare() for record in stored]

    appended = f"{topic}-appended"
    create_topic(broker.bootstrap, appended, 1, {"message.timestamp.type": "LogAppendTime"})
    produce(broker.bootstrap, appended, numbered(3, first_ms=FIRST_MS))
    frame = read(spark, broker.bootstrap, {"subscribe": appended})
    found = frame.selectExpr("offset", "timestampType", "unix_millis(timestamp)").collect()
    assert sorted(map(tuple, found)) == [
        (each.offset, 1, each.timestamp_ms) for each in read_topic(broker.bootstrap, appended)
    ]
