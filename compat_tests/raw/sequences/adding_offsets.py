"""AddOffsetsToTxn: the partition of a group's offsets becomes part of a transaction."""

from __future__ import annotations

from kavka.compat_tests.raw.case import Cases, Ground, Script
from kavka.compat_tests.raw.transactions import Producer

CASES = Cases("AddOffsetsToTxn")
GROUPS = ("one", "two", "three", "four", "five", "", "ä/ \0?")


@CASES.case(topics=[])
def groups(on: Ground) -> Script:
    """Which partition is whose: the offsets topic has 4."""
    for number, group in enumerate(GROUPS):
        producer = Producer(on, f"-{number}")
        yield from producer.init()
        yield producer.adding_offsets(group_id=group)
        yield producer.describing()


@CASES.case(topics=[])
def again_and_again(on: Ground) -> Script:
    producer = Producer(on)
    yield from producer.init()
    for group in GROUPS[:2] * 2:
        yield producer.adding_offsets(group_id=group)
        yield producer.describing()
    yield from producer.end()
    yield producer.describing()
    yield producer.adding_offsets()
    yield producer.describing()
    yield from producer.end(committed=False)
    yield producer.describing()


@CASES.case(topics=[])
def by_others(on: Ground) -> Script:
    producer = Producer(on)
    yield producer.adding_offsets(producer_id=5_000_000, producer_epoch=0)
    yield from producer.init()
    yield from producer.init()
    for _ in range(2):
        for producer_id in (5_000_000, -1, -7):
            yield producer.adding_offsets(producer_id=producer_id)
        for epoch in (0, 2, -1, 32_767, -(2**15)):
            yield producer.adding_offsets(producer_epoch=epoch)
        yield producer.adding_offsets(transactional_id="")
        yield producer.adding_offsets(transactional_id="nobody's")
        yield producer.describing()
        yield producer.adding_offsets()
