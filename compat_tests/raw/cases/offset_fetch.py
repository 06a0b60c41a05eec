"""OffsetFetch: frames with something odd about them; groups are in `sequences.fetching`."""

from __future__ import annotations

from typing import Any

from kavka.compat_tests.raw.case import Cases, Ground, Topic, Values
from kavka.compat_tests.raw.frames import add_frames, add_odd_names

CASES = Cases("OffsetFetch")
T = Topic("frames", shared=True)
GROUP = "OffsetFetch-frames"


def fetching(name: str | None, topic_id: Any = None, **more: Any) -> Values:
    """Of a group that is not there; `more` changes the group."""
    topic = {"name": name, "topic_id": topic_id, "partition_indexes": [0]}
    group = {"group_id": GROUP, "topics": [topic], **more}
    return {**group, "groups": [group]}


@CASES.case(topics=[T])
def null_topics(on: Ground) -> Values:
    return fetching(on.topic, topics=None)


@CASES.case(topics=[T])
def null_partitions(on: Ground) -> Values:
    topic = {"name": on.topic, "topic_id": on.topic_id, "partition_indexes": None}
    return fetching(on.topic, topics=[topic])


@CASES.case(topics=[T])
def a_null_group(on: Ground) -> Values:
    return fetching(on.topic, on.topic_id, group_id=None)


@CASES.case(topics=[T], since=8)
def null_groups(on: Ground) -> Values:
    return {"groups": None}


@CASES.case(topics=[T], until=9)
def a_null_name(on: Ground) -> Values:
    return fetching(None)


add_frames(CASES, lambda on: fetching(on.topic, on.topic_id), topics=[T])


def named_once(name: str) -> Values:
    topic = {"name": name, "partition_indexes": [0]}
    return {"group_id": GROUP, "topics": [topic], "groups": []}


add_odd_names(CASES, named_once, until=7)
