"""EndTxn: in every state, by whom, and again; in both protocols, as version 5 is of the second."""

from __future__ import annotations

from typing import Any

from kavka.compat_tests.raw.case import Cases, Ground, Script, Topic
from kavka.compat_tests.raw.transactions import Producer, producers, reading

CASES = Cases("EndTxn")
T = Topic(partitions=2)
SHARED = Topic("shared", partitions=2, shared=True)
RESULTS = (True, False)


@CASES.case(topics=[T])
def one_after_the_other(on: Ground) -> Script:
    producer = Producer(on)
    yield from producer.init()
    for number, committed in enumerate((True, False, False, True, True)):
        yield from producer.write(b"%d" % number)
        yield from producer.write(b"more", partition=(on.topic, 1))
        yield producers(on)
        yield producer.describing()
        yield from producer.end(committed=committed)
        yield producer.describing()
    yield producers(on)
    yield reading(on, (on.topic, 0), (on.topic, 1))
    yield reading(on, isolation=0)


@CASES.case(topics=[SHARED])
def nothing_was_begun(on: Ground) -> Script:
    for committed in RESULTS:
        producer = Producer(on, f"-{committed}")
        yield producer.ending(committed=committed, producer_id=5_000_000, producer_epoch=0)
        yield from producer.init()
        yield from producer.end(committed=committed)
        yield producer.describing()
        yield from producer.end(committed=not committed)
        yield producer.describing()
        yield from producer.end(committed=committed)
        yield producer.describing()


@CASES.case(topics=[SHARED])
def in_every_state_again(on: Ground) -> Script:
    """With the epoch of before (a retry), with that of now, and with others."""
    for first in RESULTS:
        for then in RESULTS:
            producer = Producer(on, f"-{first}-{then}")
            yield from producer.init()
            yield from producer.write()
            before = producer.epoch
            yield from producer.end(committed=first)
            for epoch in (before, before - 1, before + 2, producer.epoch):
                yield producer.ending(committed=then, producer_epoch=epoch)
                yield from producer.await_end()
                yield producer.describing()


@CASES.case(topics=[T])
def without_records(on: Ground) -> Script:
    """Partitions were added, and nothing was written to them."""
    for committed in RESULTS:
        producer = Producer(on, f"-{committed}")
        yield from producer.init()
        yield producer.adding((on.topic, 0), (on.topic, 1))
        yield from producer.end(committed=committed)
        yield producer.describing()
        yield producers(on, (on.topic, 1))


@CASES.case(topics=[SHARED])
def by_others(on: Ground) -> Script:
    producer = Producer(on)
    yield from producer.init()
    yield from producer.init()
    yield from producer.write()
    for committed in RESULTS:
        for producer_id in (5_000_000, -1):
            yield producer.ending(committed=committed, producer_id=producer_id)
        for epoch in (0, 2, -1, 32_767, -(2**15)):
            yield producer.ending(committed=committed, producer_epoch=epoch)
        yield producer.ending(committed=committed, transactional_id="")
        yield producer.ending(committed=committed, transactional_id="nobody's")
    yield producer.describing()


@CASES.case(topics=[SHARED])
def after_a_timeout(on: Ground) -> Script:
    for committed in RESULTS:
        producer = Producer(on, f"-{committed}", timeout_ms=1)
        yield from producer.init()
        yield producer.adding()
        yield from producer.timed_out()
        yield producer.describing()
        yield producer.ending(committed=committed)
        yield producer.ending(committed=committed, producer_epoch=producer.epoch + 1)
        yield from producer.await_end()
        yield producer.describing()
        yield from producer.init()
        yield producer.describing()


@CASES.case(topics=[T])
def after_a_timeout_with_records(on: Ground) -> Script:
    producer = Producer(on, timeout_ms=1)
    yield from producer.init()
    yield producer.adding()
    yield producer.producing(compared=False)  # may come before or after
    yield from producer.timed_out()
    yield producer.producing()
    yield producer.ending()
    yield from producer.init()
    yield producer.describing()


@CASES.case(topics=[Topic(partitions=2), Topic("other")])
def a_topic_was_deleted(on: Ground) -> Script:
    producer = Producer(on)
    yield from producer.init()
    yield from producer.write(partition=(on.topic, 0))
    yield from producer.write(partition=(on.name("other"), 0))
    yield on.other("DeleteTopics", 5, topic_names=[on.topic], timeout_ms=30_000)
    gone: dict[str, Any] = {
        "topics": [{"name": on.topic, "topic_id": None}],
        "allow_auto_topic_creation": False,
    }
    yield on.other(
        "Metadata",
        9,
        compared=False,
        again=lambda answer: answer["topics"][0]["error_code"] != 3,
        **gone,
    )
    yield from producer.end()
    yield producer.describing()
    yield reading(on, (on.name("other"), 0))


@CASES.case(topics=[T])
def two_producers(on: Ground) -> Script:
    first, second = Producer(on, "-1"), Producer(on, "-2", link="2")
    yield from first.init()
    yield from second.init()
    yield from first.write(b"a")
    yield from second.write(b"b")
    yield reading(on)
    yield from second.end()
    yield reading(on)
    yield from first.write(b"c")
    yield from first.end(committed=False)
    yield reading(on)
    yield from second.write(b"d")
    yield reading(on)
    yield from second.end(committed=False)
    yield reading(on)
    yield producers(on)
