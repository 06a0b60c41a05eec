"""Reading where transactions were written: Fetch, ListOffsets and DescribeProducers.

They are put into the log behind the handlers' back, so that they are as it is wanted. The same
readings of logs that Apache Kafka wrote: tests/broker/test_transactional_logs.py.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kavka.log import txn_index
from kavka.wire.apis.fetch import API
from kavka.wire.errors import ErrorCode as Code
from support import logs
from support.logs import TIMESTAMP, Producer, parse
from support.memory_broker import DATA, MemoryBroker, fetching, scenario
from support.virtual import run_until_idle

VERSIONS = range(API.lowest, API.highest + 1)
TRANSACTIONS_SINCE = 4
LATEST = -1
NO_TIMESTAMP = -1
ONE, TWO = Producer(1, 0, 0), Producer(2, 0, 0)


def changed(broker: MemoryBroker) -> None:
    """What a replica does after an append."""
    replica = broker.replica()
    replica.partition.appended(replica.log.end_offset)
    broker.parts.purgatory.changed(replica.key)


def write(broker: MemoryBroker, producer: Producer, *values: bytes, time_ms: int = 0) -> None:
    log = broker.replica().log
    timestamp = TIMESTAMP + time_ms
    data = logs.batch(values, producer=producer, transactional=True, timestamps=timestamp)
    logs.append(log, data, leader_epoch=broker.replica().partition.leader_epoch)
    changed(broker)


def end(broker: MemoryBroker, producer: Producer, *, commit: bool) -> None:
    logs.end_transaction(broker.replica().log, producer, commit=commit, coordinator_epoch=3)
    changed(broker)


def one_aborted_one_open(broker: MemoryBroker) -> None:
    """0–1 aborted, 2 the marker, 3 committed, 4 the marker, 5 open, 6 and 8 aborted behind it."""
    write(broker, ONE, b"a", b"b")
    end(broker, ONE, commit=False)
    write(broker, TWO, b"c")
    end(broker, TWO, commit=True)
    write(broker, ONE._replace(sequence=2), b"d", time_ms=1000)
    write(broker, TWO._replace(sequence=1), b"e", time_ms=2000)
    end(broker, TWO, commit=False)


def received(answer: Any) -> Any:
    aborted = answer.aborted_transactions
    return aborted and [
        (transaction.producer_id, transaction.first_offset) for transaction in aborted
    ]


async def fetch(broker: MemoryBroker, version: int, offset: int, isolation_level: int) -> Any:
    id_ = broker.replica().topic_id
    values = fetching({("t", 0): offset}, topic_ids={"t": id_}, isolation_level=isolation_level)
    answer = await broker.ask("Fetch", version, **values)
    return answer.responses[0].partitions[0]


@pytest.mark.parametrize(
    "version", [version for version in VERSIONS if version >= TRANSACTIONS_SINCE]
)
@scenario(topics={"t": 1})
async def test_committed_records_only(broker: MemoryBroker, version: int) -> None:
    one_aborted_one_open(broker)
    for offset, aborted in ((0, [(1, 0)]), (2, [(1, 0)]), (3, [])):
        answer = await fetch(broker, version, offset, 1)
        assert (answer.error_code, answer.high_watermark, answer.last_stable_offset) == (0, 8, 5)
        assert [transaction for transaction in received(answer) if transaction[1] < 5] == aborted
        assert parse(bytes(answer.records))[-1].offset == 4
    answer = await fetch(broker, version, 5, 1)
    assert (answer.error_code, bytes(answer.records), received(answer)) == (0, b"", [])


@pytest.mark.parametrize(
    "version", [version for version in VERSIONS if version >= TRANSACTIONS_SINCE]
)
@scenario(topics={"t": 1})
async def test_all_records(broker: MemoryBroker, version: int) -> None:
    one_aborted_one_open(broker)
    answer = await fetch(broker, version, 0, 0)
    assert parse(bytes(answer.records))[-1].offset == 7
    assert (answer.high_watermark, answer.last_stable_offset, received(answer)) == (8, 5, None)


@scenario(topics={"t": 1})
async def test_a_read_committed_long_poll_ends_with_the_marker(
    broker: MemoryBroker,
) -> None:
    write(broker, ONE, b"a", b"b")
    values = fetching({("t", 0): 0}, isolation_level=1, max_wait_ms=30_000)
    waiting: asyncio.Future[Any] = broker.client.send("Fetch", 12, **values)
    await run_until_idle()
    write(broker, ONE._replace(sequence=2), b"c")
    await run_until_idle()
    assert not waiting.done()
    end(broker, ONE, commit=False)
    await run_until_idle()
    answer = waiting.result().responses[0].partitions[0]
    assert (answer.last_stable_offset, received(answer)) == (4, [(1, 0)])
    assert len(parse(bytes(answer.records))) == 4


@scenario(topics={"t": 1})
async def test_offsets_of_committed_records(broker: MemoryBroker) -> None:
    one_aborted_one_open(broker)
    found = [(await broker.list_offset(LATEST, isolation_level=level)).offset for level in (0, 1)]
    assert found == [8, 5]
    for isolation_level, expected in ((0, (5, TIMESTAMP + 1000)), (1, (-1, NO_TIMESTAMP))):
        answer = await broker.list_offset(TIMESTAMP + 1, isolation_level=isolation_level)
        assert (answer.error_code, (answer.offset, answer.timestamp)) == (0, expected)


@scenario(topics={"t": 1})
async def test_producers_are_described_with_their_transactions(broker: MemoryBroker) -> None:
    one_aborted_one_open(broker)
    topics = [{"name": "t", "partition_indexes": [0]}]
    answer = await broker.ask("DescribeProducers", 0, topics=topics)
    (partition,) = answer.topics[0].partitions
    found = {
        producer.producer_id: (
            producer.last_sequence,
            producer.coordinator_epoch,
            producer.current_txn_start_offset,
        )
        for producer in partition.active_producers
    }
    assert found == {1: (2, 3, 5), 2: (1, 3, -1)}


@scenario(topics={"t": 1, "u": 1})
async def test_an_index_without_sense_is_its_partition_s_error(broker: MemoryBroker) -> None:
    one_aborted_one_open(broker)
    (path,) = [path for path in broker.fs.list_dir(f"{DATA}/t-0") if path.endswith(".txnindex")]
    broker.fs.open(f"{DATA}/t-0/{path}").pwrite(b"\xff\xff", 0)
    values = fetching({("t", 0): 0, ("u", 0): 0}, isolation_level=1)
    for _ in range(2):
        answer = await broker.ask("Fetch", 12, **values)
        codes = [topic.partitions[0].error_code for topic in answer.responses]
        assert codes == [Code.KAFKA_STORAGE_ERROR, Code.NONE]
    assert len((await broker.fetch()).records) > 0, "who reads all does not need it"


@scenario(topics={"t": 1})
async def test_a_start_offset_behind_an_open_transaction_is_stable(broker: MemoryBroker) -> None:
    one_aborted_one_open(broker)
    broker.replica().log.start_offset = 6
    answer = await broker.fetch(6, isolation_level=1)
    assert (answer.error_code, answer.last_stable_offset) == (Code.NONE, 6)


@scenario(topics={"t": 1})
async def test_where_very_many_are_aborted_less_is_given_at_a_time(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(txn_index, "ABORTED_MAX", 3)
    for number in range(10):
        write(broker, ONE._replace(sequence=number), b"v")
        end(broker, ONE, commit=False)
    offset, firsts, fetches = 0, [], 0
    while offset < 20:
        answer = await broker.fetch(offset, isolation_level=1)
        assert len(received(answer)) <= 3
        firsts += [first for _, first in received(answer)]
        offset = parse(bytes(answer.records))[-1].offset + 1
        fetches += 1
    assert firsts == list(range(0, 20, 2))
    assert fetches == 4


@scenario(topics={"t": 1})
async def test_not_more_is_given_than_is_stable_where_very_many_are_aborted(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The marker of the last is not replicated: nor is what it ends decided."""
    monkeypatch.setattr(txn_index, "ABORTED_MAX", 1)
    log = broker.replica().log
    write(broker, ONE, b"a")
    end(broker, ONE, commit=True)
    write(broker, ONE._replace(sequence=1), b"b")
    write(broker, TWO, b"c")
    logs.end_transaction(log, ONE, commit=False, coordinator_epoch=3)
    assert (broker.replica().high_watermark, log.end_offset) == (4, 5)
    for offset, given in ((0, [0, 1]), (1, [1])):
        answer = await broker.fetch(offset, isolation_level=1)
        assert answer.last_stable_offset == 2
        assert [record.offset for record in parse(bytes(answer.records))] == given
