"""OffsetFetch: of groups, topics and partitions that are there and that are not."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from kavka.compat_tests.raw.case import Cases, Ground, Script, Step, Topic
from kavka.compat_tests.raw.members import Member, group_of, simple_commit

CASES = Cases("OffsetFetch")
CASES.first = 1  # version 0 is of offsets in the tree: see `cases`
ALL_SINCE = 2
STABLE_SINCE = 7
GROUPS_SINCE = 8
MEMBERS_SINCE = 9
IDS_SINCE = 10
NO_ID = UUID(int=0)
T = Topic("t", partitions=3, shared=True)
OTHER = Topic("other", partitions=2, shared=True)


def named(on: Ground, name: str, *indexes: int) -> dict[str, Any]:
    """One topic of a request."""
    topic_id = on.facts.ids.get(name, UUID(int=77))
    return {"name": name, "topic_id": topic_id, "partition_indexes": list(indexes)}


def fetching(
    on: Ground, topics: list[dict[str, Any]] | None, *, group: str | None = None, **more: Any
) -> Step:
    """A request for one group, in the form of its version."""
    name = on.group if group is None else group
    if on.version >= GROUPS_SINCE:
        member = {key: more.pop(key) for key in ("member_id", "member_epoch") if key in more}
        return on.ask(groups=[{"group_id": name, "topics": topics, **member}], **more)
    return on.ask(group_id=name, topics=topics, **more)


@CASES.case(topics=[T])
def no_such_group(on: Ground) -> Script:
    yield fetching(on, [named(on, on.topic, 0, 1)])
    yield fetching(on, [])
    yield fetching(on, [named(on, on.topic)])


@CASES.case(topics=[T], since=ALL_SINCE)
def all_of_no_such_group(on: Ground) -> Script:
    yield fetching(on, None)


@CASES.case(topics=[T, OTHER])
def some_and_others(on: Ground) -> Script:
    yield simple_commit(on, on.topic, 3, 4)
    yield fetching(on, [named(on, on.topic, 0, 1, 2, 7, -1)])
    yield fetching(on, [named(on, on.topic, 1), named(on, on.name("other"), 0)])
    yield fetching(on, [named(on, on.topic, 0, 0)])
    yield fetching(on, [named(on, on.topic, 0), named(on, on.topic, 1)])
    yield fetching(on, [])


@CASES.case(topics=[T])
def topics_that_are_not_there(on: Ground) -> Script:
    yield simple_commit(on, on.topic, 3, 4)
    yield fetching(on, [named(on, on.unused("nobody"), 0), named(on, on.topic, 0)])
    yield fetching(on, [named(on, "", 0)])


@CASES.case(topics=[T, OTHER], since=ALL_SINCE)
def all_there_are(on: Ground) -> Script:
    yield simple_commit(on, on.topic, 3, 4)
    yield simple_commit(on, on.name("other"), 5)
    yield fetching(on, None)


@CASES.case(topics=[T])
def an_empty_group_id(on: Ground) -> Script:
    yield fetching(on, [named(on, on.topic, 0)], group="")


@CASES.case(topics=[T], since=STABLE_SINCE)
def only_what_is_stable(on: Ground) -> Script:
    yield simple_commit(on, on.topic, 3)
    yield fetching(on, [named(on, on.topic, 0, 1)], require_stable=True)
    yield fetching(on, None, require_stable=True)


@CASES.case(topics=[T], since=GROUPS_SINCE)
def several_groups(on: Ground) -> Script:
    yield simple_commit(on, on.topic, 3)
    yield simple_commit(on, on.topic, 4, group_id=f"{on.group}-2")
    first = {"group_id": on.group, "topics": [named(on, on.topic, 0, 1)]}
    second = {"group_id": f"{on.group}-2", "topics": None}
    third = {"group_id": f"{on.group}-3", "topics": None}
    yield on.ask(groups=[first, second, third])
    yield on.ask(groups=[second, first, {**first, "topics": None}])
    yield on.ask(groups=[first, {"group_id": "", "topics": []}])
    yield on.ask(groups=[])


@CASES.case(topics=[T], since=MEMBERS_SINCE)
def members_of_classic_groups(on: Ground) -> Script:
    """Nothing is asked of them: that began with the protocol of KIP-848."""
    (alone,) = yield from group_of(on, 1)
    yield alone.committing(on.topic)
    for member, epoch in (
        (alone.id, 1),
        (alone.id, 7),
        ("somebody", 1),
        ("", 0),
        (None, -1),
        (None, 1),
        (alone.id, -1),
    ):
        yield fetching(on, [named(on, on.topic, 0)], member_id=member, member_epoch=epoch)


@CASES.case(topics=[T], since=MEMBERS_SINCE)
def members_of_no_group(on: Ground) -> Script:
    for member, epoch in (("somebody", 1), ("", 0), (None, -1), (None, 0)):
        yield fetching(on, [named(on, on.topic, 0)], member_id=member, member_epoch=epoch)


@CASES.case(topics=[T], since=IDS_SINCE)
def topics_by_id(on: Ground) -> Script:
    yield simple_commit(on, on.topic, 3)
    for topic_id in (on.topic_id, UUID(int=77), NO_ID):
        yield fetching(on, [{**named(on, on.topic, 0), "topic_id": topic_id}])
    yield fetching(on, None)


@CASES.case(topics=[T])
def during_a_rebalance(on: Ground) -> Script:
    (alone,) = yield from group_of(on, 1)
    yield alone.committing(on.topic)
    late = Member(on, "late")
    yield from late.begin(2)
    yield fetching(on, [named(on, on.topic, 0)])


@CASES.case(topics=[T])
def after_all_have_left(on: Ground) -> Script:
    (alone,) = yield from group_of(on, 1)
    yield alone.committing(on.topic)
    yield alone.leaving()
    yield fetching(on, [named(on, on.topic, 0)])
