"""DeleteGroups: frames with something odd about them; groups are in `sequences.deleting`."""

from __future__ import annotations

from kavka.compat_tests.raw.case import Cases, Ground, Values
from kavka.compat_tests.raw.frames import add_frames

CASES = Cases("DeleteGroups")


def deleting(on: Ground) -> Values:
    return {"groups_names": [on.group]}


@CASES.case(topics=[])
def null_groups(on: Ground) -> Values:
    return {"groups_names": None}


@CASES.case(topics=[])
def a_null_group(on: Ground) -> Values:
    return {"groups_names": [None]}


add_frames(CASES, deleting, topics=[])
