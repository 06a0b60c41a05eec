"""Settings of a cluster on a standalone broker: what can't be is refused as by Apache Kafka.

Too many replicas of a coordinator's topic are not to be had. More replicas in sync than there are
replicas are not waited for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from support.clients.kafka_python import create_topic
from support.ports import HOST
from support.process import BrokerProcess
from support.raw import RawConnection, batch
from support.sides import sides_with
from support.transactional import TransactionalProducer, play

SETTINGS: Final = {
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "2",
    "min.insync.replicas": "2",
}
ASKED: Final = 100
COORDINATOR_NOT_AVAILABLE: Final = 15
TIME_MS: Final = 1_700_000_000_000


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[BrokerProcess, ...]]:
    with sides_with(
        tmp_path_factory.mktemp("standalone-broker"), SETTINGS, lambda side: side
    ) as found:
        yield found


def test_groups_have_no_coordinator(sides: tuple[BrokerProcess, ...]) -> None:
    """Clients ask again and again; that is nothing to fill the log with."""
    for broker in sides:
        with RawConnection(HOST, broker.port) as connection:
            for _ in range(ASKED):
                answer = connection.request(
                    "FindCoordinator", 4, key_type=0, coordinator_keys=["g"]
                )
                (found,) = answer["coordinators"]
                assert found["error_code"] == COORDINATOR_NOT_AVAILABLE, broker.kind
                assert found["node_id"] == -1
    kavka = sides[0].output()
    assert kavka.count("set offsets.topic.replication.factor=1") == 2, "at the start, and once more"
    assert kavka.count(" ERROR ") == 1


def test_min_insync_replicas_above_the_replica_count_does_not_block(
    sides: tuple[BrokerProcess, ...],
) -> None:
    for broker in sides:
        create_topic(broker.bootstrap, "t", 1)
        with RawConnection(HOST, broker.port) as connection:
            connection.await_leader("t")
            producer = connection.init_producer_id()
            outcome = connection.produce("t", 0, batch(producer, 0, [b"v"], TIME_MS))
            assert outcome.error_code == 0, broker.kind
            transactional = TransactionalProducer("tx", 1, "t")
            play(connection, transactional.find())
            play(connection, transactional.init())
            play(connection, transactional.add([0]))
            play(connection, transactional.write(0, [b"w"]))
            play(connection, transactional.end(commit=True))
    start = sides[0].output()
    for setting in ("transaction.state.log.min.isr", "min.insync.replicas"):
        assert f"no effect: {setting}=2" in start
