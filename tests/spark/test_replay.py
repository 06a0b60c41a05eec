"""The pipeline replay: a table's records into a topic, each once, in order, when they are due."""

from __future__ import annotations

import os
import re
import signal
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from kafka import KafkaAdminClient

from kavka.spark_it import SparkError, replaying
from kavka.spark_it.clients import client_settings
from kavka.spark_it.pipelines import replay, verify
from kavka.spark_it.records import of_table
from kavka.spark_it.replaying import Plan, Replay
from support.process import BrokerProcess
from support.spark import (
    Record,
    Stored,
    by_partition,
    create_topic,
    end_offsets,
    numbered,
    produce,
    read_topic,
)
from support.spark_comparison import write_table
from support.wait import eventually

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kavka.spark_it.progress import Summary

FIRST_MS = 1_700_000_000_000
WITHIN_S = 120.0


def stored(records: Sequence[Record], topic: str = "source", *, gap: int = 1) -> list[Stored]:
    """Records as a table has them, each offset `gap` behind the one before."""
    ends: dict[int, int] = {}
    placed = []
    for record in records:
        partition = record.partition or 0
        ends[partition] = offset = ends.get(partition, 0) + gap
        time_ms = record.timestamp_ms or 0
        place = (topic, partition, offset, time_ms)
        placed.append(Stored(*place, record.key, record.value, record.headers))
    return placed


def contents(records: Sequence[Stored]) -> dict[int, list[Stored]]:
    """By partition, in order, without the places."""
    return {
        partition: [record._replace(topic="", offset=0) for record in of_partition]
        for partition, of_partition in by_partition(records).items()
    }


def options(broker: BrokerProcess, table: str, topic: str, **more: Any) -> replay.Options:
    return replay.Options(
        bootstrap_server=broker.bootstrap, table=table, topic=topic, table_format="parquet", **more
    )


def silent(_: str) -> None:
    pass


class Interrupting:
    """Takes lines of progress; at the first one that has a record written it presses Ctrl-C."""

    def __init__(self) -> None:
        self._pressed = False

    def __call__(self, line: str) -> None:
        if re.search(r" [1-9]\d* of [\d,]+ records written", line) and not self._pressed:
            self._pressed = True
            os.kill(os.getpid(), signal.SIGINT)


def test_records_are_as_they_were_and_each_is_written_once(
    spark: SparkSession, broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    """With another offset than before, and for the rest all the same; a second run, and one over a
    table that has grown, write what is missing."""
    records = numbered(60, partitions=3, first_ms=FIRST_MS)
    records += [
        Record(None, key=b"k", partition=1, timestamp_ms=FIRST_MS + 5),  # older than the one before
        Record(None, key=None, partition=2, timestamp_ms=0),
        Record(b"", key=b"", partition=2, timestamp_ms=1),
    ]
    source = stored(records, gap=3)
    table = write_table(spark, source, str(tmp_path / "table"), "parquet")
    create_topic(broker.bootstrap, topic, 3, {"retention.ms": "-1"})
    lines: list[str] = []
    replay_options = options(broker, table, topic, transaction_records=7)

    first = replay.run(replay_options, spark=spark, report=lines.append)
    assert first.rows == len(source)
    assert contents(read_topic(broker.bootstrap, topic)) == contents(source)
    assert not any("retention" in line for line in lines), lines

    more = stored(numbered(90, partitions=3, first_ms=FIRST_MS), gap=3)[60:]
    later = [record._replace(offset=record.offset + 100) for record in more]
    grown = write_table(spark, [*source, *later], str(tmp_path / "grown"), "parquet")
    again = replay.run(replace(replay_options, table=grown, writers=1), spark=spark, report=silent)
    assert (again.rows, again.details["written_before"]) == (len(later), len(source))
    nothing = replay.run(replace(replay_options, table=grown), spark=spark, report=silent)
    assert nothing.rows == 0
    assert contents(read_topic(broker.bootstrap, topic)) == contents([*source, *later])

    count, last = 60 // 3 + 30 // 3, by_partition(later)[0][-1].offset
    said = rf"record {count} of partition 0 was source-0-{last}, and is not there.*restart"
    with pytest.raises(SparkError, match=said):
        changed = f"kafka.offset != {later[0].offset}"
        replay.run(replace(replay_options, table=grown, where=changed), spark=spark, report=silent)
    restarted = replace(replay_options, table=grown, where="kafka.partition = 2", restart=True)
    assert replay.run(restarted, spark=spark, report=silent).rows == 32


def test_interrupted_it_goes_on_where_it_was(
    spark: SparkSession, broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    """Ctrl-C ends the tasks in the middle of a transaction, then the broker is killed while they
    write: what is committed at the end is the table, as verify sees it too."""
    source = stored(numbered(900, partitions=4, first_ms=FIRST_MS))
    table = write_table(spark, source, str(tmp_path / "table"), "parquet")
    create_topic(broker.bootstrap, topic, 4)
    replay_options = options(broker, table, topic, rate=30.0, transaction_seconds=0.5)
    with pytest.raises(SparkError, match="stopped; the same command goes on where it was"):
        replay.run(replay_options, spark=spark, report=Interrupting())
    before = len(read_topic(broker.bootstrap, topic))
    assert 0 < before < len(source)

    again = replace(replay_options, rate=100.0, writers=1)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(replay.run, again, spark=spark, report=silent)
        written(broker, topic, before + 100, running)
        broker.kill()
        broker.start()
        summary = running.result(WITHIN_S)
    assert summary.details["written_before"] > 0
    assert summary.details["written"] + summary.details["written_before"] == len(source)
    assert contents(read_topic(broker.bootstrap, topic)) == contents(source)

    judged = verify.run(
        verify.Options(
            bootstrap_server=broker.bootstrap,
            table=table,
            table_format="parquet",
            second_topics=(topic,),
        ),
        spark=spark,
        report=silent,
    )
    assert judged.details["equal"], judged.details
    assert judged.details["matched"] == len(source)


def test_finished_partitions_are_not_forgotten_while_others_are_written(
    spark: SparkSession,
    broker: BrokerProcess,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Their offsets are committed again, without the tasks, which may be at their end; those of
    partitions that are being written are not, as they may have changed meanwhile."""
    source = stored(
        [
            Record(b"%d" % ms, partition=partition, timestamp_ms=ms)
            for partition, ms in ((0, 1), (0, 2), *((1, ms) for ms in range(0, 15_000, 1250)))
        ]
    )
    table = write_table(spark, source, str(tmp_path / "table"), "parquet")
    create_topic(broker.bootstrap, topic, 2)
    committed: list[dict[int, int]] = []
    commit = KafkaAdminClient.alter_group_offsets

    def noted(admin: KafkaAdminClient, group: str, offsets: Any) -> object:
        committed.append(
            {
                place.partition: committed_offset.offset
                for place, committed_offset in offsets.items()
            }
        )
        return commit(admin, group, offsets)

    monkeypatch.setattr(KafkaAdminClient, "alter_group_offsets", noted)
    monkeypatch.setattr(replaying, "REPORT_EVERY_S", 0.1)
    monkeypatch.setattr(replaying, "KEEP_EVERY_S", 0.0)
    replay_options = options(broker, table, topic, speed=1.0, transaction_seconds=0.5)
    assert replay.run(replay_options, spark=spark, report=silent).rows == len(source)
    announced, *kept = committed
    assert announced == {0: 0, 1: 0}
    assert {0: 2} in kept
    assert all(offsets in ({0: 2}, {0: 2, 1: 12}) for offsets in kept), kept
    assert contents(read_topic(broker.bootstrap, topic)) == contents(source)
    assert replay.run(replay_options, spark=spark, report=silent).rows == 0


def written(broker: BrokerProcess, topic: str, count: int, running: Future[Summary]) -> None:
    """Wait until a topic of four partitions has so many records, committed or not."""

    def enough() -> bool:
        assert not running.done(), running.result()
        return sum(end_offsets(broker.bootstrap, topic, 4).values()) >= count

    eventually(enough, within_s=WITHIN_S, what=f"{count} records are written")


def test_partitions_of_keys_are_those_of_the_stock_producer(
    spark: SparkSession, broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    """Of two topics merged into one: by time, and never against the order of a partition."""
    keyed = [Record(b"%d" % n, key=b"key %d" % (n % 40), timestamp_ms=n) for n in range(80)]
    judge = create_topic(broker.bootstrap, f"{topic}-judge", 5)
    right = {record.key: record.partition for record in produce(broker.bootstrap, judge, keyed)}

    placed = [record._replace(partition=index % 2) for index, record in enumerate(keyed)]
    late = [*placed[:10], placed[10]._replace(timestamp_ms=60), *placed[11:]]
    keyless = [Record(b"none", partition=8, timestamp_ms=7)]
    other = stored([Record(b"other", key=b"key 0", partition=0, timestamp_ms=45)], "another")
    source = [*stored([*late, *keyless]), *other]
    table = write_table(spark, source, str(tmp_path / "table"), "parquet")
    create_topic(broker.bootstrap, topic, 5)
    replay.run(options(broker, table, topic, partitions="key"), spark=spark, report=silent)

    found = read_topic(broker.bootstrap, topic)
    assert {record.key: record.partition for record in found} == {**right, None: 8 % 5}
    values = {
        key: [record.value for record in found if record.key == key]
        for key in (b"key 0", b"key 10", None)
    }
    assert values == {
        b"key 0": [b"0", b"other", b"40"],  # 40 lies behind 10 in its partition, which is of 60
        b"key 10": [b"10", b"50"],
        None: [b"none"],
    }


def test_records_are_due_at_the_pace_of_their_timestamps_or_at_a_rate(
    spark: SparkSession, broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    """And each task has the same number of partitions."""
    times = {0: (1000, 3000, 2000, 9000), 1: (2000, 5000), 2: (6000,), 3: (1000,)}
    records = [
        Record(b"%d" % ms, partition=partition, timestamp_ms=ms)
        for partition, those in times.items()
        for ms in those
    ]
    table = write_table(spark, stored(records), str(tmp_path / "table"), "parquet")
    create_topic(broker.bootstrap, topic, 4)

    def made(**more: Any) -> tuple[Replay, Plan]:
        replay_options = options(broker, table, topic, **more)
        settings = client_settings(broker.bootstrap, {})
        made_replay = Replay(spark, replay_options, settings, silent, None)
        return made_replay, made_replay.plan(of_table(spark.read.parquet(table), {}))

    def due(plan: Plan) -> dict[int, list[float]]:
        found: dict[int, list[float]] = {}
        for row in sorted(plan.rows.collect(), key=lambda row: int(row.n)):
            found.setdefault(row.target, []).append(row.due)
        return found

    _, halved = made(speed=2.0)
    assert due(halved) == {0: [0.0, 1.0, 1.0, 4.0], 1: [0.5, 2.0], 2: [2.5], 3: [0.0]}
    assert halved.seconds == 4.0
    _, even = made(rate=4.0)
    assert due(even) == {0: [0.5, 1.0, 1.5, 2.0], 1: [1.0, 2.0], 2: [2.0], 3: [2.0]}
    whole, three = made(writers=3)
    assert {moment for those in due(three).values() for moment in those} == {0.0}
    places = whole.spread(three).selectExpr("target", "spark_partition_id() as place").distinct()
    assert sorted(Counter(row.place for row in places.collect()).values()) == [1, 1, 2]


def test_what_does_not_fit_is_said_before_anything_is_written(
    spark: SparkSession, broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    twice = stored([Record(b"1", partition=2), Record(b"2", partition=2)], gap=0)
    table = write_table(spark, twice, str(tmp_path / "twice"), "parquet")
    null = [Stored("a", 0, 0, 0, b"k", b"v", (("h", None),))]
    headers = write_table(spark, null, str(tmp_path / "null"), "parquet")

    def refused(said: str, path: str = table, **more: Any) -> None:
        with pytest.raises(SparkError, match=said):
            replay.run(options(broker, path, topic, **more), spark=spark, report=silent)

    refused(f"the topic {topic} does not exist")
    create_topic(broker.bootstrap, topic, 2)
    refused(f"records of partition 2, and {topic} has 2 partitions")
    refused("several rows of one topic, partition and offset", partitions="key")
    refused("null_headers=empty", headers)
    for part in ("partition", "offset"):
        refused("rows whose partition or offset is null", columns={part: "null"})
    parsed = str(tmp_path / "parsed")
    spark.read.parquet(table).selectExpr("kafka", "1 as id").write.parquet(parsed)
    refused("no column value: say in columns.value where .*columns.value=null", parsed)
    refused("cannot be read as parquet", str(tmp_path / "nothing"))
    refused("columns: a record has no vallue, did you mean value", columns={"vallue": "x"})
    refused("columns.value: 'nothing'", columns={"value": "nothing"})
    assert read_topic(broker.bootstrap, topic) == []
    replay.run(options(broker, headers, topic, null_headers="empty"), spark=spark, report=silent)
    (written_one,) = read_topic(broker.bootstrap, topic)
    assert written_one.headers == (("h", b""),)
