"""TxnOffsetCommit: offsets that count when their transaction commits, and who may commit them."""

from __future__ import annotations

from typing import Any

from kavka.compat_tests.raw.case import Cases, Ground, Script, Topic
from kavka.compat_tests.raw.members import Member, describing, group_of, simple_commit
from kavka.compat_tests.raw.transactions import Producer, offsets

CASES = Cases("TxnOffsetCommit")
MEMBERS_SINCE = 3
T = Topic("t", partitions=2, shared=True)
OTHER = Topic("other", partitions=2, shared=True)


def begun(on: Ground, name: str = "") -> Any:
    """A producer in whose transaction the group's offsets are."""
    producer = Producer(on, name)
    yield from producer.init()
    if not producer.second:
        yield producer.adding_offsets()
    return producer


def seen(on: Ground) -> Script:
    yield offsets(on)
    yield offsets(on, stable=True)


@CASES.case(topics=[T])
def committed_and_aborted(on: Ground) -> Script:
    producer = yield from begun(on)
    yield from seen(on)
    for offset, result in ((3, True), (4, False), (5, True)):
        if not producer.second:
            yield producer.adding_offsets()
        yield producer.committing(offset, offset + 100)
        yield producer.describing()
        yield from seen(on)
        yield from producer.end(committed=result)
        yield from seen(on)
    yield describing(on)


@CASES.case(topics=[T])
def not_added(on: Ground) -> Script:
    """In the second protocol the commit adds the partition itself."""
    producer = Producer(on)
    yield producer.committing(producer_id=5_000_000, producer_epoch=0)
    yield from producer.init()
    yield producer.committing(3)
    yield producer.describing()
    yield from seen(on)
    yield from producer.end()
    yield from seen(on)


@CASES.case(topics=[T])
def several_times(on: Ground) -> Script:
    producer = yield from begun(on)
    yield producer.committing(3)
    yield producer.committing(2)
    yield producer.committing(-1, 7)
    yield from seen(on)
    yield from producer.end()
    yield from seen(on)


@CASES.case(topics=[T])
def beside_a_plain_commit(on: Ground) -> Script:
    """Which of them counts: Apache Kafka goes by where they stand in the log."""
    yield simple_commit(on, on.topic, 1, 1)
    for number, result in enumerate((True, False)):
        producer = yield from begun(on, f"-{number}")
        yield producer.committing(10)
        yield simple_commit(on, on.topic, 20)
        yield from seen(on)
        yield from producer.end(committed=result)
        yield from seen(on)


@CASES.case(topics=[T])
def of_two_producers(on: Ground) -> Script:
    first = yield from begun(on, "-1")
    second = yield from begun(on, "-2")
    yield first.committing(1, 1)
    yield second.committing(2)
    yield from seen(on)
    yield from second.end()
    yield from seen(on)
    yield from first.end()
    yield from seen(on)


@CASES.case(topics=[T])
def by_others(on: Ground) -> Script:
    producer = Producer(on)
    yield from producer.init()
    yield from producer.init()
    for _ in range(2):
        for producer_id in (5_000_000, -1):
            yield producer.committing(producer_id=producer_id)
        for epoch in (0, 2, -1, 32_767):
            yield producer.committing(producer_epoch=epoch)
        yield producer.committing(transactional_id="")
        yield producer.committing(transactional_id="nobody's")
        yield from seen(on)
        yield producer.adding_offsets()
        yield producer.committing(5)
    yield from producer.end()
    yield from seen(on)


@CASES.case(topics=[T])
def after_the_end(on: Ground) -> Script:
    producer = yield from begun(on)
    yield producer.committing(3)
    before = producer.who
    yield from producer.end()
    yield producer.committing(4, **before)
    yield producer.describing()
    heir = Producer(on)
    yield from heir.init()
    yield producer.committing(5)
    yield from seen(on)


@CASES.case(topics=[T, OTHER])
def odd_offsets(on: Ground) -> Script:
    producer = yield from begun(on)
    missing = on.unused("nobody")

    def asking(topic: str, index: int = 0, offset: int = 5, metadata: str | None = "") -> Any:
        partition = {
            "partition_index": index,
            "committed_offset": offset,
            "committed_leader_epoch": 3,
            "committed_metadata": metadata,
        }
        return {"name": topic, "partitions": [partition]}

    for topics in (
        [],
        [asking(on.topic) | {"partitions": []}],
        [asking(missing)],
        [asking(on.topic, 7)],
        [asking(on.topic, -1)],
        [asking(on.topic), asking(missing), asking(on.topic, 9), asking(on.name("other"), 1)],
        [asking(on.topic, metadata="m" * 4096)],
        [asking(on.topic, metadata="m" * 4097), asking(on.topic, 1)],
        [asking(on.topic, metadata=None)],
        [asking(on.topic, offset=-(2**63))],
        [asking(on.topic, offset=1), asking(on.topic, offset=2)],
        [asking("")],
    ):
        yield producer.committing(topics=topics)
    yield from seen(on)
    yield from producer.end()
    yield from seen(on)


@CASES.case(topics=[T])
def an_empty_group(on: Ground) -> Script:
    producer = Producer(on)
    yield from producer.init()
    yield producer.committing(group_id="")


@CASES.case(topics=[T], since=MEMBERS_SINCE)
def members(on: Ground) -> Script:
    """Who commits must be in the group as it is (KIP-447)."""
    (alone,) = yield from group_of(on, 1)
    producer = yield from begun(on)
    member = {"member_id": alone.id, "generation_id": alone.generation}
    yield producer.committing(1, **member)
    yield producer.committing(2)
    yield producer.committing(3, **{**member, "generation_id": alone.generation + 1})
    yield producer.committing(3, **{**member, "generation_id": alone.generation - 1})
    yield producer.committing(3, **{**member, "generation_id": -1})
    yield producer.committing(3, **{**member, "member_id": "somebody"})
    yield producer.committing(3, **{**member, "member_id": ""})
    yield producer.committing(3, **member, group_instance_id="i")
    yield from seen(on)
    yield from producer.end()
    yield from seen(on)


@CASES.case(topics=[T], since=MEMBERS_SINCE)
def members_of_no_group(on: Ground) -> Script:
    producer = yield from begun(on)
    for generation in (-1, 0, 1):
        for member in ("", "somebody"):
            yield producer.committing(1, generation_id=generation, member_id=member)
    yield from producer.end()
    yield from seen(on)


@CASES.case(topics=[T], since=MEMBERS_SINCE)
def members_during_a_rebalance(on: Ground) -> Script:
    (leader,) = yield from group_of(on, 1)
    late = Member(on, "late")
    producer = yield from begun(on)
    yield from late.begin(2)
    yield producer.committing(1, member_id=leader.id, generation_id=leader.generation)
    yield from producer.end()
    yield from seen(on)


@CASES.case(topics=[T], since=MEMBERS_SINCE)
def instances(on: Ground) -> Script:
    static = Member(on, instance="i")
    yield from static.join()
    yield static.syncing({static.id: b"all"})
    producer = yield from begun(on)
    who = {"member_id": static.id, "generation_id": static.generation}
    for instance in ("i", "j", None):
        yield producer.committing(1, **who, group_instance_id=instance)
    yield producer.committing(1, **{**who, "member_id": "other"}, group_instance_id="i")


@CASES.case(topics=[T])
def pending_offsets_hold_a_group(on: Ground) -> Script:
    """Deleting it, and its offsets, while a transaction is open."""
    yield simple_commit(on, on.topic, 1, 1)
    producer = yield from begun(on)
    yield producer.committing(5)
    topic = {"name": on.topic, "partitions": [{"partition_index": index} for index in (0, 1)]}
    yield on.other("OffsetDelete", 0, group_id=on.group, topics=[topic])
    yield from seen(on)
    yield on.other("DeleteGroups", 2, groups_names=[on.group])
    yield from seen(on)
    yield from producer.end()
    yield from seen(on)


@CASES.case(topics=[T])
def after_a_timeout(on: Ground) -> Script:
    producer = Producer(on, timeout_ms=1)
    yield from producer.init()
    yield producer.adding_offsets()
    yield producer.committing(5, compared=False)  # may come before or after
    yield from producer.timed_out()
    yield from seen(on)
    yield producer.committing(6)
    yield from seen(on)
