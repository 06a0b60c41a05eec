"""JoinGroup and its kin in groups of the newer protocol, and the other way round (KIP-848)."""

from __future__ import annotations

from kavka.compat_tests.raw.case import Cases, Ground, Script, Topic
from kavka.compat_tests.raw.consumer_members import ConsumerMember, consumer_group
from kavka.compat_tests.raw.members import (
    Member,
    assignment,
    describing,
    group_of,
    offsets_of,
    simple_commit,
    subscription,
)

CASES = Cases("JoinGroup")
SINCE = 9
T = Topic("t", partitions=2, shared=True)


@CASES.case(since=SINCE, topics=[T])
def a_classic_member_joins_a_new_group(on: Ground) -> Script:
    new = ConsumerMember(on, "1")
    yield from new.join()
    yield from new.own()
    old = Member(on, "2", metadata=subscription(on.topic))
    yield from old.join()
    yield old.heartbeat()
    yield from new.heartbeat()
    yield from new.own()
    yield old.syncing()
    yield old.heartbeat()
    yield consumer_group(on)
    yield describing(on)
    yield old.committing(on.topic)
    yield old.leaving()
    yield consumer_group(on)


@CASES.case(since=SINCE, topics=[T])
def classic_members_that_a_new_group_refuses(on: Ground) -> Script:
    new = ConsumerMember(on, "1")
    yield from new.join()
    yield from Member(on, "2", kind="connect", metadata=subscription(on.topic)).join()
    yield from Member(on, "3", protocols=[]).join()
    yield from Member(on, "4", kind="").join()
    yield from Member(on, "5", metadata=b"").join()
    yield from Member(on, "6", metadata=b"\x7f").join()
    yield Member(on, "7").joining(member_id="somebody")
    yield Member(on, "8").joining(member_id="member-1")
    yield consumer_group(on)


@CASES.case(since=SINCE, topics=[T])
def classic_requests_of_a_new_member(on: Ground) -> Script:
    new = ConsumerMember(on, "1")
    yield from new.join()
    alike = Member(on, "2")
    alike.id, alike.generation = new.id, new.epoch
    yield alike.heartbeat()
    yield alike.syncing()
    yield alike.leaving()
    yield alike.heartbeat(member_id="somebody")
    yield alike.syncing(member_id="somebody")
    yield alike.leaving(members=[{"member_id": "somebody"}])
    yield consumer_group(on)


@CASES.case(since=SINCE, topics=[T])
def a_new_member_joins_a_classic_group(on: Ground) -> Script:
    old = Member(on, "1", metadata=subscription(on.topic))
    yield from old.join()
    yield old.syncing({old.id: assignment({on.topic: [0, 1]})})
    yield old.committing(on.topic)
    new = ConsumerMember(on, "2")
    yield from new.join()
    yield consumer_group(on)
    yield old.heartbeat()
    yield from old.join()
    yield old.syncing()
    yield from new.heartbeat()
    yield from new.own()
    yield consumer_group(on)
    yield offsets_of(on)
    yield new.leaving()
    yield describing(on)
    yield consumer_group(on)
    yield old.heartbeat()
    yield from old.join()
    yield old.heartbeat()


@CASES.case(since=SINCE, topics=[T])
def a_new_member_and_classic_groups_of_other_kinds(on: Ground) -> Script:
    old = Member(on, "1", kind="connect", protocols=["default"])
    yield from old.join()
    new = ConsumerMember(on, "2")
    yield new.joining()
    yield describing(on)
    yield old.leaving()
    yield from new.join()
    yield consumer_group(on)


@CASES.case(since=SINCE, topics=[T])
def a_new_member_and_a_classic_group_that_rebalances(on: Ground) -> Script:
    (old,) = yield from group_of(on, 1, synced=False, metadata=subscription(on.topic))
    yield old.syncing({old.id: assignment({on.topic: [0, 1]})})
    late = Member(on, "late", metadata=subscription(on.topic))
    yield from late.begin(2)
    new = ConsumerMember(on, "2")
    yield from new.join()
    yield from late.end()
    yield describing(on)


@CASES.case(since=SINCE, topics=[T])
def a_new_member_and_a_group_that_has_offsets_only(on: Ground) -> Script:
    yield simple_commit(on, on.topic, 7)
    new = ConsumerMember(on)
    yield from new.join()
    yield offsets_of(on)
    yield consumer_group(on)


@CASES.case(since=SINCE, topics=[T])
def a_classic_member_and_an_empty_new_group(on: Ground) -> Script:
    new = ConsumerMember(on, "1")
    yield from new.join()
    yield new.leaving()
    yield consumer_group(on)
    yield from Member(on, "2").join()
    yield describing(on)
    yield consumer_group(on)
