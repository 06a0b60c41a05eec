"""Spark's Kafka source when records are gone that it has still to read: deleted, or with their
topic. With `failOnDataLoss` the query fails, and without it reads what is left."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from support.process import BrokerProcess
from support.spark import (
    Stored,
    create_topic,
    delete_records,
    delete_topic,
    numbered,
    place,
    produce,
    rows,
    set_config,
    start_offsets,
)
from support.spark_queries import Options, Query, failed, finished, offsets, read, stream
from support.wait import eventually

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RETENTION_WITHIN_S: Final = 60.0
LONG_AGO_MS: Final = 1_000_000_000_000
LOSS: Final = "Some data may have been lost"
"""Spark's words for it, in every such failure."""


class Interrupted:
    """A topic whose first records a query has read; then it stopped."""

    def __init__(
        self,
        spark: SparkSession,
        broker: BrokerProcess,
        topic: str,
        checkpoint: Path,
        first_ms: int | None = None,
    ) -> None:
        self._spark = spark
        self._bootstrap = broker.bootstrap
        self._topic = topic
        self._checkpoint = checkpoint
        self.read = produce(self._bootstrap, topic, numbered(20, partitions=2, first_ms=first_ms))
        assert finished(self.stream({}), checkpoint).records == sorted(self.read, key=place)

    def stream(self, options: Options) -> DataFrame:
        """The query's, to go on with."""
        every = {"subscribe": self._topic, "startingOffsets": "earliest"}
        return stream(self._spark, self._bootstrap, {**every, **options})

    def fails(self) -> None:
        """See that the query fails when it goes on, as it does by default."""
        assert LOSS in failed(self.stream({}), self._checkpoint)
        assert LOSS in failed(self.stream({"failOnDataLoss": "true"}), self._checkpoint)

    def gives(self, expected: list[Stored]) -> None:
        """See what the query gives when it goes on in spite of the loss."""
        gone_on = finished(self.stream({"failOnDataLoss": "false"}), self._checkpoint)
        assert gone_on.records == sorted(expected, key=place)


def test_records_deleted_while_the_query_is_down(
    spark: SparkSession, broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    create_topic(broker.bootstrap, topic, 2)
    query = Interrupted(spark, broker, topic, tmp_path)
    more = produce(broker.bootstrap, topic, numbered(20, partitions=2, start=20))
    delete_records(broker.bootstrap, topic, {0: 16, 1: 20})
    query.fails()
    query.gives([each for each in more if each.partition == 0 and each.offset >= 16])
    rest = produce(broker.bootstrap, topic, numbered(6, partitions=2, start=40))
    query.gives(rest)

    bound = {
        "subscribe": topic,
        "startingOffsets": offsets(topic, {0: 3, 1: 3}),
        "endingOffsets": offsets(topic, {0: 18, 1: 23}),
    }
    left = read(spark, broker.bootstrap, {**bound, "failOnDataLoss": "false"})
    assert rows(left) == [
        each
        for each in sorted(more + rest, key=place)
        if 16 <= each.offset < (18, 23)[each.partition] and each.offset >= (16, 20)[each.partition]
    ]
    with pytest.raises(Exception, match=LOSS):
        rows(read(spark, broker.bootstrap, {**bound, "failOnDataLoss": "true"}))


def test_records_deleted_behind_the_back_of_a_batch(
    spark: SparkSession, broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    """They go when a batch has its offsets, and has not been read yet."""
    create_topic(broker.bootstrap, topic, 2)
    stored = produce(broker.bootstrap, topic, numbered(40, partitions=2))
    before = {0: 7, 1: 20}
    left = [each for each in stored if each.offset >= before[each.partition]]
    found: list[list[Stored]] = []

    def delete_and_read(frame: DataFrame, _: int) -> None:
        delete_records(broker.bootstrap, topic, before)
        found.append(rows(frame))

    every = {"subscribe": topic, "startingOffsets": "earliest", "failOnDataLoss": "false"}
    writer = stream(spark, broker.bootstrap, every).writeStream.trigger(availableNow=True)
    query = Query()
    query.start(writer.foreachBatch(delete_and_read), tmp_path / "lenient")
    query.wait_for_end()
    assert found == [sorted(left, key=place)]

    stored = produce(broker.bootstrap, topic, numbered(40, partitions=2, start=40))
    before = {0: 30, 1: 30}
    strict = {**every, "failOnDataLoss": "true"}
    writer = stream(spark, broker.bootstrap, strict).writeStream.trigger(availableNow=True)
    query = Query()
    query.start(writer.foreachBatch(delete_and_read), tmp_path / "strict")
    assert LOSS in query.wait_for_failure()
    assert len(found) == 1


def test_records_gone_by_retention(
    spark: SparkSession, broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    """The first records are of long ago. Retention takes them, and leaves those of now, which are
    in a segment of their own: the two are more than `segment.ms` apart."""
    create_topic(broker.bootstrap, topic, 2, {"retention.ms": "-1"})
    query = Interrupted(spark, broker, topic, tmp_path, first_ms=LONG_AGO_MS)
    produce(
        broker.bootstrap, topic, numbered(30, partitions=2, start=20, first_ms=LONG_AGO_MS + 20_000)
    )
    left = produce(broker.bootstrap, topic, numbered(8, partitions=2, start=50))
    set_config(broker.bootstrap, topic, "retention.ms", "3600000")
    eventually(
        lambda: start_offsets(broker.bootstrap, topic, 2) == {0: 25, 1: 25},
        within_s=RETENTION_WITHIN_S,
        what="retention has taken the records of long ago",
    )
    query.fails()
    query.gives(left)


@pytest.mark.oracle
def test_a_topic_deleted_and_created_again(
    spark: SparkSession, broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    """Spark knows topics by their names: in a longer one it goes on at the old offset, in a
    shorter one there is nothing for it until that grows (a batch begins at its end)."""
    bootstrap = broker.bootstrap
    create_topic(bootstrap, topic, 2)
    query = Interrupted(spark, broker, topic, tmp_path)
    delete_topic(bootstrap, topic)
    assert "UnknownTopicOrPartition" in failed(query.stream({}), tmp_path)
    create_topic(bootstrap, topic, 2)
    longer = [each for each in numbered(16) if each.partition == 0]
    recreated = produce(bootstrap, topic, longer)
    recreated += produce(
        bootstrap, topic, [each._replace(partition=1) for each in numbered(3, start=16)]
    )
    query.fails()
    query.gives([each for each in recreated if each.partition == 0 and each.offset >= 10])
    more = produce(bootstrap, topic, numbered(8, partitions=2, start=19))
    query.gives(more)
