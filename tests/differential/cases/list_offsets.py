"""ListOffsets: the special times, times between records, fencing, and what there is not."""

from __future__ import annotations

from typing import Any

from differential.case import Cases, Function, Ground, Topic, Values
from differential.frames import add_frames
from support.batches import BASE_TIMESTAMP_MS, Written, build

CASES = Cases("ListOffsets")

EMPTY = Topic("empty", shared=True)
FIVE = Topic(
    "five",
    partitions=2,
    batches=(
        build([Written(time_ms=0), Written(time_ms=20), Written(time_ms=10)]),
        build([Written(time_ms=30), Written(time_ms=25)], codec="gzip"),
    ),
    shared=True,
)


def asked(topic: str, timestamp: int, *, partition: int = 0, **more: Any) -> Values:
    """A request for one partition."""
    one = {"partition_index": partition, "timestamp": timestamp, **more}
    return {"replica_id": -1, "topics": [{"name": topic, "partitions": [one]}]}


def at(timestamp: int, **more: Any) -> Function:
    def case(on: Ground) -> Values:
        return asked(on.topic, timestamp, **more)

    return case


for special in range(-8, 0):
    CASES.add(f"special time {special}", at(special), topics=[FIVE])
    CASES.add(f"special time {special} of an empty log", at(special), topics=[EMPTY])

for delta in (-1, 0, 5, 20, 21, 25, 30, 31):
    CASES.add(f"time {delta}", at(BASE_TIMESTAMP_MS + delta), topics=[FIVE])

add_frames(CASES, lambda on: asked(on.topic, -1), topics=[FIVE])
