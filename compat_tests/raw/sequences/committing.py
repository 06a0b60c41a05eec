"""OffsetCommit: who may commit when, and what."""

from __future__ import annotations

from uuid import UUID

from kavka.compat_tests.raw.case import Cases, Ground, Script, Topic
from kavka.compat_tests.raw.members import (
    Member,
    committed,
    describing,
    group_of,
    offsets_of,
    simple_commit,
)

CASES = Cases("OffsetCommit")
CASES.first = 1  # version 0 is of offsets in the tree: see `cases`
FIRST_MEMBERS = 1
NEW_SINCE = 2
"""What 4.3.1 serves: the older coordinator answers what is named twice once."""
FIRST_STATIC = 7
FIRST_BY_ID = 10
METADATA_MAX_BYTES = 4096
T = Topic("t", partitions=2, shared=True)
OTHER = Topic("other", partitions=2, shared=True)


@CASES.case(topics=[T])
def outside_of_a_group(on: Ground) -> Script:
    yield offsets_of(on)
    yield simple_commit(on, on.topic, 3, 2**40)
    yield offsets_of(on)
    yield describing(on)
    yield simple_commit(on, on.topic, 0)
    yield offsets_of(on, on.topic)


ODD_OFFSETS = (-1, -2, -(2**63), 2**63 - 1)


@CASES.case(topics=[T])
def odd_offsets(on: Ground) -> Script:
    for offset in ODD_OFFSETS:
        yield simple_commit(on, on.topic, offset)
        yield offsets_of(on, on.topic)


@CASES.case(topics=[T])
def odd_partitions(on: Ground) -> Script:
    for index in (2, -1, 2**31 - 1, -(2**31)):
        topic = committed(on, on.topic, 5, 6)
        topic["partitions"][0]["partition_index"] = index
        yield simple_commit(on, on.topic, topics=[topic])
        yield offsets_of(on)


@CASES.case(topics=[T], since=NEW_SINCE)
def the_same_partition_twice(on: Ground) -> Script:
    topic = committed(on, on.topic, 5, 6)
    topic["partitions"][1]["partition_index"] = 0
    yield simple_commit(on, on.topic, topics=[topic])
    yield offsets_of(on)


@CASES.case(topics=[T, OTHER], since=NEW_SINCE)
def topics_and_nothing(on: Ground) -> Script:
    yield simple_commit(on, on.topic, topics=[])
    yield simple_commit(on, on.topic)
    yield describing(on)
    first, second = committed(on, on.topic, 1), committed(on, on.name("other"), 2, 3)
    yield simple_commit(on, on.topic, topics=[first, second])
    yield simple_commit(on, on.topic, topics=[first, committed(on, on.topic, 8, 9)])
    yield offsets_of(on, on.topic, on.name("other"))


@CASES.case(topics=[T], until=FIRST_BY_ID - 1)
def a_topic_that_is_not_there(on: Ground) -> Script:
    missing = on.unused("nobody")
    yield simple_commit(on, missing, 1)
    topics = [committed(on, missing, 1), committed(on, on.topic, 1), committed(on, "", 1)]
    yield simple_commit(on, missing, topics=topics)
    yield offsets_of(on)


@CASES.case(topics=[T], since=FIRST_BY_ID)
def topics_by_id(on: Ground) -> Script:
    topics = [committed(on, on.topic, 1), committed(on, on.topic, 2), committed(on, on.topic, 3)]
    topics[1]["topic_id"] = UUID(int=77)
    topics[2]["topic_id"] = None
    yield simple_commit(on, on.topic, topics=topics[:1])
    yield simple_commit(on, on.topic, topics=topics[1:2])
    yield simple_commit(on, on.topic, topics=topics[2:])
    yield simple_commit(on, on.topic, topics=topics[:2])
    yield offsets_of(on)


@CASES.case(topics=[T])
def metadata(on: Ground) -> Script:
    for size in (0, METADATA_MAX_BYTES, METADATA_MAX_BYTES + 1):
        for letter in ("m", "ä"):
            topic = committed(on, on.topic, size, 1, metadata=letter * size)
            topic["partitions"][1]["committed_metadata"] = "short"
            yield simple_commit(on, on.topic, topics=[topic])
    yield simple_commit(on, on.topic, topics=[committed(on, on.topic, 7, metadata=None)])
    yield offsets_of(on)


@CASES.case(topics=[T])
def leader_epochs(on: Ground) -> Script:
    for epoch in (0, 7, -1, -5, 2**31 - 1):
        topic = committed(on, on.topic, 5)
        topic["partitions"][0]["committed_leader_epoch"] = epoch
        yield simple_commit(on, on.topic, topics=[topic])
        yield offsets_of(on)


@CASES.case(topics=[T], since=2, until=4)
def times_of_retention(on: Ground) -> Script:
    for retention_ms in (-1, 0, 1, -7, 2**62):
        yield simple_commit(on, on.topic, 5, retention_time_ms=retention_ms)
    yield offsets_of(on, "nothing")


@CASES.case(topics=[T])
def an_empty_group_id(on: Ground) -> Script:
    yield simple_commit(on, on.topic, 5, group_id="")


@CASES.case(topics=[T], since=FIRST_MEMBERS)
def members_of_no_group(on: Ground) -> Script:
    member = Member(on)
    for generation in (-1, 0, 1, -2):
        yield member.committing(on.topic, generation_id_or_member_epoch=generation)
        yield member.committing(
            on.topic, generation_id_or_member_epoch=generation, member_id="somebody"
        )
    yield offsets_of(on)


def wrongly(member: Member, topic: str) -> Script:
    """Right and wrong ones."""
    yield member.committing(topic)
    yield member.committing(topic, generation_id_or_member_epoch=0)
    yield member.committing(topic, generation_id_or_member_epoch=member.generation + 1)
    yield member.committing(topic, generation_id_or_member_epoch=-1)
    yield member.committing(topic, generation_id_or_member_epoch=-2)
    yield member.committing(topic, member_id="somebody")
    yield member.committing(topic, member_id="")
    yield simple_commit(member.on, topic, 9)


@CASES.case(topics=[T], since=FIRST_MEMBERS)
def before_the_assignment(on: Ground) -> Script:
    (alone,) = yield from group_of(on, 1, synced=False)
    yield from wrongly(alone, on.topic)
    yield offsets_of(on)


@CASES.case(topics=[T], since=FIRST_MEMBERS)
def in_a_stable_group(on: Ground) -> Script:
    (alone,) = yield from group_of(on, 1)
    yield from wrongly(alone, on.topic)
    yield offsets_of(on)


@CASES.case(topics=[T], since=FIRST_MEMBERS)
def during_a_rebalance(on: Ground) -> Script:
    """Members may still commit what they have done."""
    leader, follower = yield from group_of(on, 2)
    late = Member(on, "late")
    yield from late.begin(3)
    yield from wrongly(leader, on.topic)
    yield from wrongly(follower, on.topic)
    yield leader.committing(on.topic, member_id=late.id)
    yield offsets_of(on)


@CASES.case(topics=[T], since=FIRST_MEMBERS)
def in_a_group_without_members(on: Ground) -> Script:
    (alone,) = yield from group_of(on, 1)
    yield alone.leaving()
    yield from wrongly(alone, on.topic)
    yield offsets_of(on)
    yield describing(on)


@CASES.case(topics=[T], since=FIRST_MEMBERS)
def in_a_group_of_another_kind(on: Ground) -> Script:
    (alone,) = yield from group_of(on, 1, kind="connect", protocols=["default"])
    yield from wrongly(alone, on.topic)
    yield offsets_of(on)


@CASES.case(topics=[T], since=FIRST_STATIC)
def instances(on: Ground) -> Script:
    static = Member(on, instance="i")
    yield from static.join()
    yield static.syncing({static.id: b"all"})
    yield from wrongly(static, on.topic)
    for instance in ("j", "", None):
        yield static.committing(on.topic, group_instance_id=instance)
    again = Member(on, "2", instance="i")
    yield from again.join()
    yield static.committing(on.topic)
    yield again.committing(on.topic)


@CASES.case(topics=[T], since=FIRST_STATIC)
def an_instance_of_no_group(on: Ground) -> Script:
    yield simple_commit(on, on.topic, 5, group_instance_id="i")
    yield offsets_of(on)


@CASES.case(topics=[T])
def after_a_commit_the_group_is_deleted(on: Ground) -> Script:
    yield simple_commit(on, on.topic, 5)
    yield on.other("DeleteGroups", 2, groups_names=[on.group])
    yield offsets_of(on)
    yield simple_commit(on, on.topic, 6)
    yield offsets_of(on)
