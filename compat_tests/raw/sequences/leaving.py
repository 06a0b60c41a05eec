"""LeaveGroup: one member or several, by id or by instance (KIP-345), and what follows."""

from __future__ import annotations

from typing import Any

from kavka.compat_tests.raw.case import Cases, Function, Ground, Script, Step
from kavka.compat_tests.raw.members import (
    EMPTY,
    PREPARING,
    Member,
    ask,
    describing,
    group_of,
    simple_commit,
    until,
)

CASES = Cases("LeaveGroup")
FIRST_BATCHED = 3
WITH_IDS_FIRST = 4


def identity(member_id: str = "", instance: str | None = None) -> dict[str, Any]:
    return {"member_id": member_id, "group_instance_id": instance, "reason": "why not"}


def batch(on: Ground, *members: dict[str, Any]) -> Step:
    return ask(on, "LeaveGroup", group_id=on.group, members=list(members))


def of_no_group(**more: Any) -> Function:
    def script(on: Ground) -> Script:
        yield Member(on).leaving(**more)

    return script


CASES.add(
    "no such group", of_no_group(member_id="somebody", members=[identity("somebody")]), topics=[]
)
CASES.add("no such group, and no member id", of_no_group(), topics=[])
CASES.add("no such group, and no members", of_no_group(members=[]), topics=[])
CASES.add("an empty group id", of_no_group(group_id=""), topics=[])


@CASES.case(topics=[])
def an_unknown_member(on: Ground) -> Script:
    yield from group_of(on, 1)
    yield Member(on).leaving(member_id="somebody", members=[identity("somebody")])
    yield Member(on).leaving()
    yield describing(on)


@CASES.case(topics=[])
def twice(on: Ground) -> Script:
    (alone,) = yield from group_of(on, 1)
    yield alone.leaving()
    yield alone.leaving()
    yield alone.heartbeat()
    yield describing(on)


@CASES.case(topics=[])
def before_the_assignment(on: Ground) -> Script:
    leader, follower = yield from group_of(on, 2, synced=False)
    yield leader.leaving()
    yield from until(on, PREPARING, 1)
    yield follower.heartbeat()
    yield from follower.join()


@CASES.case(topics=[])
def a_follower(on: Ground) -> Script:
    leader, follower = yield from group_of(on, 2)
    yield follower.leaving()
    yield leader.heartbeat()
    yield from leader.join()
    yield describing(on)


@CASES.case(topics=[])
def the_one_that_was_waited_for(on: Ground) -> Script:
    """Without it the others have all they need."""
    (lost,) = yield from group_of(on, 1)
    kept = Member(on, "2")
    yield from kept.begin(2)
    yield lost.leaving()
    yield from kept.end()
    yield describing(on)


@CASES.case(topics=[])
def one_that_waits(on: Ground) -> Script:
    """Its own JoinGroup is answered as well."""
    (kept,) = yield from group_of(on, 1)
    waiting = Member(on, "2")
    yield from waiting.begin(2)
    other = Member(on, "3")
    other.id = waiting.id
    yield other.leaving()
    yield from waiting.end()
    yield kept.heartbeat()


@CASES.case()
def a_group_that_has_offsets_only(on: Ground) -> Script:
    yield simple_commit(on, on.topic, 7)
    yield Member(on).leaving(member_id="somebody", members=[identity("somebody")])
    yield describing(on)


@CASES.case(since=FIRST_BATCHED, topics=[])
def several_at_once(on: Ground) -> Script:
    first, second, third = yield from group_of(on, 3)
    yield batch(
        on, identity(second.id), identity("somebody"), identity(third.id), identity(second.id)
    )
    yield first.heartbeat()
    yield batch(on, identity(first.id), identity(""))
    yield describing(on)


@CASES.case(since=FIRST_BATCHED, topics=[])
def none_of_the_members(on: Ground) -> Script:
    yield from group_of(on, 1)
    yield batch(on)
    yield describing(on)


@CASES.case(since=FIRST_BATCHED, topics=[])
def instances(on: Ground) -> Script:
    static = Member(on, instance="i")
    yield from static.join()
    yield batch(
        on,
        identity("", "j"),
        identity("somebody", "i"),
        identity("somebody", "j"),
        identity("", ""),
    )
    yield batch(on, identity(static.id, "j"))
    yield describing(on)
    yield batch(on, identity("", "i"))
    yield static.heartbeat()
    yield describing(on)
    again = Member(on, "2", instance="i")
    yield from again.join()
    yield batch(on, identity(again.id))
    yield describing(on)


@CASES.case(since=FIRST_BATCHED, topics=[])
def instances_and_others(on: Ground) -> Script:
    static = Member(on, "1", instance="i")
    yield from static.join()
    dynamic = Member(on, "2")
    yield from dynamic.begin(2)
    yield from static.join()
    yield from dynamic.end()
    yield batch(on, identity(dynamic.id, "i"), identity(static.id), identity(dynamic.id))
    yield describing(on)


@CASES.case(since=WITH_IDS_FIRST, topics=[])
def an_id_that_is_not_used_yet(on: Ground) -> Script:
    pending = Member(on)
    answer = yield pending.joining()
    pending.id = answer["member_id"]
    yield pending.leaving()
    yield pending.joining()
    yield from until(on, EMPTY, 0)
    yield describing(on)
