"""OffsetForLeaderEpoch: epochs that were, will be and never were, fencing, what there is not."""

from __future__ import annotations

from typing import Any

from kavka.compat_tests.raw.case import Cases, Function, Ground, Topic, Values
from kavka.compat_tests.raw.codec.batches import build
from kavka.compat_tests.raw.frames import add_frames, add_odd_names

CASES = Cases("OffsetForLeaderEpoch")

EMPTY = Topic("empty", shared=True)
SIX = Topic("six", partitions=2, batches=(build(), build()), shared=True)


def partition(index: int = 0, epoch: int = 0, current: int = -1) -> Values:
    return {"partition": index, "leader_epoch": epoch, "current_leader_epoch": current}


def asking(*topics: Values, **more: Any) -> Values:
    return {"replica_id": -1, "topics": list(topics), **more}


def of(name: str, *partitions: Values) -> Values:
    return {"topic": name, "partitions": list(partitions)}


def at(*partitions: Values, **more: Any) -> Function:
    return lambda on: asking(of(on.topic, *partitions), **more)


add_frames(CASES, lambda on: asking(of(on.topic, partition())), topics=[SIX])

for epoch in (0, 1, 5, 2**31 - 1, -1, -2, -(2**31)):
    CASES.add(f"epoch {epoch}", at(partition(0, epoch)), topics=[SIX])
    CASES.add(f"epoch {epoch} of an empty log", at(partition(0, epoch)), topics=[EMPTY])
    CASES.add(f"current epoch {epoch}", at(partition(0, 0, epoch)), topics=[SIX], since=2)
    CASES.add(f"current epoch {epoch}, of none", at(partition(9, 0, epoch)), topics=[SIX], since=2)

for replica in (-2, 0, 1, 7, -9):
    CASES.add(f"replica {replica}", at(partition(), replica_id=replica), topics=[SIX], since=3)

for index in (2, -1, 2**31 - 1):
    CASES.add(f"partition {index}", at(partition(index)), topics=[SIX])


def named(name: str) -> Function:
    return lambda on: asking(of(name, partition()))


for name in ("", ".", "a/b", "x" * 300, "\u0442", "__consumer_offsets", "__cluster_metadata"):
    CASES.add(f"topic '{name[:20]}'", named(name), topics=[])


@CASES.case(topics=[])
def an_unknown_topic(on: Ground) -> Values:
    return asking(of(on.unused("body"), partition()))


@CASES.case(topics=[])
def no_topics(on: Ground) -> Values:
    return asking()


@CASES.case(topics=[SIX])
def no_partitions(on: Ground) -> Values:
    return asking(of(on.topic))


@CASES.case(topics=[SIX, EMPTY])
def several(on: Ground) -> Values:
    return asking(
        of(on.topic, partition(1), partition(0), partition(4)),
        of(on.unused("body"), partition(0)),
        of(on.name("empty"), partition(0)),
    )


@CASES.case(topics=[SIX])
def a_partition_twice(on: Ground) -> Values:
    return asking(of(on.topic, partition(0), partition(0, 5)))


@CASES.case(topics=[SIX])
def a_topic_twice(on: Ground) -> Values:
    return asking(of(on.topic, partition(0)), of(on.topic, partition(1)))


add_odd_names(CASES, lambda name: asking(of(name, partition())))
