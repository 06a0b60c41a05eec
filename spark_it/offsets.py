"""Offsets of topics' partitions, as Spark's Kafka source writes them in JSON."""

from __future__ import annotations

import json
from ast import literal_eval
from collections.abc import Mapping
from typing import Final

Offsets = Mapping[str, Mapping[str, int]]
"""Offsets by topic and partition, as Spark's Kafka source writes them into JSON."""

Positions = dict[str, dict[int, int]]
"""The offset after the last one there, by topic and partition."""

OFFSET_MAX: Final = 2**63 - 1


def parsed(offsets: str | None) -> dict[str, dict[str, int]]:
    """Offsets as Spark's listener gives them; {} for none.

    They are JSON, or, as PySpark gives them for Spark Connect and for what is missing, what Python
    prints of it. These offsets are the same in both.
    """
    found = literal_eval(offsets) if offsets and offsets != "null" else None
    return found if isinstance(found, dict) else {}


def partition_lags(ends: Offsets, latest: Offsets) -> dict[tuple[str, int], int]:
    """Records not read yet by (topic, partition)."""
    return {
        (topic, int(partition)): max(0, end - ends.get(topic, {}).get(partition, end))
        for topic, partitions in latest.items()
        for partition, end in partitions.items()
    }


SHOWN_PARTITIONS_MAX: Final = 6


def positions(offsets: Offsets) -> str:
    """ "events-0:17 events-1:9", with the number of those that are left out."""
    all_of_them = [
        f"{topic}-{partition}:{offset}"
        for topic, partitions in offsets.items()
        for partition, offset in sorted(partitions.items(), key=lambda pair: int(pair[0]))
    ]
    left_out = len(all_of_them) - SHOWN_PARTITIONS_MAX
    shown = " ".join(all_of_them[:SHOWN_PARTITIONS_MAX])
    return f"{shown} and {left_out} more" if left_out > 0 else shown


def starting_offsets(spans: Mapping[str, Mapping[int, int]]) -> str:
    """Positions as Spark's option `startingOffsets`."""
    return json.dumps(
        {topic: {str(p): o for p, o in partitions.items()} for topic, partitions in spans.items()}
    )
