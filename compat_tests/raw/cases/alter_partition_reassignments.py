"""AlterPartitionReassignments on one node, from where nothing can go anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kavka.compat_tests.raw.case import Cases, Function, Ground, Script, Topic, Values
from kavka.compat_tests.raw.frames import add_frames
from kavka.compat_tests.raw.topics import made

CASES = Cases("AlterPartitionReassignments")

TWO = Topic("two", partitions=2, shared=True)
ONE = Topic("one", shared=True)
CHANGE_SINCE = 1
ANOTHER = 1_234_567
BROKER = None

Target = Sequence[int | None] | None
"""Replicas, in which None stands for the broker; None to call a reassignment off."""

Requested = Sequence[tuple[str | None, Sequence[tuple[int, Target]] | None]]


def request(on: Ground, requested: Requested, **more: Any) -> Values:
    known = {topic.label for topic in on.case.topics}

    def partition(index: int, target: Target) -> dict[str, Any]:
        replicas = None
        if target is not None:
            replicas = [on.broker_id if replica is None else replica for replica in target]
        return {"partition_index": index, "replicas": replicas}

    topics = [
        {
            "name": on.name(name) if name in known and name is not None else name,
            "partitions": None
            if partitions is None
            else [partition(*reassignment) for reassignment in partitions],
        }
        for name, partitions in requested
    ]
    return {"timeout_ms": 60_000, "topics": topics, **more}


def asking(requested: Requested, **more: Any) -> Function:
    return lambda on: request(on, requested, **more)


REQUESTED: dict[str, Requested] = {
    "where it is": [("two", [(0, [BROKER])])],
    "where they are": [("two", [(1, [BROKER]), (0, [BROKER])]), ("one", [(0, [BROKER])])],
    "nothing": [],
    "no partitions": [("two", [])],
    "call off": [("two", [(0, None)])],
    "to an unknown broker": [("two", [(0, [ANOTHER])])],
    "to one more": [("two", [(0, [BROKER, ANOTHER])])],
    "to one more, that one first": [("two", [(0, [ANOTHER, BROKER])])],
    "to none": [("two", [(0, [])])],
    "to a broker twice": [("two", [(0, [BROKER, BROKER])])],
    "to unknown ones twice": [("two", [(0, [ANOTHER, ANOTHER])])],
    "to a negative broker": [("two", [(0, [-1])])],
    "good and bad ones": [
        ("two", [(0, [BROKER]), (1, [ANOTHER]), (1, None)]),
        ("one", [(0, [BROKER])]),
    ],
    "a partition twice": [("one", [(0, [BROKER]), (0, [BROKER])])],
    "a topic twice": [("one", [(0, [BROKER])]), ("two", [(0, [BROKER])]), ("one", [(0, None)])],
    "no such topic": [("nobody", [(0, [BROKER]), (1, None)]), ("one", [(0, [BROKER])])],
    "no such topic, unknown broker": [("nobody", [(0, [ANOTHER])])],
    "no such partition": [("one", [(1, [BROKER]), (-1, None), (2**31 - 1, [ANOTHER])])],
    "bad names": [("", [(0, [BROKER])]), ("a b", [(0, None)]), ("x" * 250, [(0, [])])],
    "the topic of KRaft": [("__cluster_metadata", [(0, [BROKER])])],
}

for name, requested in REQUESTED.items():
    CASES.add(name, asking(requested), topics=[TWO, ONE])
    CASES.add(
        f"{name}, without a change of the number",
        asking(requested, allow_replication_factor_change=False),
        since=CHANGE_SINCE,
        topics=[TWO, ONE],
    )

for timeout_ms in (0, -1, -(2**31)):
    for name in ("nothing", "no partitions", "good and bad ones", "no such topic"):
        CASES.add(
            f"timeout {timeout_ms}: {name}",
            asking(REQUESTED[name], timeout_ms=timeout_ms),
            topics=[TWO, ONE],
        )

CASES.add(
    "no time, without a change of the number",
    asking(REQUESTED["where it is"], timeout_ms=0, allow_replication_factor_change=False),
    since=CHANGE_SINCE,
    topics=[TWO],
)


@CASES.case(topics=[Topic("two", partitions=2)])
def nothing_has_changed_afterwards(on: Ground) -> Script:
    yield on.ask(**request(on, [("two", [(0, [BROKER]), (1, [BROKER])])]))
    yield on.other("ListPartitionReassignments", 0, timeout_ms=60_000, topics=None)
    yield from made(on, [on.topic])


CASES.add("null topics", lambda on: {"timeout_ms": 60_000, "topics": None}, topics=[])
CASES.add("a null name", asking([(None, [(0, None)])]), topics=[])
CASES.add("null partitions", asking([("one", None)]), topics=[ONE])

add_frames(CASES, lambda on: request(on, REQUESTED["where it is"]), topics=[TWO])
