"""TxnOffsetCommit: odd frames. What is asked in them stands in `sequences/committing_in_one.py`."""

from __future__ import annotations

from kavka.compat_tests.raw.case import Cases, Values
from kavka.compat_tests.raw.frames import add_frames, add_odd_names, given

CASES = Cases("TxnOffsetCommit")


def asking(name: str = "nobody") -> Values:
    partition = {"partition_index": 0, "committed_offset": 5, "committed_metadata": ""}
    return {
        "transactional_id": "nobody's",
        "group_id": "a-group",
        "producer_id": 5_000_000,
        "producer_epoch": 0,
        "topics": [{"name": name, "partitions": [partition]}],
    }


add_frames(CASES, lambda on: asking(), topics=[])
add_odd_names(CASES, asking)
for field in ("transactional_id", "group_id", "topics"):
    CASES.add(f"null: {field}", given({**asking(), field: None}), topics=[])
