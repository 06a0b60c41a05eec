"""ElectLeaders on one node: every leader is the right one, and what is asked may be wrong."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

from kavka.compat_tests.raw.case import Cases, Function, Ground, Topic, Values
from kavka.compat_tests.raw.frames import add_frames

CASES = Cases("ElectLeaders")

PREFERRED, UNCLEAN = 0, 1
KINDS_SINCE = 1
THREE = Topic("three", partitions=3, shared=True)
ONE = Topic("one", shared=True)

Requested = Sequence[tuple[str | None, Sequence[int] | None]]


def request(on: Ground, requested: Requested | None, kind: int = PREFERRED, **more: Any) -> Values:
    topics = None
    if requested is not None:
        topics = [
            {"topic": None if name is None else _name(on, name), "partitions": indexes}
            for name, indexes in requested
        ]
    values: dict[str, Any] = {"topic_partitions": topics, "timeout_ms": 60_000}
    if on.version >= KINDS_SINCE:
        values["election_type"] = kind
    return {**values, **more}


def _name(on: Ground, name: str) -> str:
    known = {topic.label for topic in on.case.topics}
    return on.name(name) if name in known else name


def asking(requested: Requested | None, kind: int = PREFERRED, **more: Any) -> Function:
    return lambda on: request(on, requested, kind, **more)


REQUESTED: dict[str, Requested | None] = {
    "all": None,
    "none": [],
    "one": [("one", [0])],
    "some": [("three", [2, 0]), ("one", [0])],
    "no partitions": [("three", [])],
    "a partition twice": [("three", [1, 1])],
    "a topic twice": [("three", [1]), ("one", [0]), ("three", [0, 1])],
    "no such partitions": [("three", [3, -1, 2**31 - 1, -(2**31), 0])],
    "no such topic": [("nobody", [0, 1]), ("one", [0]), ("nobody", [])],
    "bad names": [("", [0]), (".", [0]), ("a b", [0]), ("ä", [0]), ("x" * 250, [0])],
    "the topic of KRaft": [("__cluster_metadata", [0])],
}

for (name, requested), (kind, how) in product(
    REQUESTED.items(), ((PREFERRED, "preferred"), (UNCLEAN, "unclean"))
):
    since = 0 if kind == PREFERRED else KINDS_SINCE
    CASES.add(f"{how}: {name}", asking(requested, kind), since=since, topics=[THREE, ONE])

for kind in (2, 7, -1, 127, -128):
    for name in ("all", "none", "some", "no such topic"):
        CASES.add(
            f"kind {kind}: {name}",
            asking(REQUESTED[name], kind),
            since=KINDS_SINCE,
            topics=[THREE, ONE],
        )

for timeout_ms in (0, -1, -(2**31)):
    for name in ("all", "none", "some", "no such topic"):
        CASES.add(
            f"timeout {timeout_ms}: {name}",
            asking(REQUESTED[name], timeout_ms=timeout_ms),
            topics=[THREE, ONE],
        )

CASES.add(
    "no time for an unknown kind",
    asking(REQUESTED["some"], 7, timeout_ms=0),
    since=KINDS_SINCE,
    topics=[THREE, ONE],
)
CASES.add("a null topic", asking([(None, [0])]), topics=[])
CASES.add("null partitions", asking([("one", None)]), topics=[ONE])

add_frames(CASES, lambda on: request(on, REQUESTED["some"]), topics=[THREE, ONE])
