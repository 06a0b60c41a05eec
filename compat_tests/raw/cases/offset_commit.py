"""OffsetCommit: frames with something odd about them; groups are in `sequences.committing`."""

from __future__ import annotations

from typing import Any

from kavka.compat_tests.raw.case import Cases, Ground, Script, Step, Topic, Values
from kavka.compat_tests.raw.frames import add_frames, add_odd_names

CASES = Cases("OffsetCommit")
T = Topic("frames", shared=True)
TWO = Topic("two", partitions=2)


def committing(name: str | None, topic_id: Any = None, **more: Any) -> Values:
    """By no member, to a group that has no members."""
    partition = {"partition_index": 0, "committed_offset": 5, "committed_metadata": "text"}
    topic = {"name": name, "topic_id": topic_id, "partitions": [partition]}
    return {
        "group_id": "OffsetCommit-frames",
        "generation_id_or_member_epoch": -1,
        "topics": [topic],
        **more,
    }


def in_tree(on: Ground, *offsets: tuple[int, int], group_id: str | None = None) -> Values:
    """Offsets by partition."""
    partitions = [
        {"partition_index": index, "committed_offset": offset, "committed_metadata": "text"}
        for index, offset in offsets
    ]
    topic = {"name": on.topic, "partitions": partitions}
    return {"group_id": on.group if group_id is None else group_id, "topics": [topic]}


def out_of_tree(on: Ground, *, group_id: str | None = None) -> Step:
    topics = [{"name": on.topic, "partition_indexes": [0, 1, 2]}]
    group = on.group if group_id is None else group_id
    return on.other("OffsetFetch", 0, group_id=group, topics=topics)


@CASES.case(until=0, topics=[TWO])
def offsets_in_the_tree(on: Ground) -> Script:
    yield out_of_tree(on)
    for offset in (5, 0, -1, 2**63 - 1, -(2**63)):
        yield on.ask(**in_tree(on, (0, offset), (2, 6)))
        yield out_of_tree(on)
    yield on.ask(**in_tree(on, (1, 7), (1, 8)))
    yield out_of_tree(on)
    topics = [{"name": on.topic, "partition_indexes": [0, 1]}]
    yield on.other("OffsetFetch", 1, group_id=on.group, topics=topics)
    yield on.other("DescribeGroups", 0, groups=[on.group])


@CASES.case(until=0, topics=[TWO])
def odd_groups_in_the_tree(on: Ground) -> Script:
    for group_id in ("", ".", "..", "a/b", "a b", "/"):
        yield on.ask(**in_tree(on, (0, 5), group_id=group_id))
        yield out_of_tree(on, group_id=group_id)


@CASES.case(until=0, topics=[TWO])
def metadata_in_the_tree(on: Ground) -> Script:
    request = {**committing(on.topic), "group_id": on.group}
    for metadata in ("m" * 4096, "m" * 4097, None):
        request["topics"][0]["partitions"][0]["committed_metadata"] = metadata
        yield on.ask(**request)
    yield on.ask(**{**committing(on.unused("nobody")), "group_id": on.group})
    yield out_of_tree(on)


@CASES.case(topics=[T])
def null_topics(on: Ground) -> Values:
    return committing(on.topic, on.topic_id, topics=None)


@CASES.case(topics=[T])
def null_partitions(on: Ground) -> Values:
    topic = {"name": on.topic, "topic_id": on.topic_id, "partitions": None}
    return committing(on.topic, topics=[topic])


@CASES.case(topics=[T])
def a_null_group(on: Ground) -> Values:
    return committing(on.topic, on.topic_id, group_id=None)


@CASES.case(topics=[T], until=9)
def a_null_name(on: Ground) -> Values:
    return committing(None)


add_frames(CASES, lambda on: committing(on.topic, on.topic_id, group_id=on.group), topics=[T])
add_odd_names(CASES, committing, until=9)
