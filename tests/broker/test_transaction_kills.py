"""SIGKILL at each step that a broker makes on its disk in a transaction: it ends as it must.

The client goes on where it was, as stock clients do. That the same holds for clients that do not,
and after power cuts, is tested in memory (tests/unit/server/test_transaction_crashes.py).
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition

from support.broker import finish
from support.clients.kafka_python import create_topic
from support.doomed_broker import DoomedKavka
from support.ports import HOST
from support.raw import RawConnection
from support.transactional import TransactionalProducer, play
from support.wait import eventually

TOPIC = "killed"
PARTITIONS = 2
WITHIN_S = 60.0
STEPS_MIN = 10
"""A transaction is made of more."""
SETTINGS = {"transaction.state.log.num.partitions": "2", "offsets.topic.num.partitions": "2"}


class Connection:
    """One that is made again when the broker has died, which is started again then."""

    def __init__(self, broker: DoomedKavka) -> None:
        self._broker = broker
        self._connection: RawConnection | None = None

    def request(self, api: str, version: int, **values: Any) -> dict[str, Any]:
        """As `RawConnection.request`, asked again where the answer did not come."""
        while True:
            try:
                if self._connection is None:
                    self._connection = RawConnection(HOST, self._broker.port)
                return self._connection.request(api, version, **values)
            except (ConnectionError, AssertionError):
                self.revive()

    def revive(self) -> None:
        """The broker is about to die."""
        self._connection = None
        broker = self._broker
        eventually(broker.has_died, within_s=WITHIN_S, what="the broker dies", detail=broker.tail)
        broker.start()


def values_of(number: int, partition: int) -> list[bytes]:
    """What a transaction writes."""
    return [b"%d/%d/%d" % (number, partition, record) for record in range(2)]


def is_committed(number: int) -> bool:
    """Whether a transaction is."""
    return number % 3 < 2


def transaction(connection: Connection, number: int, protocol: int, *, commit: bool) -> None:
    """One by a producer of its own."""
    now_ms = time.time_ns() // 1_000_000
    producer = TransactionalProducer(f"tx-{number}", protocol, TOPIC, written_ms=now_ms)
    play(connection, producer.find())
    play(connection, producer.init())
    play(connection, producer.add(range(PARTITIONS)))
    for partition in range(PARTITIONS):
        play(connection, producer.write(partition, values_of(number, partition)))
    play(connection, producer.commit_offset("group", number))
    play(connection, producer.end(commit=commit))
    eventually(
        lambda: state_of(connection, producer.transactional_id).startswith("Complete"),
        within_s=WITHIN_S,
        what="the transaction is complete",
    )


def state_of(connection: Connection, transactional_id: str) -> str:
    """As DescribeTransactions returns it."""
    request = {"transactional_ids": [transactional_id]}
    answer = connection.request("DescribeTransactions", 0, **request)
    state: str = answer["transaction_states"][0]["transaction_state"]
    return state


def read_committed(bootstrap: str, partition: int) -> list[bytes]:
    """All that such a reader gets."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    consumer.assign([TopicPartition(TOPIC, partition, 0)])
    found: list[bytes] = []
    while (message := consumer.poll(WITHIN_S)) is not None:
        error = message.error()
        if error is None:
            found.append(message.value())
        elif error.code() == KafkaError._PARTITION_EOF:
            consumer.close()
            return found
    raise AssertionError(f"{partition}: not read to its end after {len(found)}")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("protocol", [1, 2])
def test_a_sigkill_at_any_step_is_survived(tmp_path: Path, protocol: int) -> None:
    broker = DoomedKavka(tmp_path / "broker", SETTINGS)
    try:
        broker.start()
        create_topic(broker.bootstrap, TOPIC, PARTITIONS)
        connection = Connection(broker)
        number, starts = 0, 0
        while starts < broker.starts:  # until there are not so many steps any more
            starts = broker.starts
            broker.doom(number)
            transaction(connection, number, protocol, commit=is_committed(number))
            number += 1
        assert number > STEPS_MIN
        if not broker.has_died():  # of a step of its own, behind the last transaction
            broker.kill()
        broker.start()
        for partition in range(PARTITIONS):
            assert read_committed(broker.bootstrap, partition) == [
                value
                for earlier in filter(is_committed, range(number))
                for value in values_of(earlier, partition)
            ]
    finally:
        finish(broker)
