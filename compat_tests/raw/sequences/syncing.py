"""SyncGroup: in each state of a group, and what a leader may give."""

from __future__ import annotations

from typing import Any

from kavka.compat_tests.raw.case import Cases, Function, Ground, Script
from kavka.compat_tests.raw.members import (
    COMPLETING,
    PREPARING,
    SOON_MS,
    STABLE,
    Member,
    describing,
    group_of,
    simple_commit,
    until,
)

CASES = Cases("SyncGroup")
FIRST_STATIC = 3
FIRST_WITH_PROTOCOL = 5
SLOW = CASES.last
"""The version of scripts that wait for some time to pass; versions differ in nothing there."""


def in_no_group(**more: Any) -> Function:
    def script(on: Ground) -> Script:
        yield Member(on).syncing(**more)

    return script


CASES.add("no such group", in_no_group(member_id="somebody", generation_id=1), topics=[])
CASES.add("no such group, and no member id", in_no_group(), topics=[])
CASES.add("an empty group id", in_no_group(group_id=""), topics=[])


@CASES.case(topics=[])
def wrong_fields(on: Ground) -> Script:
    """One after another, before the assignment and after it."""
    (alone,) = yield from group_of(on, 1, synced=False)
    for _ in range(2):
        yield alone.syncing(generation_id=0)
        yield alone.syncing(generation_id=2)
        yield alone.syncing(generation_id=-1)
        yield alone.syncing(member_id="somebody")
        yield alone.syncing(member_id="")
        yield alone.syncing(member_id="somebody", generation_id=9)
        yield alone.syncing({alone.id: b"all"})
    yield describing(on)


@CASES.case(since=FIRST_WITH_PROTOCOL, topics=[])
def wrong_protocols(on: Ground) -> Script:
    """KIP-559: clients say which protocol they believe in."""
    (alone,) = yield from group_of(on, 1, synced=False)
    for _ in range(2):
        yield alone.syncing(protocol_type="connect")
        yield alone.syncing(protocol_name="roundrobin")
        yield alone.syncing(protocol_type="", protocol_name="")
        yield alone.syncing(protocol_type="connect", generation_id=7)
        yield alone.syncing(protocol_type=None)
        yield alone.syncing(protocol_name=None)
        yield alone.syncing(protocol_type=None, protocol_name=None)


@CASES.case(topics=[])
def a_follower_waits_for_the_leader(on: Ground) -> Script:
    leader, follower = yield from group_of(on, 2, synced=False)
    yield follower.syncing(later=True)
    yield leader.syncing({leader.id: b"one", follower.id: b"two"})
    yield on.answered(follower.link)
    yield follower.syncing()
    yield leader.syncing({leader.id: b"something else"})
    yield describing(on)


@CASES.case(topics=[])
def assignments_for_some_and_for_others(on: Ground) -> Script:
    leader, follower = yield from group_of(on, 2, synced=False)
    yield leader.syncing({leader.id: b"one", "somebody": b"two"})
    yield follower.syncing()
    yield describing(on)


@CASES.case(topics=[])
def no_assignments_at_all(on: Ground) -> Script:
    leader, follower = yield from group_of(on, 2, synced=False)
    yield leader.syncing()
    yield follower.syncing()
    yield describing(on)


@CASES.case(topics=[])
def a_follower_that_gives_assignments(on: Ground) -> Script:
    """They are the leader's to give."""
    leader, follower = yield from group_of(on, 2, synced=False)
    yield follower.syncing({leader.id: b"mine", follower.id: b"mine"}, later=True)
    yield leader.syncing({leader.id: b"one", follower.id: b"two"})
    yield on.answered(follower.link)


@CASES.case(topics=[])
def during_a_rebalance(on: Ground) -> Script:
    leader, _ = yield from group_of(on, 2)
    late = Member(on, "late")
    yield from late.begin(3)
    yield leader.syncing({leader.id: b"all"})
    yield leader.syncing(generation_id=1)
    yield leader.syncing(member_id="somebody")
    yield Member(on, "other").syncing(member_id=late.id, generation_id=2)


@CASES.case(topics=[])
def one_that_waits_is_answered_at_a_rebalance(on: Ground) -> Script:
    _, follower = yield from group_of(on, 2, synced=False)
    yield follower.syncing(later=True)
    late = Member(on, "late")
    yield from late.begin(3)
    yield on.answered(follower.link)
    yield follower.heartbeat()


@CASES.case(topics=[])
def one_that_waits_hears_that_the_leader_leaves(on: Ground) -> Script:
    leader, follower = yield from group_of(on, 2, synced=False)
    yield follower.syncing(later=True)
    yield leader.leaving()
    yield on.answered(follower.link)
    yield from until(on, PREPARING, 1)
    yield from follower.join()
    yield describing(on)


@CASES.case(topics=[])
def a_group_without_members(on: Ground) -> Script:
    (alone,) = yield from group_of(on, 1)
    yield alone.leaving()
    yield alone.syncing()


@CASES.case()
def a_group_that_has_offsets_only(on: Ground) -> Script:
    yield simple_commit(on, on.topic, 7)
    yield Member(on).syncing()
    yield Member(on).syncing(member_id="somebody", generation_id=0)


@CASES.case(since=SLOW, topics=[])
def a_leader_that_gives_none_in_time(on: Ground) -> Script:
    """After the rebalance timeout those who have not synced are removed."""
    leader, follower = yield from group_of(on, 2, synced=False, rebalance_ms=SOON_MS)
    yield from until(on, COMPLETING, 2)
    yield follower.syncing(later=True)
    yield on.answered(follower.link)
    yield leader.heartbeat()


@CASES.case(since=SLOW, topics=[])
def a_follower_that_does_not_sync_in_time(on: Ground) -> Script:
    leader, follower = yield from group_of(on, 2, synced=False, rebalance_ms=SOON_MS)
    yield leader.syncing({leader.id: b"one", follower.id: b"two"})
    yield from until(on, PREPARING, 1)
    yield follower.heartbeat()
    yield leader.heartbeat()


@CASES.case(since=FIRST_STATIC, topics=[])
def instances(on: Ground) -> Script:
    static = Member(on, instance="i")
    yield from static.join()
    yield static.syncing(member_id="somebody")
    yield static.syncing(group_instance_id="j")
    yield static.syncing(group_instance_id="j", member_id="")
    yield static.syncing(member_id="")
    yield static.syncing({static.id: b"all"}, group_instance_id=None)
    yield from until(on, STABLE, 1)
    yield static.syncing()
