"""LeaveGroup: frames with something odd about them; groups are in `sequences.leaving`."""

from __future__ import annotations

from kavka.compat_tests.raw.case import Cases, Ground, Values
from kavka.compat_tests.raw.frames import add_frames

CASES = Cases("LeaveGroup")


def ordinary(on: Ground) -> Values:
    """Before version 3 by one member, since then by several."""
    return {
        "group_id": on.group,
        "member_id": "somebody",
        "members": [{"member_id": "somebody"}, {"member_id": "another"}],
    }


add_frames(CASES, ordinary, topics=[])
