"""Heartbeat: frames with something odd about them; groups are in `sequences.heartbeats`."""

from __future__ import annotations

from kavka.compat_tests.raw.case import Cases, Ground, Values
from kavka.compat_tests.raw.frames import add_frames

CASES = Cases("Heartbeat")


def ordinary(on: Ground) -> Values:
    return {"group_id": on.group, "generation_id": 1, "member_id": "somebody"}


add_frames(CASES, ordinary, topics=[])
