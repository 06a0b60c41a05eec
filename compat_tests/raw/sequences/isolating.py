"""Fetch beside transactions: what readers of committed records are given, and of all."""

from __future__ import annotations

from kavka.compat_tests.raw.case import Cases, Ground, Script, Step, Topic
from kavka.compat_tests.raw.transactions import Producer, fetching, in_short, reading

CASES = Cases("Fetch", transactional=True)
SINCE = 4
T = Topic("isolated", partitions=2)


def seen(on: Ground) -> Script:
    for isolation in (0, 1):
        yield reading(on, isolation=isolation)


def from_offset(on: Ground, offset: int, **more: int) -> Step:
    partition = {**fetching(0), "fetch_offset": offset, **more}
    return on.ask(
        replica_id=-1,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1 << 20,
        isolation_level=1,
        session_epoch=-1,
        topics=[{"topic": on.topic, "topic_id": on.topic_id, "partitions": [partition]}],
        shown=in_short,
    )


@CASES.case(topics=[T], since=SINCE)
def transactions(on: Ground) -> Script:
    producer = Producer(on)
    yield from producer.init()
    for committed in (True, False, False, True):
        yield from producer.write(b"a", b"b")
        yield from seen(on)
        yield from producer.end(committed=committed)
        yield from seen(on)


@CASES.case(topics=[T], since=SINCE)
def interleaved(on: Ground) -> Script:
    first, second, third = (Producer(on, f"-{number}") for number in range(3))
    for producer in (first, second, third):
        yield from producer.init()
        yield from producer.write(b"1")
    yield from second.write(b"2")
    yield from seen(on)
    yield from second.end(committed=False)
    yield from seen(on)
    yield from first.end()
    yield from seen(on)
    yield from second.write(b"3")
    yield from third.end(committed=False)
    yield from seen(on)
    yield from second.end()
    yield from seen(on)


@CASES.case(topics=[T], since=SINCE)
def from_the_middle(on: Ground) -> Script:
    """Which aborted transactions are listed, from each offset on."""
    first, second = Producer(on, "-1"), Producer(on, "-2")
    for producer in (first, second):
        yield from producer.init()
    for number in range(3):
        yield from first.write(b"f%d" % number)
        yield from second.write(b"s%d" % number)
        yield from first.end(committed=False)
        yield from second.write(b"more")
        yield from second.end(committed=number == 1)
    yield from first.write(b"open")
    for offset in range(17):
        yield from_offset(on, offset)


@CASES.case(topics=[T], since=SINCE)
def a_few_bytes_at_a_time(on: Ground) -> Script:
    producer = Producer(on)
    yield from producer.init()
    for committed in (False, True, False):
        yield from producer.write(b"a" * 50)
        yield from producer.end(committed=committed)
    for size in (1, 100, 200, 300, 500):
        for offset in (0, 1, 2):
            yield from_offset(on, offset, partition_max_bytes=size)


@CASES.case(topics=[T], since=SINCE)
def waiting_behind_an_open_transaction(on: Ground) -> Script:
    """A reader at the last stable offset is given what follows when the transaction ends."""
    producer = Producer(on, link="2")
    yield from producer.init()
    yield from producer.write(b"a")
    yield on.ask(
        replica_id=-1,
        max_wait_ms=60_000,
        min_bytes=1,
        max_bytes=1 << 20,
        isolation_level=1,
        session_epoch=-1,
        topics=[{"topic": on.topic, "topic_id": on.topic_id, "partitions": [fetching(0)]}],
        shown=in_short,
        later=True,
    )
    yield from producer.end()
    yield on.answered("1")
