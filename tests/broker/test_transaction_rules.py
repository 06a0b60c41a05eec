"""What may be appended in a transaction, and what not: Kavka's log does as Apache Kafka.

Kavka's log is asked directly (requests to the whole of it: `tests/differential/sequences`); Apache
Kafka is asked by the requests of a client and, for markers, by those of a coordinator.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import pytest

from kavka.log.fs import OsFs
from kavka.log.partition_log import PartitionLog
from kavka.wire.errors import ApiError, ErrorCode
from support import logs
from support.clients.kafka_python import create_topic
from support.logs import Producer
from support.oracle39 import ApacheKafka39
from support.ports import HOST
from support.process import BrokerProcess
from support.raw import RawConnection
from support.transactional import TransactionalProducer, play

TOPIC = "rules"
ID = "writer"
NONE = 0


class Outcome(NamedTuple):
    """The answer to a step, and where a batch was put."""

    code: int
    offset: int = -1


class Side(Protocol):
    """A broker that takes batches and markers."""

    def data(self, producer: Producer, count: int, *, transactional: bool) -> Outcome: ...

    def marker(self, producer: Producer, coordinator_epoch: int, *, commit: bool) -> int: ...

    def enter(self, producer: Producer) -> None:
        """The coordinator lets the producer write here."""


class Theirs:
    """Apache Kafka."""

    def __init__(self, connection: RawConnection) -> None:
        self._connection = connection

    def data(self, producer: Producer, count: int, *, transactional: bool) -> Outcome:
        records = values(producer, count, transactional=transactional)
        name = ID if transactional else None
        found = self._connection.write(TOPIC, 0, records, transactional_id=name)
        return Outcome(found["error_code"], found["base_offset"])

    def marker(self, producer: Producer, coordinator_epoch: int, *, commit: bool) -> int:
        marker = {
            "producer_id": producer.id,
            "producer_epoch": producer.epoch,
            "transaction_result": commit,
            "topics": [{"name": TOPIC, "partition_indexes": [0]}],
            "coordinator_epoch": coordinator_epoch,
        }
        answer = self._connection.request("WriteTxnMarkers", 1, markers=[marker])
        found: int = answer["markers"][0]["topics"][0]["partitions"][0]["error_code"]
        return found

    def enter(self, producer: Producer) -> None:
        play(self._connection, TransactionalProducer(ID, 1, TOPIC, now=producer).add([0]))

    def new_producer(self) -> Producer:
        """With an epoch that is not the first."""
        client = TransactionalProducer(ID, 1, TOPIC, timeout_ms=600_000)
        for script in (client.find(), client.init(), client.init()):
            play(self._connection, script)
        return client.now


class Ours:
    """Kavka's log."""

    def __init__(self, log: PartitionLog) -> None:
        self.log = log
        self._entered = False

    def data(self, producer: Producer, count: int, *, transactional: bool) -> Outcome:
        batch = values(producer, count, transactional=transactional)
        guard = None
        try:
            if self._entered and transactional:
                _, epoch, sequence = producer
                guard = self.log.producers.verification(producer.id, sequence, epoch, 0, v2=False)
            done = logs.append(self.log, batch, guard=guard)
        except ApiError as refused:
            return Outcome(refused.code)
        return Outcome(NONE, done.base_offset)

    def marker(self, producer: Producer, coordinator_epoch: int, *, commit: bool) -> int:
        try:
            logs.end_transaction(
                self.log, producer, commit=commit, coordinator_epoch=coordinator_epoch
            )
        except ApiError as refused:
            return int(refused.code)
        return NONE

    def enter(self, producer: Producer) -> None:
        self._entered = True


def values(producer: Producer, count: int, *, transactional: bool) -> memoryview:
    return logs.batch([b"value"] * count, producer=producer, transactional=transactional)


def story(side: Side, new: Producer) -> Iterator[tuple[str, Any]]:
    """What is done, one after the other, and what came of it."""
    old = new._replace(epoch=new.epoch - 1)
    newer = new._replace(epoch=new.epoch + 1)

    def write(step: str, producer: Producer, sequence: int, count: int, inside: bool = True) -> Any:
        return step, side.data(producer._replace(sequence=sequence), count, transactional=inside)

    yield write("not in the transaction yet", new, 0, 2)
    side.enter(new)
    yield write("first", new, 0, 2)
    yield write("first again", new, 0, 2)
    yield write("a gap", new, 5, 1)
    yield write("outside", new, 2, 1, inside=False)
    yield write("outside with a gap", new, 5, 1, inside=False)
    yield write("the first one again, outside", new, 0, 2, inside=False)
    yield write("an old epoch", old, 2, 1)
    yield write("an old epoch outside", old, 2, 1, inside=False)
    yield write("next", new, 2, 3)
    yield "an old epoch's marker", side.marker(old, 5, commit=True)
    yield "the end", side.marker(new, 5, commit=True)
    yield "an old coordinator's marker", side.marker(new, 4, commit=False)
    yield "a marker for nothing", side.marker(new, 5, commit=False)
    yield write("the last again", new, 2, 3)
    yield write("another transaction", new, 5, 1)
    yield "aborted", side.marker(new, 6, commit=False)
    yield write("outside of any", new, 6, 1, inside=False)
    yield write("outside of any, a gap", new, 9, 1, inside=False)
    yield "a marker of a newer epoch", side.marker(newer, 6, commit=False)
    yield write("the epoch before", new, 7, 1, inside=False)
    yield write("the newer one, not at 0", newer, 3, 1, inside=False)
    yield write("the newer one", newer, 0, 1, inside=False)
    yield write("the newer one again", newer, 0, 1, inside=False)
    yield write("the newer one, next", newer, 1, 1, inside=False)


@pytest.fixture(params=["3.9", "4"])
def kafka(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BrokerProcess]:
    if request.param == "4":
        yield request.getfixturevalue("oracle")
        return
    broker = ApacheKafka39(tmp_path / "kafka39")
    try:
        yield broker.start()
    finally:
        broker.close()


def test_batches_and_markers_are_taken_and_refused_alike(kafka: BrokerProcess) -> None:
    create_topic(kafka.bootstrap, TOPIC, 1)
    with RawConnection(HOST, kafka.port) as connection:
        connection.await_leader(TOPIC)
        theirs = Theirs(connection)
        producer = theirs.new_producer()
        expected = list(story(theirs, producer))
        answer = connection.request(
            "DescribeProducers", 0, topics=[{"name": TOPIC, "partition_indexes": [0]}]
        )
    ours = Ours(logs.Broker(OsFs(), str(Path(kafka.home) / f"ours-{time.time_ns()}")).log())
    assert list(story(ours, producer)) == expected
    codes = [outcome if isinstance(outcome, int) else outcome.code for _, outcome in expected]
    assert {NONE, *map(int, REFUSALS)} <= set(codes)
    (theirs_now,) = answer["topics"][0]["partitions"][0]["active_producers"]
    (ours_now,) = ours.log.producers
    assert (ours_now.epoch, ours_now.last_sequence) == (
        theirs_now["producer_epoch"],
        theirs_now["last_sequence"],
    )
    assert (ours_now.coordinator_epoch, ours_now.txn_first_offset) == (
        theirs_now["coordinator_epoch"],
        theirs_now["current_txn_start_offset"],
    )


REFUSALS = (
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.TRANSACTION_COORDINATOR_FENCED,
)
