"""Settings of `__consumer_offsets`: its creation, writing and loading."""

from __future__ import annotations

from typing import Final

from kavka.server.config.rows import Importance, broker_setting
from kavka.server.config.validators import AtLeast, Between
from kavka.server.config.value_types import Type

REPLICATION_FACTOR: Final = "offsets.topic.replication.factor"


OFFSET_TOPIC_ROWS: Final = (
    broker_setting(
        "offsets.commit.timeout.ms",
        Type.INT,
        5000,
        AtLeast(1),
        Importance.HIGH,
        "How long a write of the group coordinator may take to reach all in-sync replicas; after "
        "that clients get a retriable error.",
    ),
    broker_setting(
        "offsets.load.buffer.size",
        Type.INT,
        5_242_880,
        AtLeast(1),
        Importance.HIGH,
        "Bytes read at a time when the groups of a partition are loaded; a larger batch is read "
        "whole.",
    ),
    broker_setting(
        "offsets.topic.compression.codec",
        Type.INT,
        0,
        Between(0, 4),
        Importance.HIGH,
        "Compression of the records in __consumer_offsets: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 "
        "zstd. A write of more than 64 KiB is compressed only if it would otherwise be too large "
        "for a batch.",
    ),
    broker_setting(
        "offsets.topic.num.partitions",
        Type.INT,
        50,
        AtLeast(1),
        Importance.HIGH,
        "Partitions of __consumer_offsets, when it is created.",
    ),
    broker_setting(
        REPLICATION_FACTOR,
        Type.SHORT,
        3,
        AtLeast(1),
        Importance.HIGH,
        "Replicas of __consumer_offsets, when it is created; groups are not served until so many "
        "brokers run. On a broker that keeps the cluster's metadata itself, and so is the only "
        "one, it is 1 unless set.",
    ),
    broker_setting(
        "offsets.topic.segment.bytes",
        Type.INT,
        104_857_600,
        AtLeast(1),
        Importance.HIGH,
        "The segment.bytes of __consumer_offsets, when it is created.",
    ),
)
