"""Produce within transactions: what must be said before, by whom, and what else may be written.

Up to version 11 a partition must have been added to the transaction; since 12 writing adds it.
"""

from __future__ import annotations

from typing import Any

from kavka.compat_tests.raw.case import Cases, Ground, Script, Topic
from kavka.compat_tests.raw.codec.batches import build
from kavka.compat_tests.raw.transactions import Producer, producers, reading

CASES = Cases("Produce", transactional=True)
TRANSACTIONS_SINCE = 3
T = Topic("transactional", partitions=3)
UNKNOWN_ID = 5_000_000


def added(producer: Producer) -> Script:
    """Partition 0 is in the transaction, or will be when it is written to."""
    if not producer.second:
        yield producer.adding()


@CASES.case(topics=[T], since=TRANSACTIONS_SINCE)
def transactions(on: Ground) -> Script:
    producer = Producer(on)
    yield from producer.init()
    for committed in (True, False, True):
        yield from added(producer)
        yield from producer.produce(b"a", b"b")
        yield producer.describing()
        yield from producer.produce(b"c")
        yield producers(on)
        yield from producer.end(committed=committed)
    yield reading(on)
    yield reading(on, isolation=0)
    yield producers(on)


@CASES.case(topics=[T], since=TRANSACTIONS_SINCE)
def a_partition_that_was_not_added(on: Ground) -> Script:
    producer = Producer(on)
    yield from producer.init()
    yield producer.producing()
    yield producer.describing()
    yield from added(producer)
    yield from producer.produce()
    yield producer.producing(partition=(on.topic, 1))
    yield producer.describing()
    yield from producer.end()
    yield producer.producing(partition=(on.topic, 2), sequence=0)
    yield producer.describing()
    yield reading(on, (on.topic, 0), (on.topic, 1), (on.topic, 2))


@CASES.case(topics=[T], since=TRANSACTIONS_SINCE)
def after_the_end(on: Ground) -> Script:
    """Late records of a transaction that was committed, or aborted."""
    for committed in (True, False):
        producer = Producer(on, f"-{committed}")
        yield from producer.init()
        yield from added(producer)
        yield from producer.produce()
        late = producer.producing()
        yield from producer.end(committed=committed)
        yield late
        yield producer.producing(sequence=1)
        yield producer.producing(sequence=0)
        yield producer.producing(sequence=7)
        yield producer.describing()
    yield reading(on)


@CASES.case(topics=[T], since=TRANSACTIONS_SINCE)
def by_others(on: Ground) -> Script:
    producer = Producer(on)
    yield producer.producing(producer_id=UNKNOWN_ID, producer_epoch=0)
    yield from producer.init()
    yield from producer.init()
    for _ in range(2):
        for producer_id in (UNKNOWN_ID, -1):
            yield producer.producing(producer_id=producer_id)
        for epoch in (0, 2, -1, 32_767):
            yield producer.producing(producer_epoch=epoch)
        yield producer.producing(transactional_id="")
        yield producer.producing(transactional_id="nobody's")
        yield producer.producing(transactional_id=None)
        yield from producer.write()
    yield producer.describing()
    yield reading(on)


@CASES.case(topics=[T], since=TRANSACTIONS_SINCE)
def without_the_flag(on: Ground) -> Script:
    """Records that are not transactional, with a transactional id, and the other way round."""
    producer = Producer(on)
    yield from producer.init()
    other = (on.topic, 1)
    yield producer.producing(transactional=False, partition=other)
    yield producer.producing(transactional=False, producer_id=-1, producer_epoch=-1, sequence=-1)
    yield producer.producing(
        transactional=False, producer_id=UNKNOWN_ID, producer_epoch=0, sequence=0
    )
    yield producer.describing()
    yield from added(producer)
    yield from producer.produce()
    yield producer.producing(transactional=False)
    yield producer.producing(transactional=False, producer_id=-1, producer_epoch=-1, sequence=-1)
    yield producer.producing(transactional=False, transactional_id=None)
    yield producer.producing(transactional_id=None, sequence=1)
    yield from producer.end()
    yield producer.producing(transactional=False, sequence=1)
    yield reading(on)
    yield producers(on)


@CASES.case(topics=[T], since=TRANSACTIONS_SINCE)
def sequences(on: Ground) -> Script:
    producer = Producer(on)
    yield from producer.init()
    yield from added(producer)
    yield producer.producing(sequence=5)
    yield producer.producing(sequence=0)
    yield producer.producing(sequence=0)
    yield producer.producing(sequence=2)
    yield producer.producing(sequence=1)
    yield from producer.end()
    yield from added(producer)
    yield producer.producing(sequence=3)
    yield producer.producing(sequence=2)
    yield producer.producing(sequence=0)
    yield producer.producing(sequence=1)
    yield from producer.init()
    yield from added(producer)
    yield producer.producing(sequence=3)
    yield producer.producing(sequence=0)
    yield reading(on)
    yield producers(on)


@CASES.case(topics=[T], since=TRANSACTIONS_SINCE)
def several_partitions(on: Ground) -> Script:
    """Some of them not in the transaction, one not there at all, one with plain records."""
    producer = Producer(on)
    yield from producer.init()
    yield from added(producer)
    batch = bytes(build(producer=(producer.id, producer.epoch, 0), transactional=True))
    plain = bytes(build())
    for data in (
        [(0, batch), (1, batch)],
        [(2, batch), (9, batch)],
        [(0, plain), (1, batch), (2, plain)],
        [(1, b"garbage"), (2, batch)],
    ):
        partitions = [{"index": index, "records": records} for index, records in data]
        topic = {"name": on.topic, "topic_id": on.topic_id, "partition_data": partitions}
        yield producer.producing(topic_data=[topic])
        yield producer.describing()
    yield reading(on, (on.topic, 0), (on.topic, 1), (on.topic, 2))


@CASES.case(topics=[T], since=TRANSACTIONS_SINCE)
def two_producers_in_one_request(on: Ground) -> Script:
    first, second = Producer(on, "-1"), Producer(on, "-2")
    for producer in (first, second):
        yield from producer.init()
        yield from added(producer)
    partitions = [
        {
            "index": index,
            "records": bytes(build(producer=(who.id, who.epoch, 0), transactional=True)),
        }
        for index, who in enumerate((first, second))
    ]
    topic = {"name": on.topic, "topic_id": on.topic_id, "partition_data": partitions}
    yield first.producing(topic_data=[topic])
    yield first.describing()


@CASES.case(topics=[T], since=TRANSACTIONS_SINCE)
def acks(on: Ground) -> Script:
    producer = Producer(on)
    yield from producer.init()
    yield from added(producer)
    for acks in (0, 1, 2):
        yield producer.producing(acks=acks, silent=acks == 0)


@CASES.case(topics=[T], since=TRANSACTIONS_SINCE)
def plain_records_beside_them(on: Ground) -> Script:
    producer = Producer(on)
    yield from producer.init()
    yield from producer.write(b"in")
    beside: dict[str, Any] = {
        "producer_id": -1,
        "producer_epoch": -1,
        "sequence": -1,
        "transactional": False,
    }
    yield producer.producing(b"beside", **beside, transactional_id=None)
    yield reading(on)
    yield from producer.end(committed=False)
    yield reading(on)


@CASES.case(topics=[Topic("deleted", partitions=2)], since=TRANSACTIONS_SINCE)
def deleted_records(on: Ground) -> Script:
    """Deleting what an open transaction has written."""
    producer = Producer(on)
    yield from producer.init()
    yield from producer.write(b"a")
    topic = {"name": on.topic, "partitions": [{"partition_index": 0, "offset": -1}]}
    yield on.other("DeleteRecords", 2, topics=[topic], timeout_ms=30_000)
    yield reading(on)
    yield from producer.write(b"b")
    yield from producer.end()
    yield producers(on)
