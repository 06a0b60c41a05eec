"""DescribeGroups: frames with something odd about them; groups are in `sequences.describing`."""

from __future__ import annotations

from kavka.compat_tests.raw.case import Cases, Ground, Values
from kavka.compat_tests.raw.frames import add_frames

CASES = Cases("DescribeGroups")


def describing(on: Ground) -> Values:
    return {"groups": [on.group]}


@CASES.case(topics=[])
def null_groups(on: Ground) -> Values:
    return {"groups": None}


@CASES.case(topics=[])
def a_null_group(on: Ground) -> Values:
    return {"groups": [None]}


add_frames(CASES, describing, topics=[])
