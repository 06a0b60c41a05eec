"""EndTxn: odd frames. What is asked in them stands in `sequences/ending.py`."""

from __future__ import annotations

from kavka.compat_tests.raw.case import Cases
from kavka.compat_tests.raw.frames import add_frames

CASES = Cases("EndTxn")

ASKED = {
    "transactional_id": "nobody's",
    "producer_id": 5_000_000,
    "producer_epoch": 0,
    "committed": True,
}

add_frames(CASES, lambda on: ASKED, topics=[])
CASES.add("a null id", lambda on: {**ASKED, "transactional_id": None}, topics=[])
