"""FindCoordinator: odd frames. What is asked in them stands in `sequences/finding.py`."""

from __future__ import annotations

from kavka.compat_tests.raw.case import Cases, Ground, Values
from kavka.compat_tests.raw.frames import add_frames

CASES = Cases("FindCoordinator")

GROUP, SHARE = 0, 2


def asking(on: Ground, key: str = "group", kind: int = GROUP) -> Values:
    return {"key": key, "coordinator_keys": [key], "key_type": kind}


@CASES.case(since=4, topics=[])
def a_key_as_before(on: Ground) -> Values:
    return {"key": "group", "coordinator_keys": [], "key_type": GROUP}


@CASES.case(since=1, until=5, topics=[])
def a_share_group_too_early(on: Ground) -> Values:
    return asking(on, "group:AAAAAAAAAAAAAAAAAAAAAQ:0", SHARE)


add_frames(CASES, asking, topics=[])
