"""Spark's Kafka source on topics that transactions write to: records of aborted ones, markers and
what is not finished leave gaps in the offsets, at any place of a read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kafka import KafkaProducer

from support.process import BrokerProcess
from support.spark import Record, Stored, create_topic, end_offsets, numbered, produce, rows, send
from support.spark_queries import finished, offsets, read, stream
from support.wait import eventually

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COMMITTED: Final = {"kafka.isolation.level": "read_committed"}
UNCOMMITTED: Final = {"kafka.isolation.level": "read_uncommitted"}

LAYOUT: Final = (
    ("abort", 5),  # 0 to 4, its marker 5: a gap at the start
    ("commit", 4),  # 6 to 9, its marker 10: a gap of one
    ("plain", 3),  # 11 to 13
    ("abort", 9),  # 14 to 22, its marker 23: a gap in the middle, in which whole batches lie
    ("commit", 1),  # 24, its marker 25
    ("commit", 2),  # 26 and 27, its marker 28
    ("abort", 6),  # 29 to 34, its marker 35: a gap at the end
)
END: Final = 36
MARKED_WITHIN_S: Final = 60.0


class Written:
    """What has been written to a topic with one partition."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._bootstrap = bootstrap
        self._topic = create_topic(bootstrap, topic)
        self._producer = KafkaProducer(
            bootstrap_servers=bootstrap, acks="all", transactional_id=topic
        )
        self._producer.init_transactions()
        self.all: list[Stored] = []
        self.committed: list[Stored] = []

    def add(self, how: str, count: int) -> None:
        """Add records in a transaction that is committed or aborted, or without one."""
        if how == "plain":
            self.plain(count)
            return
        open_ones = self.begin(count)
        if how == "commit":
            self._producer.commit_transaction()
            self.committed += open_ones
        else:
            self._producer.abort_transaction()
        self._await_marker()

    def plain(self, count: int) -> None:
        """Add records without a transaction."""
        made = produce(self._bootstrap, self._topic, self._next(count))
        self.all += made
        self.committed += made

    def begin(self, count: int) -> list[Stored]:
        """Add records in a transaction that stays open."""
        self._producer.begin_transaction()
        made = send(self._producer, self._topic, self._next(count))
        self.all += made
        return made

    def commit(self, those: list[Stored]) -> None:
        """End the transaction that is open, with `those` records in it."""
        self._producer.commit_transaction()
        self._await_marker()
        self.committed = sorted([*self.committed, *those], key=lambda record: record.offset)

    def _await_marker(self) -> None:
        """Wait until the marker is behind all records: the producer is answered before that."""
        end = {0: self.all[-1].offset + 2}
        eventually(
            lambda: end_offsets(self._bootstrap, self._topic, 1) == end,
            within_s=MARKED_WITHIN_S,
            what=f"{self._topic} has a marker at {self.all[-1].offset + 1}",
        )

    def close(self) -> None:
        """End the producer."""
        self._producer.close()

    def _next(self, count: int) -> list[Record]:
        return numbered(count, start=len(self.all))


@contextmanager
def written(broker: BrokerProcess, topic: str) -> Iterator[Written]:
    """A topic of the layout above."""
    made = Written(broker.bootstrap, topic)
    try:
        for how, count in LAYOUT:
            made.add(how, count)
        assert end_offsets(broker.bootstrap, topic, 1) == {0: END}
        yield made
    finally:
        made.close()


def test_reads_with_gaps_at_any_place(
    spark: SparkSession, broker: BrokerProcess, topic: str
) -> None:
    with written(broker, topic) as made:
        assert len(made.committed) == 10 and len(made.all) == 30
        for first, last, more in (
            (0, END, COMMITTED),
            (0, END, UNCOMMITTED),
            (0, END, {**COMMITTED, "minPartitions": "12"}),  # some of these have nothing
            (0, 5, COMMITTED),  # nothing but aborted records
            (2, 7, COMMITTED),  # begins in the gap at the start
            (9, 11, COMMITTED),  # ends with a marker
            (10, 11, COMMITTED),  # a marker alone
            (10, 11, UNCOMMITTED),
            (13, 20, COMMITTED),  # ends in the gap in the middle
            (20, 25, COMMITTED),  # begins there
            (15, 19, COMMITTED),  # is within
            (27, END, COMMITTED),  # ends with the gap at the end
        ):
            options = {
                "subscribe": topic,
                "startingOffsets": offsets(topic, {0: first}),
                "endingOffsets": offsets(topic, {0: last}),
                **more,
            }
            records = made.all if more is UNCOMMITTED else made.committed
            expected = [record for record in records if first <= record.offset < last]
            assert rows(read(spark, broker.bootstrap, options)) == expected, options


def test_a_stream_over_gaps(
    spark: SparkSession, broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    """Four offsets a batch: some batches have nothing. What is open is not read, nor is anything
    behind it, until it is committed."""
    with written(broker, topic) as made:
        options = {
            "subscribe": topic,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": "4",
            **COMMITTED,
        }
        query = finished(stream(spark, broker.bootstrap, options), tmp_path)
        assert list(query.batches.values()) == [
            [record for record in made.committed if first <= record.offset < first + 4]
            for first in range(0, END, 4)
        ]
        assert query.batch_sizes.count(0) >= 3

        before = len(made.committed)
        open_ones = made.begin(5)
        made.plain(2)
        assert finished(stream(spark, broker.bootstrap, options), tmp_path).records == []
        assert len(rows(read(spark, broker.bootstrap, {"subscribe": topic}))) == len(made.all)
        made.commit(open_ones)
        made.plain(1)
        rest = finished(stream(spark, broker.bootstrap, options), tmp_path)
        assert rest.records == made.committed[before:]
        assert len(rest.records) == 8
