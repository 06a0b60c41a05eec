"""Transactions by confluent-kafka: one record each, and records that are read, processed, written.

The client is as it comes but for `linger.ms`=0: what it waits for itself is not the broker's time.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, Producer

from bench.clients import settings
from bench.run import Run

SINGLE_S: Final = 5.0
WARM_UP_S: Final = 3.0
VALUE: Final = bytes(100)
"""A record."""

RECORDS: Final = 30_000
A_TRANSACTION: Final = 100
"""Records that are read before they are written and committed together with their offsets."""
CLIENT_TIMEOUT_S: Final = 30.0
ASSIGNED_WITHIN_S: Final = 30.0


def stage(run: Run) -> None:
    """Rounds of both. RuntimeError if the client gives up."""
    try:
        _stage(run)
    except KafkaException as failure:
        raise RuntimeError(f"the client: {failure}") from failure


def _stage(run: Run) -> None:
    topic = run.new_topic("transactions")
    _commits(run, topic, WARM_UP_S)
    for _ in range(run.options.rounds):
        _single(run, topic)
    source = run.new_topic("read")
    _fill(run, source)
    for number in range(run.options.rounds):
        _read_process_write(run, source, run.new_topic("written"), f"group-{number}")


def _single(run: Run, topic: str) -> None:
    with run.meter("transactions") as meter:
        latencies_ns = _commits(run, topic, SINGLE_S)
    run.add("transactions.rate", len(latencies_ns) / meter.wall_s)
    run.add("transactions.cpu", meter.broker_s * 1e6 / len(latencies_ns))
    run.add_latencies("transactions", latencies_ns)


def _commits(run: Run, topic: str, seconds: float) -> Sequence[int]:
    """How long each commit took, of one producer that writes a record and commits, ns."""
    producer = _transactional(run, "one-by-one")
    latencies_ns = []
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s:
        producer.begin_transaction()
        producer.produce(topic, VALUE)
        began_ns = time.monotonic_ns()
        producer.commit_transaction(CLIENT_TIMEOUT_S)
        latencies_ns.append(time.monotonic_ns() - began_ns)
    return latencies_ns


def _fill(run: Run, topic: str) -> None:
    producer = Producer(settings(run.peer.port))
    for _ in range(RECORDS):
        producer.produce(topic, VALUE)
    if left := producer.flush(CLIENT_TIMEOUT_S):
        raise RuntimeError(f"{left} records unanswered")


def _read_process_write(run: Run, source: str, target: str, group: str) -> None:
    """Once through `source`; measured from the first record on."""
    consumer = Consumer(
        {
            **settings(run.peer.port),
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    producer = _transactional(run, "read-process-write")
    try:
        consumer.subscribe([source])
        records = consumer.consume(A_TRANSACTION, ASSIGNED_WITHIN_S)
        done = 0
        with run.meter("read-process-write") as meter:
            while records:
                _write(producer, consumer, records, target)
                done += len(records)
                more = min(A_TRANSACTION, RECORDS + 1 - done)  # and the one that made the topic
                records = consumer.consume(more, CLIENT_TIMEOUT_S) if more else []
    finally:
        consumer.close()
    if done != RECORDS + 1:
        raise RuntimeError(f"{done} of {RECORDS + 1} records were read")
    run.add("read-process-write.rate", done / meter.wall_s)
    run.add("read-process-write.cpu", meter.broker_s * 1e6 / done)


def _write(producer: Producer, consumer: Consumer, records: Sequence[Any], target: str) -> None:
    """One transaction."""
    producer.begin_transaction()
    for record in records:
        if record.error() is not None:
            raise RuntimeError(record.error())
        producer.produce(target, record.value())
    places = consumer.position(consumer.assignment())
    producer.send_offsets_to_transaction(
        places, consumer.consumer_group_metadata(), CLIENT_TIMEOUT_S
    )
    producer.commit_transaction(CLIENT_TIMEOUT_S)


def _transactional(run: Run, name: str) -> Producer:
    config = {"transactional.id": name, "linger.ms": 0}
    producer = Producer({**settings(run.peer.port), **config})
    try:
        producer.init_transactions(CLIENT_TIMEOUT_S)
    except KafkaException as failure:
        raise RuntimeError(f"no transactions: {failure}") from failure
    return producer
