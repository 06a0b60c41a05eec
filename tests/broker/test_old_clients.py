"""Clients of before 0.11 write and read in message sets; what lies in the log are batches."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from dataclasses import replace

import pytest

from support import java
from support.broker import StartBroker
from support.clients import compare, corpus
from support.clients.client import Found
from support.clients.corpus import Record
from support.clients.every import CONFLUENT, KAFKA_PYTHON
from support.clients.kafka_python import offsets
from support.clients.of_old import PYTHON_0_8_1, PYTHONS, READERS, WRITERS, OldClient
from support.dump_log import assert_sound
from support.process import BrokerProcess
from support.segments import codecs

COUNT = 1000
OLD_CODECS = ("none", "gzip", "snappy", "lz4")
NO_TIMESTAMP = -1
LITTLE_BYTES = 2000
"""Less than most batches have."""


def records() -> list[Record]:
    shapes = corpus.Shapes(null_pair=False, null_headers=False)
    return corpus.make(shapes, time.time_ns() // 1_000_000, COUNT)


def as_old(written: Sequence[Record], *, stamped: bool) -> list[Record]:
    """What is left of records where there are no headers, and perhaps no timestamps."""
    old = [replace(record, headers=()) for record in written]
    return old if stamped else [replace(record, timestamp_ms=NO_TIMESTAMP) for record in old]


@pytest.mark.parametrize("codec", OLD_CODECS)
@pytest.mark.parametrize("client", WRITERS, ids=lambda client: client.name)
def test_what_an_old_producer_writes_a_new_consumer_reads(
    broker: BrokerProcess, topic: str, client: OldClient, codec: str
) -> None:
    KAFKA_PYTHON.create_topic(broker.bootstrap, topic, corpus.PARTITIONS)
    written = as_old(records(), stamped=client.stamps)
    acks = client.write(broker.bootstrap, topic, written, codec)
    _, ends = offsets(broker.bootstrap, topic, corpus.PARTITIONS)
    assert sum(ends.values()) == len(written)
    found = KAFKA_PYTHON.read(broker.bootstrap, topic, ends)
    compare.assert_placed(written, acks, found)
    compare.assert_same(found, CONFLUENT.read(broker.bootstrap, topic, ends))
    assert codecs(broker.data_dir, topic) == {codec}


@pytest.mark.parametrize("codec", OLD_CODECS)
@pytest.mark.parametrize("client", READERS, ids=lambda client: client.name)
def test_what_a_new_producer_writes_an_old_consumer_reads(
    broker: BrokerProcess, topic: str, client: OldClient, codec: str
) -> None:
    CONFLUENT.create_topic(broker.bootstrap, topic, corpus.PARTITIONS)
    written = records()
    CONFLUENT.write(broker.bootstrap, topic, written, codec)
    KAFKA_PYTHON.write(broker.bootstrap, topic, written, codec)
    _, ends = offsets(broker.bootstrap, topic, corpus.PARTITIONS)
    expected = {
        partition: [Found(offset, record) for offset, record in enumerate([*of_one, *of_one])]
        for partition, of_one in corpus.by_partition(as_read(written, client)).items()
    }
    compare.assert_same(expected, client.read(broker.bootstrap, topic, ends))
    compare.assert_same(expected, client.read(broker.bootstrap, topic, ends, LITTLE_BYTES))


def as_read(written: Sequence[Record], client: OldClient) -> list[Record]:
    """As an old consumer hands them out: without a timestamp where it knows none."""
    old = as_old(written, stamped=True)
    return old if client.stamps else [replace(record, timestamp_ms=None) for record in old]


def test_a_log_of_old_producers_is_sound(start_broker: StartBroker, topic: str) -> None:
    broker = start_broker()
    KAFKA_PYTHON.create_topic(broker.bootstrap, topic, corpus.PARTITIONS)
    written = as_old(records(), stamped=True)
    for client, codec in zip(WRITERS, itertools.cycle(OLD_CODECS), strict=False):
        client.write(broker.bootstrap, topic, written[:100], codec)
    broker.stop()
    if java.available():
        assert assert_sound(broker.data_dir).records == len(WRITERS) * 100


@pytest.mark.parametrize("client", [PYTHON_0_8_1, *PYTHONS], ids=lambda client: client.name)
def test_an_old_consumer_finds_its_committed_offsets(
    broker: BrokerProcess, topic: str, client: OldClient
) -> None:
    KAFKA_PYTHON.create_topic(broker.bootstrap, topic, 1)
    for before, offset in (("None", 2**40), (str(2**40), 7)):
        assert client.commit(broker.bootstrap, topic, offset, "note") == [before, str(offset)]
