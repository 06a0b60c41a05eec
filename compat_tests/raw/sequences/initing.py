"""InitProducerId with a transactional id: beginning, going on (KIP-360), and fencing others."""

from __future__ import annotations

from kavka.compat_tests.raw.case import Cases, Ground, Script, Topic
from kavka.compat_tests.raw.transactions import Producer, reading

CASES = Cases("InitProducerId", transactional=True)
EXPECTED_SINCE = 3
"""A producer may send the id and epoch that it has."""
T = Topic(partitions=2)


@CASES.case(topics=[])
def an_instance_after_the_other(on: Ground) -> Script:
    first, second = Producer(on), Producer(on, link="2")
    yield first.describing()
    yield first.initing()
    yield first.describing()
    yield second.initing(transaction_timeout_ms=77)
    yield second.describing()


@CASES.case(topics=[])
def timeouts(on: Ground) -> Script:
    for timeout_ms in (0, -1, 1, 900_000, 900_001, 2**31 - 1, -(2**31)):
        producer = Producer(on, f"-{timeout_ms}")
        yield producer.initing(transaction_timeout_ms=timeout_ms)
        yield producer.describing()


@CASES.case(topics=[])
def strange_names(on: Ground) -> Script:
    for name in ("ä/ \0?", "n" * 10_000):
        producer = Producer(on, name)
        yield producer.initing()
        yield producer.describing()


@CASES.case(topics=[], since=EXPECTED_SINCE)
def an_expected_producer_of_a_new_name(on: Ground) -> Script:
    for number, (producer_id, epoch) in enumerate(((5_000_000, 3), (0, 0), (5_000_000, 32_767))):
        producer = Producer(on, f"-{number}")
        yield producer.initing(producer_id=producer_id, producer_epoch=epoch)
        yield producer.describing()


@CASES.case(topics=[], since=EXPECTED_SINCE)
def an_expected_producer(on: Ground) -> Script:
    producer = Producer(on)
    yield from producer.init()
    first = producer.who
    yield from producer.init(**producer.who)
    yield producer.initing(**first)  # the answer was lost
    yield producer.initing(**{**producer.who, "producer_epoch": 7})
    yield producer.initing(**{**producer.who, "producer_id": 5_000_000})
    yield producer.initing(**{**producer.who, "producer_epoch": -1})
    yield producer.initing(**{**producer.who, "producer_id": -1})
    yield producer.initing(**{**producer.who, "producer_epoch": -2})
    yield from producer.init()
    yield producer.initing(**first)
    yield producer.describing()


def opened(on: Ground, *, second: bool) -> Producer:
    return Producer(on, second=second, link="writing")


for SECOND in (False, True):
    PROTOCOL = "the second protocol" if SECOND else "the first protocol"

    def in_a_transaction(on: Ground, second: bool = SECOND) -> Script:
        zombie, heir = opened(on, second=second), Producer(on, second=second)
        yield from zombie.init()
        yield from zombie.write(b"a", b"b")
        yield reading(on)
        yield heir.initing()
        yield from heir.await_end()
        yield heir.describing()
        yield zombie.producing()
        yield zombie.adding((on.topic, 1))
        yield zombie.ending()
        yield zombie.ending(committed=False)
        yield from heir.init()
        yield heir.describing()
        yield zombie.producing()
        yield zombie.adding()
        yield zombie.ending()
        yield reading(on)
        yield from heir.write(b"c")
        yield from heir.end()
        yield reading(on)
        yield zombie.producing()

    def after_one(on: Ground, second: bool = SECOND) -> Script:
        for committed in (True, False):
            producer = Producer(on, f"-{committed}", second=second)
            yield from producer.init()
            yield from producer.write()
            yield from producer.end(committed=committed)
            yield from producer.init()
            yield producer.describing()
            yield from producer.write()
            yield from producer.end(committed=not committed)
        yield reading(on)

    def its_own(on: Ground, second: bool = SECOND) -> Script:
        """A producer goes on with its id: what it had open is aborted."""
        producer = Producer(on, second=second)
        yield from producer.init()
        yield from producer.write(b"a")
        yield producer.initing(**{**producer.who, "producer_id": 5_000_000})
        yield producer.initing(**producer.who)
        yield from producer.await_end()
        yield producer.describing()
        yield from producer.init(**producer.who)
        yield producer.describing()
        yield from producer.init()
        yield from producer.write(b"b")
        yield from producer.end()
        yield from producer.init(**producer.who)
        yield from producer.write(b"c")
        yield from producer.end()
        yield reading(on)

    def with_another_epoch(on: Ground, second: bool = SECOND) -> Script:
        """What is open is aborted before the epoch is looked at."""
        for number, epoch in enumerate((0, 2, -2)):
            producer = Producer(on, f"-{number}", second=second)
            yield from producer.init()
            yield from producer.init()
            yield from producer.write(b"a")
            yield producer.initing(**{**producer.who, "producer_epoch": epoch})
            yield from producer.await_end()
            yield producer.describing()
            yield producer.initing(**{**producer.who, "producer_epoch": epoch})
            yield producer.describing()

    def retries_of_one_that_goes_on(on: Ground, second: bool = SECOND) -> Script:
        producer = Producer(on, second=second)
        yield from producer.init()
        before = producer.who
        yield from producer.write(b"a")
        yield from producer.end()
        after = producer.who
        for who in (before, after, after, before):
            yield producer.initing(**who)
            yield producer.describing()

    CASES.add(f"in a transaction, {PROTOCOL}", in_a_transaction, topics=[T])
    CASES.add(f"after one, {PROTOCOL}", after_one, topics=[T])
    CASES.add(f"its own, {PROTOCOL}", its_own, topics=[T], since=EXPECTED_SINCE)
    CASES.add(
        f"with another epoch, {PROTOCOL}", with_another_epoch, topics=[T], since=EXPECTED_SINCE
    )
    CASES.add(
        f"retries of one that goes on, {PROTOCOL}",
        retries_of_one_that_goes_on,
        topics=[T],
        since=EXPECTED_SINCE,
    )
