"""The pipeline verify as the judge of a copy that was made while the broker was killed."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kafka import KafkaProducer

from kavka.spark_it.comparing import Rules
from kavka.spark_it.pipelines import verify
from support.process import BrokerProcess
from support.spark import Record, Stored, create_topic, end_offsets, numbered, read_topic, whole
from support.spark_comparison import Model, frame, in_any_order, shown
from support.wait import eventually

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

WITHIN_S: Final = 120.0
PARTITIONS: Final = 3
COPIED: Final = ("key", "value", "headers")
"""Of a record, by Spark's sink."""


def copying(
    spark: SparkSession, broker: BrokerProcess, topic: str, copy: str, checkpoint: Path
) -> DataStreamWriter:
    """Spark's own source and sink: at least once, into the partitions of the same numbers."""
    server = ("kafka.bootstrap.servers", broker.bootstrap)
    source = spark.readStream.format("kafka").option(*server).option("includeHeaders", "true")
    source = source.option("subscribe", topic).option("startingOffsets", "earliest")
    records = source.option("maxOffsetsPerTrigger", 400).load().select("partition", *COPIED)
    sink = records.writeStream.format("kafka").option(*server).option("topic", copy)
    return sink.option("includeHeaders", "true").option("checkpointLocation", str(checkpoint))


def send(producer: KafkaProducer, topic: str, record: Record) -> Any:
    return producer.send(
        topic,
        key=record.key,
        value=record.value,
        headers=list(record.headers),
        partition=record.partition,
        timestamp_ms=record.timestamp_ms,
    )


def test_a_copy_by_spark_while_the_broker_is_killed(
    spark: SparkSession, broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    """An idempotent producer writes to a topic, Spark copies it to another one, and the broker dies
    meanwhile. What was acknowledged is there once, in order; of the copy, which is made at least
    once, verify says what the model says."""
    copy, third = f"{topic}-copy", 20_000 if whole() else 500
    for name in (topic, copy):
        create_topic(broker.bootstrap, name, PARTITIONS)
    records = numbered(3 * third, partitions=PARTITIONS, first_ms=1)
    writer = copying(spark, broker, topic, copy, tmp_path)
    query = writer.start()
    try:
        settings = {"bootstrap_servers": broker.bootstrap, "acks": "all"}
        with closing(KafkaProducer(**settings, enable_idempotence=True)) as producer:
            sent = [send(producer, topic, record) for record in records[:third]]
            eventually(
                lambda: sum(end_offsets(broker.bootstrap, copy, PARTITIONS).values()),
                within_s=WITHIN_S,
                what="the copy has begun",
            )
            sent += [send(producer, topic, record) for record in records[third : 2 * third]]
            broker.kill()
            broker.start()
            sent += [send(producer, topic, record) for record in records[2 * third :]]
            offsets = [future.get(WITHIN_S).offset for future in sent]
    finally:
        query.stop()
    rest = writer.trigger(availableNow=True).start()  # also when the first one has failed
    assert rest.awaitTermination(int(WITHIN_S))

    acknowledged = [
        Stored(topic, r.partition or 0, offset, r.timestamp_ms or 0, r.key, r.value, r.headers)
        for r, offset in zip(records, offsets, strict=True)
    ]
    stored = read_topic(broker.bootstrap, topic)
    judged = verify.compare(frame(spark, acknowledged), frame(spark, stored), Rules())
    assert judged.equal, judged
    assert judged.matched == len(records)

    verify_options = verify.Options(
        bootstrap_server=broker.bootstrap,
        topics=(topic,),
        second_topics=(copy,),
        compare=COPIED,
        examples_max=len(records),
    )
    found = verify.run(verify_options, spark=spark, report=print).details
    model = Model(parts=COPIED, by_topic=False)
    expected = model.compare(stored, read_topic(broker.bootstrap, copy))
    assert in_any_order(found["examples"]) == shown(expected)
    assert found["matched"] == model.matched == len(records)
