"""The task of the pipeline `replay` on a broker that dies under it: what it could not deliver is
not counted as written."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer
from kafka.errors import KafkaError

from kavka.spark_it.writing import (
    Done,
    Task,
    Transactions,
    done_of,
    group_offsets,
    stable_done_of,
)
from support.broker import Kavka, finish
from support.clients.kafka_python import create_topic
from support.transactions.readers import read_all

TOPIC, GROUP = "target", "replay"
FLUSH_WITHIN_S = 60.0
OPEN_FOR_S = 1.5
"""Longer than it takes to ask for offsets."""
EXPIRES = {"delivery_timeout_ms": 1500, "request_timeout_ms": 1000}
"""Settings of a producer whose records expire while the broker is down."""


def row(n: int) -> dict[str, Any]:
    place = {"topic": "source", "partition": 0, "offset": n}
    record = {"timestamp": None, "key": b"k", "value": b"%d" % n, "headers": None}
    return {"n": n, "target": 0, "due": 0.0, **place, **record}


def committed(broker: Kavka) -> list[bytes]:
    return [value for _, value in read_all(broker.bootstrap, TOPIC, 1, "read_committed")[0]]


def test_a_record_that_expires_while_the_broker_is_down_is_written_by_the_next_attempt(
    tmp_path: Path,
) -> None:
    broker = Kavka(tmp_path / "broker", {"transaction.state.log.num.partitions": "1"}).start()

    def attempt(rows: Iterable[Any], **more: Any) -> None:
        settings = {"bootstrap_servers": broker.bootstrap}
        task = Task(settings, TOPIC, 1, GROUP, False, 100, 60.0, 1, time.time(), [0])
        with closing(KafkaProducer(**settings, **more, transactional_id=GROUP)) as producer:
            producers.append(producer)
            producer.init_transactions()
            Transactions(task, producer, stable_done_of(settings, GROUP, TOPIC, [0])).write(rows)

    def rows() -> Iterator[dict[str, Any]]:
        yield row(1)
        yield row(2)
        producers[0].flush(FLUSH_WITHIN_S)
        broker.kill()
        yield row(3)
        producers[0].flush(FLUSH_WITHIN_S)  # until it has expired
        broker.start()

    producers: list[KafkaProducer] = []
    try:
        create_topic(broker.bootstrap, TOPIC, 1)
        with pytest.raises(KafkaError):
            attempt(rows(), **EXPIRES)
        assert committed(broker) == []
        attempt([row(n) for n in (1, 2, 3)])
        assert committed(broker) == [b"1", b"2", b"3"]
    finally:
        finish(broker)


def test_how_far_a_partition_is_is_known_when_its_transaction_has_ended(tmp_path: Path) -> None:
    broker = Kavka(tmp_path / "broker", {"transaction.state.log.num.partitions": "1"}).start()
    settings = {"bootstrap_servers": broker.bootstrap}
    try:
        create_topic(broker.bootstrap, TOPIC, 2)
        with (
            closing(KafkaProducer(**settings, transactional_id=GROUP)) as producer,
            ThreadPoolExecutor(1) as pool,
        ):
            producer.init_transactions()
            producer.begin_transaction()
            done = {0: Done(5, "source-0-9", 1)}
            producer.send_offsets_to_transaction(group_offsets(TOPIC, done), GROUP)
            assert done_of(settings, GROUP, TOPIC, [0, 1]) == {0: Done(), 1: Done()}
            future = pool.submit(stable_done_of, settings, GROUP, TOPIC, [0, 1])
            with pytest.raises(TimeoutError):
                future.result(OPEN_FOR_S)
            producer.commit_transaction()
            assert future.result(FLUSH_WITHIN_S) == {**done, 1: Done()}
    finally:
        finish(broker)
