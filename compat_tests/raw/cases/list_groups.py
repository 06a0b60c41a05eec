"""ListGroups: frames with something odd about them; groups are in `sequences.listing`."""

from __future__ import annotations

from kavka.compat_tests.raw.case import Cases, Ground, Values
from kavka.compat_tests.raw.frames import add_frames

CASES = Cases("ListGroups")


def in_no_state(on: Ground) -> Values:
    """Where the version can ask so, the answer is empty."""
    return {"states_filter": ["none"]}


@CASES.case(since=4, topics=[])
def null_states(on: Ground) -> Values:
    return {"states_filter": None, "types_filter": []}


@CASES.case(since=5, topics=[])
def null_types(on: Ground) -> Values:
    return {"states_filter": ["none"], "types_filter": None}


CASES.first = 4  # older ones list all groups that other cases have made
add_frames(CASES, in_no_state, topics=[])
