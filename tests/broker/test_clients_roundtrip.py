"""What stock clients write, in every codec, is read back identical after SIGKILL and restart."""

from __future__ import annotations

import time

import pytest

from support import java
from support.broker import StartBroker
from support.clients import compare, corpus
from support.clients.client import Client
from support.clients.every import CLIENTS, CONFLUENT, READ_BY
from support.clients.kafka_python import offsets
from support.dump_log import assert_sound
from support.ports import HOST
from support.process import BrokerProcess
from support.raw import RawConnection
from support.segments import codecs

FIND_COORDINATOR = 10


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
    assert (
        expected_codec(broker, client, codec) in codecs(broker.data_dir, topic) <= {codec, "none"}
    )
    compare.assert_same(found, READ_BY[client.name].read(broker.bootstrap, topic, ends))
    broker.stop()
    if java.available():
        assert assert_sound(broker.data_dir).records == len(records)


def expected_codec(broker: BrokerProcess, client: Client, codec: str) -> str:
    """What the client makes of `codec`; some batches may stay as they are if they don't shrink.

    librdkafka takes a broker that doesn't list FindCoordinator for one of before 0.10, to which
    it writes no lz4.
    """
    if client is CONFLUENT and codec == "lz4":
        with RawConnection(HOST, broker.port) as connection:
            return codec if FIND_COORDINATOR in connection.api_keys() else "none"
    return codec


def now_ms() -> int:
    """Wall-clock time as record timestamps count it."""
    return time.time_ns() // 1_000_000
