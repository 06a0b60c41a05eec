"""SyncGroup: frames with something odd about them; groups are in `sequences.syncing`."""

from __future__ import annotations

from kavka.compat_tests.raw.case import Cases, Ground, Values
from kavka.compat_tests.raw.frames import add_frames

CASES = Cases("SyncGroup")


def ordinary(on: Ground) -> Values:
    return {
        "group_id": on.group,
        "generation_id": 1,
        "member_id": "somebody",
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": [{"member_id": "somebody", "assignment": b"all of it"}],
    }


add_frames(CASES, ordinary, topics=[])
