"""JoinGroup: frames with something odd about them; groups are in `sequences.joining`."""

from __future__ import annotations

from kavka.compat_tests.raw.case import Cases, Ground, Values
from kavka.compat_tests.raw.frames import add_frames

CASES = Cases("JoinGroup")


def ordinary(on: Ground) -> Values:
    """By an unknown member, so that no member has to wait."""
    return {
        "group_id": on.group,
        "session_timeout_ms": 60_000,
        "rebalance_timeout_ms": 60_000,
        "member_id": "somebody",
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b"metadata"}],
    }


add_frames(CASES, ordinary, topics=[])
