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


def added(one: Producer) -> Script:
    """Partition 0 is in the transaction, or will be when it is written to."""
    if not one.second:
        yield one.adding()


@CASES.case(topics=[T], since=TRANSACTIONS_SINCE)
def transactions(on: Ground) -> Script:
    one = Producer(on)
    yield from one.init()
    for committed in (True, False, True):
        yield from added(one)
        yield from one.produce(b"a", b"b")
        yield one.describing()
        yield from one.produce(b"c")
        yield producers(on)
        yield from one.end(committed=committed)
    yield reading(on)
    yield reading(on, isolation=0)
    yield producers(on)


@CASES.case(topics=[T], since=TRANSACTIONS_SINCE)
def a_partition_that_was_not_added(on: Ground) -> Script:
    one = Producer(on)
    yield from one.init()
    yield one.producing()
    yield one.describing()
    yield from added(one)
    yield from one.produce()
    yield one.producing(place=(on.topic, 1))
    yield one.describing()
    yield from one.end()
    yield one.producing(place=(on.topic, 2), sequence=0)
    yield one.describing()
    yield reading(on, (on.topic, 0), (on.topic, 1), (on.topic, 2))


@CASES.case(topics=[T], since=TRANSACTIONS_SINCE)
def after_the_end(on: Ground) -> Script:
    """Late records of a transaction that was committed, or aborted."""
    for committed in (True, False):
        one = Producer(on, f"-{committed}")
        yield from one.init()
        yield from added(one)
        yield from one.produce()
        late = one.producing()
        yield from one.end(committed=committed)
        yield late
        yield one.producing(sequence=1)
        yield one.producing(sequence=0)
        yield one.producing(sequence=7)
        yield one.describing()
    yield reading(on)


@CASES.case(topics=[T], since=TRANSACTIONS_SINCE)
def by_others(on: Ground) -> Script:
    one = Producer(on)
    yield one.producing(producer_id=UNKNOWN_ID, producer_epoch=0)
    yield from one.init()
    yield from one.init()
    for _ in range(2):
        for producer_id in (UNKNOWN_ID, -1):
            yield one.producing(producer_id=producer_id)
        for epoch in (0, 2, -1, 32_767):
            yield one.producing(producer_epoch=epoch)
        yield one.producing(transactional_id="")
        yield one.producing(transactional_id="nobody's")
        yield one.producing(transactional_id=None)
        yield from one.write()
    yield one.describing()
    yield reading(on)


@CASES.case(topics=[T], since=TRANSACTIONS_SINCE)
def without_the_flag(on: Ground) -> Script:
    """Records that are not transactional, with a transactional id, and the other way round."""
    one = Producer(on)
    yield from one.init()
    other = (on.topic, 1)
    yield one.producing(transactional=False, place=other)
    yield one.producing(transactional=False, producer_id=-1, producer_epoch=-1, sequence=-1)
    yield one.producing(transactional=False, producer_id=UNKNOWN_ID, producer_epoch=0, sequence=0)
    yield one.describing()
    yield from added(one)
    yield from one.produce()
    yield one.producing(transactional=False)
    yield one.producing(transactional=False, producer_id=-1, producer_epoch=-1, sequence=-1)
    yield one.producing(transactional=False, transactional_id=None)
    yield one.producing(transactional_id=None, sequence=1)
    yield from one.end()
    yield one.producing(transactional=False, sequence=1)
    yield reading(on)
    yield producers(on)


@CASES.case(topics=[T], since=TRANSACTIONS_SINCE)
def sequences(on: Ground) -> Script:
    one = Producer(on)
    yield from one.init()
    yield from added(one)
    yield one.producing(sequence=5)
    yield one.producing(sequence=0)
    yield one.producing(sequence=0)
    yield one.producing(sequence=2)
    yield one.producing(sequence=1)
    yield from one.end()
    yield from added(one)
    yield one.producing(sequence=3)
    yield one.producing(sequence=2)
    yield one.producing(sequence=0)
    yield one.producing(sequence=1)
    yield from one.init()
    yield from added(one)
    yield one.producing(sequence=3)
    yield one.producing(sequence=0)
    yield reading(on)
    yield producers(on)


@CASES.case(topics=[T], since=TRANSACTIONS_SINCE)
def several_partitions(on: Ground) -> Script:
    """Some of them not in the transaction, one not there at all, one with plain records."""
    one = Producer(on)
    yield from one.init()
    yield from added(one)
    batch = bytes(build(producer=(one.id, one.epoch, 0), transactional=True))
    plain = bytes(build())
    for data in (
        [(0, batch), (1, batch)],
        [(2, batch), (9, batch)],
        [(0, plain), (1, batch), (2, plain)],
        [(1, b"garbage"), (2, batch)],
    ):
        partitions = [{"index": index, "records": records} for index, records in data]
        topic = {"name": on.topic, "topic_id": on.topic_id, "partition_data": partitions}
        yield one.producing(topic_data=[topic])
        yield one.describing()
    yield reading(on, (on.topic, 0), (on.topic, 1), (on.topic, 2))


@CASES.case(topics=[T], since=TRANSACTIONS_SINCE)
def two_producers_in_one_request(on: Ground) -> Script:
    one, other = Producer(on, "-1"), Producer(on, "-2")
    for producer in (one, other):
        yield from producer.init()
        yield from added(producer)
    partitions = [
        {
            "index": index,
            "records": bytes(build(producer=(who.id, who.epoch, 0), transactional=True)),
        }
        for index, who in enumerate((one, other))
    ]
    topic = {"name": on.topic, "topic_id": on.topic_id, "partition_data": partitions}
    yield one.producing(topic_data=[topic])
    yield one.describing()


@CASES.case(topics=[T], since=TRANSACTIONS_SINCE)
def acks(on: Ground) -> Script:
    one = Producer(on)
    yield from one.init()
    yield from added(one)
    for acks in (0, 1, 2):
        yield one.producing(acks=acks, silent=acks == 0)


@CASES.case(topics=[T], since=TRANSACTIONS_SINCE)
def plain_records_beside_them(on: Ground) -> Script:
    one = Producer(on)
    yield from one.init()
    yield from one.write(b"in")
    beside: dict[str, Any] = {
        "producer_id": -1,
        "producer_epoch": -1,
        "sequence": -1,
        "transactional": False,
    }
    yield one.producing(b"beside", **beside, transactional_id=None)
    yield reading(on)
    yield from one.end(committed=False)
    yield reading(on)


@CASES.case(topics=[Topic("deleted", partitions=2)], since=TRANSACTIONS_SINCE)
def deleted_records(on: Ground) -> Script:
    """Deleting what an open transaction has written."""
    one = Producer(on)
    yield from one.init()
    yield from one.write(b"a")
    topic = {"name": on.topic, "partitions": [{"partition_index": 0, "offset": -1}]}
    yield on.other("DeleteRecords", 2, topics=[topic], timeout_ms=30_000)
    yield reading(on)
    yield from one.write(b"b")
    yield from one.end()
    yield producers(on)
