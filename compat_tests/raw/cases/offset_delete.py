"""OffsetDelete: frames with something odd about them; groups are in `sequences.forgetting`."""

from __future__ import annotations

from typing import Any

from kavka.compat_tests.raw.case import Cases, Ground, Script, Topic, Values
from kavka.compat_tests.raw.frames import add_frames

CASES = Cases("OffsetDelete")
T = Topic("frames", shared=True)


def deleting(on: Ground, **more: Any) -> Values:
    """Of a group that is not there."""
    topic = {"name": on.topic, "partitions": [{"partition_index": 0}]}
    return {"group_id": on.group, "topics": [topic], **more}


@CASES.case(topics=[T])
def nulls(on: Ground) -> Script:
    yield on.ask(**deleting(on, group_id=None))
    yield on.ask(**deleting(on, topics=None))
    yield on.ask(**deleting(on, topics=[{"name": None, "partitions": []}]))
    yield on.ask(**deleting(on, topics=[{"name": on.topic, "partitions": None}]))


@CASES.case(topics=[T])
def nothing_of_no_group(on: Ground) -> Script:
    yield on.ask(**deleting(on, topics=[]))
    yield on.ask(**deleting(on, topics=[{"name": on.topic, "partitions": []}]))
    yield on.ask(**deleting(on, topics=[{"name": on.unused("nobody"), "partitions": []}]))


add_frames(CASES, deleting, topics=[T])
