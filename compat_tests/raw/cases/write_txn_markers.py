"""WriteTxnMarkers: odd frames. What is asked in them stands in `sequences/marking.py`."""

from __future__ import annotations

from kavka.compat_tests.raw.case import Cases, Values
from kavka.compat_tests.raw.frames import add_frames, add_odd_names

CASES = Cases("WriteTxnMarkers")


def asking(name: str = "nobody") -> Values:
    marker = {
        "producer_id": 5_000_000,
        "producer_epoch": 0,
        "transaction_result": True,
        "topics": [{"name": name, "partition_indexes": [0]}],
        "coordinator_epoch": 0,
        "transaction_version": 0,
    }
    return {"markers": [marker]}


add_frames(CASES, lambda on: asking(), topics=[])
add_odd_names(CASES, asking)
