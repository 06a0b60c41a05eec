"""Sequences of idempotent producers: duplicates answered but not appended, gaps refused.

The same requests go to Apache Kafka, which must answer the same.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import closing

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError
from kafka.admin import KafkaAdminClient

from support.broker import Kavka, StartBroker, broker_kind
from support.clients.kafka_python import create_topic
from support.ports import HOST
from support.process import BrokerProcess
from support.raw import Outcome, Producer, RawConnection, batch
from support.wait import eventually

NONE = 0
OUT_OF_ORDER_SEQUENCE_NUMBER = 45
INVALID_PRODUCER_EPOCH = 47

RECORDS = 3
BATCHES = 7
WITHIN_S = 60.0
GIVES_UP_MS = 20_000
REMEMBERED = 5
"""Batches of a producer that a broker knows again, with their offsets."""
SEQUENCES = 2**31

SEGMENT_BYTES = 1_048_576
PADDING = b"." * 200_000
"""So much that each batch begins a segment of its own."""


class Writer:
    """Writes batches with chosen sequences to one partition."""

    def __init__(self, connection: RawConnection, topic: str, padding: bytes = b"") -> None:
        self.connection = connection
        self.topic = topic
        self.padding = padding
        self.now_ms = time.time_ns() // 1_000_000

    def new_producer(self) -> Producer:
        """Another producer id."""
        return self.connection.init_producer_id()

    def write(self, producer: Producer, sequence: int, count: int = RECORDS) -> Outcome:
        """One batch; equal arguments give equal bytes."""
        values = [b"%d" % (sequence + number) + self.padding for number in range(count)]
        records = batch(producer, sequence, values, self.now_ms)
        return self.connection.produce(self.topic, 0, records)


@pytest.fixture
def writer(broker: BrokerProcess, topic: str) -> Iterator[Writer]:
    """A writer to a new topic of the shared broker."""
    with connect(broker, topic) as connection:
        yield Writer(connection, topic)


def connect(broker: BrokerProcess, topic: str) -> RawConnection:
    """A connection, once the topic is there."""
    create_topic(broker.bootstrap, topic, 1)
    connection = RawConnection(HOST, broker.port)
    connection.await_leader(topic)
    return connection


def fill(writer: Writer, producer: Producer) -> None:
    """BATCHES batches, one after the other."""
    for number in range(BATCHES):
        offset = number * RECORDS
        outcome = writer.write(producer, offset)
        assert outcome == Outcome(NONE, offset, offset + RECORDS)


def assert_known(writer: Writer, producer: Producer, batches: int) -> None:
    """After `fill`: each of the last batches again is a duplicate; nothing is appended."""
    end = BATCHES * RECORDS
    for number in range(BATCHES - batches, BATCHES):
        offset = number * RECORDS
        assert writer.write(producer, offset) == Outcome(NONE, offset, end)


def test_a_duplicate_of_the_last_five_batches_gets_its_old_offset(writer: Writer) -> None:
    producer = writer.new_producer()
    fill(writer, producer)
    assert_known(writer, producer, REMEMBERED)


def test_a_gap_is_refused(writer: Writer) -> None:
    producer = writer.new_producer()
    fill(writer, producer)
    end = BATCHES * RECORDS
    assert writer.write(producer, end + 1) == Outcome(OUT_OF_ORDER_SEQUENCE_NUMBER, -1, end)
    assert writer.write(producer, end) == Outcome(NONE, end, end + RECORDS)


def test_a_producer_without_state_begins_anywhere(writer: Writer) -> None:
    assert writer.write(writer.new_producer(), 1_000) == Outcome(NONE, 0, RECORDS)


def test_a_client_goes_on_after_it_gave_a_batch_up(start_broker: StartBroker) -> None:
    """aiokafka keeps its epoch then, so its next batch leaves a gap, to a broker that knows nothing
    of the producer: the topic was deleted and created again meanwhile."""
    broker = start_broker(**{"auto.create.topics.enable": "false"})
    create_topic(broker.bootstrap, "t", 1)

    async def story() -> list[int]:
        producer = AIOKafkaProducer(
            bootstrap_servers=broker.bootstrap,
            enable_idempotence=True,
            request_timeout_ms=GIVES_UP_MS,
        )
        await producer.start()
        try:
            offsets = [(await producer.send_and_wait("t", b"1", partition=0)).offset]
            await asyncio.to_thread(delete_topic, broker.bootstrap, "t")
            await asyncio.to_thread(await_deleted, broker, "t")
            with pytest.raises(KafkaError):
                await producer.send_and_wait("t", b"2", partition=0)
            await asyncio.to_thread(create_topic, broker.bootstrap, "t", 1)
            for value in (b"3", b"4", b"5"):
                sent = await producer.send_and_wait("t", value, partition=0)
                offsets.append(sent.offset)
            return offsets
        finally:
            await producer.stop()

    assert asyncio.run(story()) == [0, 0, 1, 2]


def delete_topic(bootstrap: str, topic: str) -> None:
    with closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
        admin.delete_topics([topic])


def await_deleted(broker: BrokerProcess, topic: str) -> None:
    """A deletion is acknowledged before the log is gone, which takes records until then."""
    eventually(
        lambda: not (broker.data_dir / f"{topic}-0").exists(),
        within_s=WITHIN_S,
        what=f"the log of {topic} is gone",
    )


def test_sequences_wrap(writer: Writer) -> None:
    producer = writer.new_producer()
    assert writer.write(producer, SEQUENCES - RECORDS).error_code == NONE
    assert writer.write(producer, 0) == Outcome(NONE, RECORDS, 2 * RECORDS)


def test_an_older_epoch_is_fenced(writer: Writer) -> None:
    old = writer.new_producer()
    new = old._replace(epoch=old.epoch + 1)
    assert writer.write(old, 0).error_code == NONE
    assert writer.write(new, RECORDS).error_code == OUT_OF_ORDER_SEQUENCE_NUMBER
    assert writer.write(new, 0) == Outcome(NONE, RECORDS, 2 * RECORDS)
    assert writer.write(old, RECORDS) == Outcome(INVALID_PRODUCER_EPOCH, -1, 2 * RECORDS)


@pytest.mark.parametrize("end", ["kill", "stop"])
def test_duplicates_are_known_after_a_restart(
    start_broker: StartBroker, topic: str, end: str
) -> None:
    broker = start_broker()
    with connect(broker, topic) as connection:
        writer = Writer(connection, topic)
        producer = writer.new_producer()
        fill(writer, producer)
    getattr(broker, end)()
    broker.start()
    # A snapshot of producers' state has room for one batch each. Kavka replays the log after
    # SIGKILL, and so knows all of them again; Apache Kafka goes on from a snapshot even then.
    known = REMEMBERED if end == "kill" and isinstance(broker, Kavka) else 1
    with RawConnection(HOST, broker.port) as connection:
        writer.connection = connection
        assert_known(writer, producer, known)
        last = BATCHES * RECORDS
        assert writer.write(producer, last + 1).error_code == OUT_OF_ORDER_SEQUENCE_NUMBER
        assert writer.write(producer, last) == Outcome(NONE, last, last + RECORDS)
        assert writer.new_producer().id > producer.id


@pytest.mark.skipif(broker_kind() is not Kavka, reason="Apache Kafka forgets them")
def test_duplicates_are_known_across_segments_after_sigkill(
    start_broker: StartBroker, topic: str
) -> None:
    broker = start_broker()
    create_topic(broker.bootstrap, topic, 1, {"segment.bytes": str(SEGMENT_BYTES)})
    with RawConnection(HOST, broker.port) as connection:
        writer = Writer(connection, topic, padding=PADDING)
        producer = writer.new_producer()
        fill(writer, producer)
    assert len(list(broker.data_dir.glob(f"{topic}-0/*.log"))) == BATCHES
    broker.kill()
    broker.start()
    with RawConnection(HOST, broker.port) as connection:
        writer.connection = connection
        assert_known(writer, producer, REMEMBERED)


def test_outcomes_are_the_oracles(broker: BrokerProcess, oracle: BrokerProcess, topic: str) -> None:
    with connect(broker, topic) as ours, connect(oracle, topic) as theirs:
        assert list(outcomes(Writer(ours, topic))) == list(outcomes(Writer(theirs, topic)))


def outcomes(writer: Writer) -> Iterator[tuple[str, Outcome]]:
    """A long story of one partition: what was written, and what became of it."""
    first, second, late = (writer.new_producer() for _ in range(3))
    newer = first._replace(epoch=first.epoch + 1)
    story = [("in order", first, number * RECORDS, RECORDS) for number in range(BATCHES)]
    story += [("again", first, number * RECORDS, RECORDS) for number in range(BATCHES)]
    end = BATCHES * RECORDS
    story += [
        ("gap of one", first, end + 1, RECORDS),
        ("gap of many", first, end + 1_000, RECORDS),
        ("sequence 0 again", first, 0, RECORDS),
        ("shorter than the last", first, end - RECORDS, RECORDS - 1),
        ("longer than the last", first, end - RECORDS, RECORDS + 1),
        ("two batches as one", first, end - 2 * RECORDS, 2 * RECORDS),
        ("inside the last", first, end - 1, 1),
        ("next", first, end, RECORDS),
        ("another producer", second, 0, RECORDS),
        ("another producer again", second, 0, RECORDS),
        ("begins late", late, 500, RECORDS),
        ("begins late, earlier", late, 400, RECORDS),
        ("begins late, next", late, 500 + RECORDS, RECORDS),
        ("newer epoch, not at 0", newer, end + RECORDS, RECORDS),
        ("newer epoch", newer, 0, RECORDS),
        ("newer epoch again", newer, 0, RECORDS),
        ("older epoch, next", first, end + RECORDS, RECORDS),
        ("older epoch, duplicate", first, end, RECORDS),
        ("newer epoch, next", newer, RECORDS, RECORDS),
    ]
    for name, producer, sequence, count in story:
        yield name, writer.write(producer, sequence, count)
