"""What stock clients write, in every codec, is read back identical after SIGKILL and restart."""

from __future__ import annotations

import time

import pytest

from support.broker import StartBroker
from support.clients import compare, corpus
from support.clients.client import Client
from support.clients.every import CLIENTS, READ_BY
from support.clients.kafka_python import offsets
from support.segments import codecs


@pytest.mark.parametrize("codec", corpus.CODECS)
@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_survives_sigkill(
    start_broker: StartBroker, topic: str, client: Client, codec: str
) -> None:
    broker = start_broker()
    client.create_topic(broker.bootstrap, topic, corpus.PARTITIONS)
    from_ms = now_ms()
    records = corpus.make(client.shapes, base_ms=from_ms)
    acks = client.write(broker.bootstrap, topic, records, codec)
    broker.kill()
    to_ms = now_ms()

    broker.start()
    first, ends = offsets(broker.bootstrap, topic, corpus.PARTITIONS)
    assert set(first.values()) == {0}
    assert sum(ends.values()) == len(records)

    found = client.read(broker.bootstrap, topic, ends)
    if client.shapes.placed:
        compare.assert_placed(records, acks, found)
    else:
        compare.assert_unplaced(records, found, from_ms, to_ms)
    used = codecs(broker.data_dir, topic)
    assert codec in used and used <= {codec, "none"}  # librdkafka leaves what does not shrink
    compare.assert_same(found, READ_BY[client.name].read(broker.bootstrap, topic, ends))


def now_ms() -> int:
    """Wall-clock time as record timestamps count it."""
    return time.time_ns() // 1_000_000
