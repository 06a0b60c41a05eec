"""AddPartitionsToTxn: by clients, and, since version 4, by brokers for several transactions."""

from __future__ import annotations

from typing import Any

from kavka.compat_tests.raw.case import NEVER_ANSWERED_S, Cases, Ground, Script, Topic
from kavka.compat_tests.raw.transactions import BATCHED_SINCE, Producer

CASES = Cases("AddPartitionsToTxn")
T = Topic(partitions=3, shared=True)
OTHER = Topic("other", partitions=2, shared=True)
BOTH = [T, OTHER]


@CASES.case(topics=BOTH)
def more_and_more(on: Ground) -> Script:
    producer = Producer(on)
    yield from producer.init()
    yield producer.adding()
    yield producer.describing()
    yield producer.adding()
    yield producer.adding((on.topic, 2), (on.topic, 0), (on.name("other"), 1))
    yield producer.describing()
    yield producer.adding((on.topic, 2), (on.topic, 2))
    yield from producer.end()
    yield producer.adding((on.topic, 1))
    yield producer.describing()


@CASES.case(topics=BOTH)
def nothing(on: Ground) -> Script:
    producer = Producer(on)
    yield from producer.init()
    for topics in ([], [{"name": on.topic, "partitions": []}]):
        if on.version >= BATCHED_SINCE:
            transaction = {
                "transactional_id": producer.transactional_id,
                **producer.who,
                "topics": topics,
            }
            yield on.ask(transactions=[transaction])
        else:
            yield producer.adding(v3_and_below_topics=topics)
        yield producer.describing()


@CASES.case(topics=BOTH)
def by_others(on: Ground) -> Script:
    """Ids and epochs that are not those of the transactional id, before and in a transaction."""
    producer = Producer(on)
    yield producer.adding(producer_id=5_000_000, producer_epoch=0)
    yield from producer.init()
    yield from producer.init()
    for _ in range(2):
        for producer_id in (5_000_000, -1, -7):
            yield producer.adding(producer_id=producer_id)
        for epoch in (0, 2, -1, 32_767, -(2**15)):
            yield producer.adding(producer_epoch=epoch)
        yield producer.adding(transactional_id="")
        yield producer.adding(transactional_id="nobody's")
        yield producer.describing()
        yield producer.adding()


@CASES.case(topics=BOTH)
def what_is_not_there(on: Ground) -> Script:
    producer = Producer(on)
    yield from producer.init()
    missing = on.unused("nobody")
    for places in (
        [(missing, 0)],
        [(on.topic, 0), (missing, 0), (on.name("other"), 0)],
        [(on.topic, 3)],
        [(on.topic, 0), (on.topic, 3), (on.topic, 1)],
        [(on.topic, -1)],
        [("", 0), (on.topic, 0)],
        [("..", 0)],
    ):
        yield producer.adding(*places)
        yield producer.describing()


@CASES.case(topics=BOTH)
def internal_topics(on: Ground) -> Script:
    producer = Producer(on)
    yield from producer.init()
    yield producer.adding(("__consumer_offsets", 0), ("__transaction_state", 1), (on.topic, 1))
    yield producer.describing()


@CASES.case(topics=BOTH)
def after_a_timeout(on: Ground) -> Script:
    producer = Producer(on, timeout_ms=1)
    yield from producer.init()
    yield producer.adding()
    yield from producer.timed_out()
    yield producer.describing()
    yield producer.adding()


# -- several at once ------------------------------------------------------------------------


def transaction(producer: Producer, *places: Any, **more: Any) -> dict[str, Any]:
    """One transaction of a request."""
    topics = [{"name": name, "partitions": [index]} for name, index in places]
    return {"transactional_id": producer.transactional_id, **producer.who, "topics": topics, **more}


@CASES.case(topics=[], since=BATCHED_SINCE)
def no_transactions(on: Ground) -> Script:
    yield on.ask(transactions=[], within_s=NEVER_ANSWERED_S)


@CASES.case(topics=BOTH, since=BATCHED_SINCE)
def several_transactions(on: Ground) -> Script:
    first, second, unknown = (Producer(on, name) for name in ("-1", "-2", "-3"))
    yield from first.init()
    yield from second.init()
    place, other = (on.topic, 0), (on.name("other"), 1)
    yield on.ask(
        transactions=[
            transaction(first, place),
            transaction(second, place, other),
            transaction(unknown, place),
        ]
    )
    yield on.ask(
        transactions=[
            transaction(first, other),
            transaction(second, (on.unused("nobody"), 0), place),
        ]
    )
    yield on.ask(
        transactions=[transaction(first, other), transaction(second, place, producer_epoch=9)]
    )
    yield first.describing(transactional_ids=[first.transactional_id, second.transactional_id])


@CASES.case(topics=BOTH, since=BATCHED_SINCE)
def verification(on: Ground) -> Script:
    producer = Producer(on)
    place, other = (on.topic, 0), (on.name("other"), 1)

    def asking(*places: Any, **more: Any) -> Any:
        return on.ask(transactions=[transaction(producer, *places, verify_only=True, **more)])

    yield asking(place, producer_id=5)
    yield from producer.init()
    yield asking(place)
    yield producer.adding(place)
    yield asking(place)
    yield asking(place, other)
    yield asking(other)
    yield asking()
    yield asking((on.unused("nobody"), 0), place)
    yield asking(place, producer_epoch=9)
    yield asking(place, producer_epoch=-1)
    yield asking(place, producer_id=5_000_000)
    yield asking(place, transactional_id="")
    yield producer.describing()
    yield from producer.end()
    yield asking(place)
    yield producer.describing()


@CASES.case(topics=BOTH, since=BATCHED_SINCE)
def some_verified_and_some_added(on: Ground) -> Script:
    first, second = Producer(on, "-1"), Producer(on, "-2")
    yield from first.init()
    yield from second.init()
    place, other = (on.topic, 0), (on.name("other"), 1)
    yield first.adding(place)
    yield on.ask(
        transactions=[
            transaction(first, place, other, verify_only=True),
            transaction(second, place, other),
        ]
    )
    yield first.describing(transactional_ids=[first.transactional_id, second.transactional_id])
