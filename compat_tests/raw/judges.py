"""Which Apache Kafka judges which version: 4.3.1 where it serves it, 3.9.2 what 4 dropped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

NEW: Final = "4.3.1"
OLD: Final = "3.9.2"
JUDGES: Final = (NEW, OLD)

FIRST_IN_NEW: Final[Mapping[str, int]] = {
    "Produce": 3,
    "Fetch": 4,
    "ListOffsets": 1,
    "OffsetForLeaderEpoch": 2,
    "CreateTopics": 2,
    "DeleteTopics": 1,
    "DescribeConfigs": 1,
    "AlterReplicaLogDirs": 1,
    "DescribeLogDirs": 1,
    "OffsetCommit": 2,
    "OffsetFetch": 1,
    "WriteTxnMarkers": 1,
}
"""The first version that 4.3.1 serves, where it isn't 0. The test asks it whether that is so."""


def judge_of(api: str, version: int) -> str:
    """Whose answer counts."""
    return NEW if version >= FIRST_IN_NEW.get(api, 0) else OLD
