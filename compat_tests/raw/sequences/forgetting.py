"""OffsetDelete: only of topics without a subscriber (KIP-496)."""

from __future__ import annotations

from typing import Any

from kavka.compat_tests.raw.case import Cases, Ground, Script, Step, Topic
from kavka.compat_tests.raw.consumer_members import ConsumerMember
from kavka.compat_tests.raw.members import Member, group_of, offsets_of, simple_commit, subscription

CASES = Cases("OffsetDelete")
T = Topic("t", partitions=2, shared=True)
OTHER = Topic("other", partitions=2, shared=True)


def deleting(on: Ground, *topics: str, indexes: tuple[int, ...] = (0, 1), **more: Any) -> Step:
    partitions = [{"partition_index": index} for index in indexes]
    requested = [{"name": name, "partitions": partitions} for name in topics]
    return on.ask(**{"group_id": on.group, "topics": requested, **more})


def both_committed(on: Ground) -> Script:
    yield simple_commit(on, on.topic, 1, 2)
    yield simple_commit(on, on.name("other"), 3)


@CASES.case(topics=[T, OTHER])
def outside_of_a_group(on: Ground) -> Script:
    yield deleting(on, on.topic)
    yield from both_committed(on)
    yield deleting(on, on.topic, indexes=(0, 7, -1))
    yield offsets_of(on)
    yield deleting(on, on.unused("nobody"), on.name("other"))
    yield offsets_of(on)
    yield deleting(on)
    yield deleting(on, on.topic, indexes=())
    yield deleting(on, on.topic, indexes=(1, 1))
    yield offsets_of(on)


@CASES.case(topics=[T, OTHER])
def with_members(on: Ground) -> Script:
    yield from both_committed(on)
    (alone,) = yield from group_of(on, 1, metadata=subscription(on.topic))
    yield deleting(on, on.topic, on.name("other"))
    yield offsets_of(on)
    yield alone.leaving()
    yield deleting(on, on.topic)
    yield offsets_of(on)


@CASES.case(topics=[T, OTHER])
def during_a_rebalance(on: Ground) -> Script:
    yield from both_committed(on)
    yield from group_of(on, 1, metadata=subscription(on.topic))
    late = Member(on, "late", metadata=subscription(on.name("other")))
    yield from late.begin(2)
    yield deleting(on, on.topic, on.name("other"))


@CASES.case(topics=[T, OTHER])
def in_groups_of_other_kinds(on: Ground) -> Script:
    yield from both_committed(on)
    (alone,) = yield from group_of(on, 1, kind="connect", protocols=["default"])
    yield deleting(on, on.topic)
    yield alone.leaving()
    yield deleting(on, on.topic)
    yield offsets_of(on)


@CASES.case(topics=[T, OTHER])
def in_a_group_of_the_new_protocol(on: Ground) -> Script:
    yield from both_committed(on)
    member = ConsumerMember(on, topics=[on.topic])
    yield from member.join()
    yield deleting(on, on.topic, on.name("other"))
    yield offsets_of(on)
    yield member.leaving()
    yield deleting(on, on.topic)
    yield offsets_of(on)


@CASES.case(topics=[T])
def an_empty_group_id(on: Ground) -> Script:
    yield deleting(on, on.topic, group_id="")
