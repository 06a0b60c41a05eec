"""WriteTxnMarkers: as another broker's coordinator sends them, and as none does."""

from __future__ import annotations

from typing import Any

from kavka.compat_tests.raw.case import NEVER_ANSWERED_S, Cases, Ground, Script, Step, Topic
from kavka.compat_tests.raw.transactions import (
    Producer,
    TopicPartition,
    by_topic,
    offsets,
    producers,
    reading,
)

CASES = Cases("WriteTxnMarkers", transactional=True)
VERSIONS_SINCE = 2
T = Topic(partitions=2)
OTHER = Topic("other")
UNKNOWN_ID = 5_000_000


def marker(
    on: Ground,
    producer_id: int,
    epoch: int,
    *partitions: TopicPartition,
    committed: bool = True,
    coordinator_epoch: int | None = None,
    version: int = 0,
) -> dict[str, Any]:
    """One that the broker's own coordinator could send, if no epoch of it is named."""
    if coordinator_epoch is None:
        coordinator_epoch = max(on.facts.coordinator_epochs)
    topics = [
        {"name": topic["name"], "partition_indexes": topic["partitions"]}
        for topic in by_topic(partitions or [(on.topic, 0)])
    ]
    return {
        "producer_id": producer_id,
        "producer_epoch": epoch,
        "transaction_result": committed,
        "topics": topics,
        "coordinator_epoch": coordinator_epoch,
        "transaction_version": version,
    }


def marking(
    on: Ground, producer_id: int, epoch: int, *partitions: TopicPartition, **more: Any
) -> Step:
    return on.ask(markers=[marker(on, producer_id, epoch, *partitions, **more)])


def seen(on: Ground) -> Script:
    yield reading(on)
    yield producers(on)


@CASES.case(topics=[T])
def of_open_transactions(on: Ground) -> Script:
    for committed in (True, False):
        producer = Producer(on, f"-{committed}")
        yield from producer.init()
        yield from producer.write(b"a")
        yield marking(on, producer.id, producer.epoch, committed=committed)
        yield from seen(on)
        yield producer.describing()
        yield from producer.produce(b"b")
        yield from seen(on)
        yield from producer.end(committed=committed)
        yield from seen(on)


@CASES.case(topics=[T])
def of_an_unknown_producer(on: Ground) -> Script:
    for committed in (True, False):
        yield marking(on, UNKNOWN_ID, 3, committed=committed)
        yield from seen(on)
    yield marking(on, UNKNOWN_ID, 2)
    yield marking(on, UNKNOWN_ID, 4)
    yield from seen(on)


@CASES.case(topics=[T])
def negative_ids_and_epochs(on: Ground) -> Script:
    for producer_id, epoch in ((-1, -1), (UNKNOWN_ID, -1), (-1, 0)):
        yield marking(on, producer_id, epoch)
    yield from seen(on)


@CASES.case(topics=[T])
def epochs(on: Ground) -> Script:
    producer = Producer(on)
    yield from producer.init()
    yield from producer.init()
    yield from producer.write(b"a")
    yield marking(on, producer.id, producer.epoch - 1, committed=False)
    yield from seen(on)
    yield marking(on, producer.id, producer.epoch + 1, committed=False)
    yield from seen(on)
    yield producer.producing(b"b")
    yield producer.ending()  # its marker is refused: for Apache Kafka, this end never comes
    yield from seen(on)


@CASES.case(topics=[T], since=VERSIONS_SINCE)
def epochs_of_the_second_protocol(on: Ground) -> Script:
    """Each marker has a higher epoch than its transaction (KIP-890)."""
    for version in (1, 2, 3):
        producer = Producer(on, f"-{version}", second=True)
        yield from producer.init()
        yield from producer.init()
        yield from producer.write(b"a")
        for epoch in (
            producer.epoch - 1,
            producer.epoch,
            producer.epoch + 1,
            producer.epoch + 1,
            producer.epoch,
        ):
            yield marking(on, producer.id, epoch, version=version)
            yield from seen(on)


@CASES.case(topics=[T])
def coordinators(on: Ground) -> Script:
    for number, epoch in enumerate((5, 4, 5, 6, -1, 2**31 - 1, -(2**31))):
        yield marking(on, UNKNOWN_ID, number, coordinator_epoch=epoch)
        yield from seen(on)


@CASES.case(topics=[T, OTHER])
def places(on: Ground) -> Script:
    missing, other = on.unused("nobody"), (on.name("other"), 0)
    yield marking(on, UNKNOWN_ID, 0, (missing, 0))
    yield marking(on, UNKNOWN_ID, 0, (on.topic, 0), (missing, 0), (on.topic, 7), other)
    yield marking(on, UNKNOWN_ID, 0, ("", 0))
    yield marking(on, UNKNOWN_ID, 0, (on.topic, -1))
    yield on.ask(markers=[marker(on, UNKNOWN_ID, 0) | {"topics": []}])
    yield from seen(on)


@CASES.case(topics=[T])
def the_same_partition_twice(on: Ground) -> Script:
    twice = marker(on, UNKNOWN_ID, 0, (on.topic, 0), (on.topic, 0))
    yield on.ask(markers=[twice], within_s=NEVER_ANSWERED_S)


@CASES.case(topics=[T])
def one_of_several_is_nowhere(on: Ground) -> Script:
    """All partitions of a marker that is not the only one are unknown."""
    nowhere = marker(on, UNKNOWN_ID + 2, 0, (on.unused("nobody"), 0))
    yield on.ask(markers=[marker(on, UNKNOWN_ID, 0), nowhere], within_s=NEVER_ANSWERED_S)


@CASES.case(topics=[T, OTHER])
def several(on: Ground) -> Script:
    other, missing = (on.name("other"), 0), (on.unused("nobody"), 0)
    yield on.ask(markers=[])
    yield on.ask(
        markers=[
            marker(on, UNKNOWN_ID, 0),
            marker(on, UNKNOWN_ID + 1, 0, other, (on.topic, 1)),
        ]
    )
    yield on.ask(markers=[marker(on, UNKNOWN_ID, 0), marker(on, UNKNOWN_ID, 1, other)])
    yield on.ask(
        markers=[marker(on, UNKNOWN_ID, 2, missing), marker(on, UNKNOWN_ID + 2, 3, missing)]
    )
    yield from seen(on)


@CASES.case(topics=[T])
def of_offsets(on: Ground) -> Script:
    for committed in (True, False):
        producer = Producer(on, f"-{committed}")
        yield from producer.init()
        yield from producer.init()
        yield producer.adding_offsets()
        described = yield producer.describing()
        (topic,) = described["transaction_states"][0]["topics"]
        place = topic["topic"], topic["partitions"][0]
        yield producer.committing(7, 8)
        yield offsets(on)
        yield offsets(on, stable=True)
        yield marking(on, producer.id, producer.epoch - 1, place, committed=committed)
        yield offsets(on, stable=True)
        yield marking(on, producer.id, producer.epoch, place, committed=committed)
        yield offsets(on)
        yield offsets(on, stable=True)
