"""AddOffsetsToTxn: odd frames. What is asked in them stands in `sequences/adding_offsets.py`."""

from __future__ import annotations

from kavka.compat_tests.raw.case import Cases
from kavka.compat_tests.raw.frames import add_frames, given

CASES = Cases("AddOffsetsToTxn")

ASKED = {
    "transactional_id": "nobody's",
    "producer_id": 5_000_000,
    "producer_epoch": 0,
    "group_id": "a-group",
}

add_frames(CASES, lambda on: ASKED, topics=[])
for name in ("transactional_id", "group_id"):
    CASES.add(f"null: {name}", given({**ASKED, name: None}), topics=[])
