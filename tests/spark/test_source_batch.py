"""Spark's Kafka source in batch: which records a read gives, by its options."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.process import BrokerProcess
from support.spark import create_topic, numbered, place, produce, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.oracle
def test_a_topic_is_read_whole(spark: SparkSession, broker: BrokerProcess, topic: str) -> None:
    create_topic(broker.bootstrap, topic, 3)
    stored = produce(broker.bootstrap, topic, numbered(30, partitions=3))
    source = spark.read.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap)
    frame = source.option("subscribe", topic).option("includeHeaders", "true").load()
    assert rows(frame) == sorted(stored, key=place)
