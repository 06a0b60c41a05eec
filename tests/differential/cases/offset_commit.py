"""OffsetCommit: frames with something odd about them; groups are in `sequences.committing`."""

from __future__ import annotations

from typing import Any

from differential.case import Cases, Ground, Topic, Values
from differential.frames import add_frames, add_odd_names

CASES = Cases("OffsetCommit")
CASES.first = 1  # version 0 is another thing: see `the tree`
T = Topic("frames", shared=True)


def committing(name: str | None, topic_id: Any = None, **more: Any) -> Values:
    """By nobody, to a group that has no members."""
    partition = {"partition_index": 0, "committed_offset": 5, "committed_metadata": "text"}
    topic = {"name": name, "topic_id": topic_id, "partitions": [partition]}
    return {
        "group_id": "OffsetCommit-frames",
        "generation_id_or_member_epoch": -1,
        "topics": [topic],
        **more,
    }


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


add_frames(CASES, lambda on: committing(on.topic, on.topic_id), topics=[T])
add_odd_names(CASES, committing, since=1, until=9)
