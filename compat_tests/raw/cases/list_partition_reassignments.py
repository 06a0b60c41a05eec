"""ListPartitionReassignments on one node, where nothing is ever under way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kavka.compat_tests.raw.case import Cases, Function, Ground, Topic, Values
from kavka.compat_tests.raw.frames import add_frames

CASES = Cases("ListPartitionReassignments")

TWO = Topic("two", partitions=2, shared=True)
ONE = Topic("one", shared=True)

Requested = Sequence[tuple[str | None, Sequence[int] | None]] | None


def request(on: Ground, requested: Requested, timeout_ms: int = 60_000) -> Values:
    known = {topic.label for topic in on.case.topics}
    topics: list[dict[str, Any]] | None = None
    if requested is not None:
        topics = [
            {
                "name": on.name(name) if name in known and name is not None else name,
                "partition_indexes": indexes,
            }
            for name, indexes in requested
        ]
    return {"timeout_ms": timeout_ms, "topics": topics}


def asking(requested: Requested, timeout_ms: int = 60_000) -> Function:
    return lambda on: request(on, requested, timeout_ms)


REQUESTED: dict[str, Requested] = {
    "all": None,
    "none": [],
    "one": [("one", [0])],
    "several": [("two", [0, 1]), ("one", [0])],
    "no partitions": [("two", [])],
    "a partition twice": [("two", [1, 1])],
    "a topic twice": [("two", [0]), ("one", [0]), ("two", [0])],
    "no such partition": [("two", [2, -1, 2**31 - 1])],
    "no such topic": [("nobody", [0])],
    "bad names": [("", [0]), ("a b", [0]), ("x" * 250, [0])],
}

for name, requested in REQUESTED.items():
    CASES.add(name, asking(requested), topics=[TWO, ONE])
    for timeout_ms in (0, -1):
        CASES.add(f"{name}, timeout {timeout_ms}", asking(requested, timeout_ms), topics=[TWO, ONE])

CASES.add("a null name", asking([(None, [0])]), topics=[])
CASES.add("null partitions", asking([("one", None)]), topics=[ONE])

add_frames(CASES, lambda on: request(on, REQUESTED["several"]), topics=[TWO, ONE])
