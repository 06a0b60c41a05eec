"""Heartbeat: in each state of a group."""

from __future__ import annotations

from typing import Any

from kavka.compat_tests.raw.case import Cases, Function, Ground, Script
from kavka.compat_tests.raw.members import Member, describing, group_of, simple_commit

CASES = Cases("Heartbeat")
FIRST_STATIC = 3


def in_no_group(**more: Any) -> Function:
    def script(on: Ground) -> Script:
        yield Member(on).heartbeat(**more)

    return script


CASES.add("no such group", in_no_group(member_id="somebody", generation_id=1), topics=[])
CASES.add("no such group, and no member id", in_no_group(), topics=[])
CASES.add("an empty group id", in_no_group(group_id=""), topics=[])


def wrongly(member: Member) -> Script:
    """Right and wrong ones."""
    yield member.heartbeat()
    yield member.heartbeat(generation_id=0)
    yield member.heartbeat(generation_id=member.generation + 1)
    yield member.heartbeat(generation_id=-1)
    yield member.heartbeat(member_id="somebody")
    yield member.heartbeat(member_id="")
    yield member.heartbeat(member_id="", generation_id=-1)


@CASES.case(topics=[])
def before_the_assignment(on: Ground) -> Script:
    (alone,) = yield from group_of(on, 1, synced=False)
    yield from wrongly(alone)


@CASES.case(topics=[])
def in_a_stable_group(on: Ground) -> Script:
    (alone,) = yield from group_of(on, 1)
    yield from wrongly(alone)


@CASES.case(topics=[])
def during_a_rebalance(on: Ground) -> Script:
    older = yield from group_of(on, 2)
    late = Member(on, "late")
    yield from late.begin(3)
    yield from wrongly(older[0])
    yield from wrongly(older[1])
    yield Member(on, "other").heartbeat(member_id=late.id or "nobody", generation_id=0)


@CASES.case(topics=[])
def in_a_group_without_members(on: Ground) -> Script:
    (alone,) = yield from group_of(on, 1)
    yield alone.leaving()
    yield from wrongly(alone)
    yield describing(on)


@CASES.case()
def in_a_group_that_has_offsets_only(on: Ground) -> Script:
    yield simple_commit(on, on.topic, 7)
    yield Member(on).heartbeat()
    yield Member(on).heartbeat(member_id="somebody", generation_id=0)


@CASES.case(topics=[])
def in_a_group_that_was_deleted(on: Ground) -> Script:
    (alone,) = yield from group_of(on, 1)
    yield alone.leaving()
    yield on.other("DeleteGroups", 2, groups_names=[on.group])
    yield from wrongly(alone)


@CASES.case(since=FIRST_STATIC, topics=[])
def instances(on: Ground) -> Script:
    static = Member(on, instance="i")
    yield from static.join()
    for _ in range(2):
        yield from wrongly(static)
        yield static.heartbeat(group_instance_id="j")
        yield static.heartbeat(group_instance_id="")
        yield static.heartbeat(group_instance_id=None)
        yield static.syncing({static.id: b"all"})
