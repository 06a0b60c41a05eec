"""ListOffsets: the special times, times between records, fencing, and what there is not."""

from __future__ import annotations

from typing import Any

from kavka.compat_tests.raw.case import Cases, Function, Ground, Topic, Values
from kavka.compat_tests.raw.codec.batches import BASE_TIMESTAMP_MS, Written, build, patch
from kavka.compat_tests.raw.frames import add_frames, add_odd_names

CASES = Cases("ListOffsets")

ZEROS = bytes(500)

EMPTY = Topic("empty", shared=True)
FIVE = Topic(
    "five",
    partitions=2,
    batches=(
        build([Written(time_ms=0), Written(time_ms=20), Written(time_ms=10)]),
        build([Written(value=ZEROS, time_ms=30), Written(time_ms=25)], codec="gzip"),
    ),
    shared=True,
)
TIMELESS = Topic(
    "timeless", batches=(patch(build(), base_timestamp=-1, max_timestamp=-1),), shared=True
)
EQUAL = Topic(
    "equal",
    batches=(build(), build([Written(value=ZEROS)], codec="lz4"), build()),
    shared=True,
)
OLD = Topic(
    "old",
    batches=(patch(build([Written(), Written()]), base_timestamp=5, max_timestamp=5),),
    shared=True,
)
SEGMENTS = Topic(
    "segments",
    configs={"segment.bytes": "1048576"},
    batches=[build([Written(value=bytes(700_000))])] * 4,
    shared=True,
)
FAR_MS = 2**62


def topic_at(topic: str, timestamp: int, *, partition: int = 0, **more: Any) -> Values:
    """One partition of a request."""
    requested = {
        "partition_index": partition,
        "timestamp": timestamp,
        "current_leader_epoch": -1,
        **more,
    }
    return {"name": topic, "partitions": [requested]}


def asking(*topics: Values, **more: Any) -> Values:
    return {"replica_id": -1, "isolation_level": 0, "topics": list(topics), **more}


def at(timestamp: int, *, partition: int = 0, epoch: int = -1, **more: Any) -> Function:
    def case(on: Ground) -> Values:
        lookup = topic_at(on.topic, timestamp, partition=partition, current_leader_epoch=epoch)
        return asking(lookup, **more)

    return case


def limited(timestamp: int, limit: int) -> Function:
    """Version 0 gives as many offsets as it is asked for."""
    return lambda on: asking(topic_at(on.topic, timestamp, max_num_offsets=limit))


add_frames(CASES, lambda on: asking(topic_at(on.topic, -1)), topics=[FIVE])

# -- times ----------------------------------------------------------------------------------

for special in (*range(-9, 0), -(2**63)):
    CASES.add(f"special time {special}", at(special), topics=[FIVE])
    CASES.add(f"special time {special} of an empty log", at(special), topics=[EMPTY])
    CASES.add(f"special time {special} without timestamps", at(special), topics=[TIMELESS])
    CASES.add(f"special time {special}, all at once", at(special), topics=[EQUAL])

for special in (-1, -2, BASE_TIMESTAMP_MS, FAR_MS):
    for limit in (-(2**31), -1, 0, 1, 2, 3, 2**31 - 1):
        for label, topic in {"five": FIVE, "empty": EMPTY, "segments": SEGMENTS}.items():
            CASES.add(
                f"at most {limit} offsets, time {special}, {label}",
                limited(special, limit),
                topics=[topic],
                until=0,
            )

for delta in (-1, 0, 5, 10, 11, 20, 21, 25, 26, 30, 31):
    CASES.add(f"time {delta}", at(BASE_TIMESTAMP_MS + delta), topics=[FIVE])
for time in (0, 1, 4, 5, 6, 2**63 - 1):
    CASES.add(f"time {time} since 1970", at(time), topics=[OLD])
    CASES.add(f"time {time} without timestamps", at(time), topics=[TIMELESS])
    CASES.add(f"time {time} of an empty log", at(time), topics=[EMPTY])

# -- isolation, epochs, replicas ------------------------------------------------------------

for level in (1, 2, -1):
    for special in (-1, -2, -3):
        CASES.add(
            f"isolation level {level}, time {special}",
            at(special, isolation_level=level),
            topics=[FIVE],
            since=2,
        )
    CASES.add(
        f"isolation level {level}, a time",
        at(BASE_TIMESTAMP_MS, isolation_level=level),
        topics=[FIVE],
        since=2,
    )
    CASES.add(
        f"isolation level {level}, nothing to find",
        at(-1, partition=9, isolation_level=level),
        topics=[FIVE],
        since=2,
    )

for epoch in (0, 1, 9, -2, -(2**31)):
    for special in (-1, -2, BASE_TIMESTAMP_MS):
        CASES.add(
            f"leader epoch {epoch}, time {special}",
            at(special, epoch=epoch),
            topics=[FIVE],
            since=4,
        )
CASES.add("a wrong epoch and a wrong time", at(-77, epoch=9), topics=[FIVE], since=4)
CASES.add("a wrong epoch of no partition", at(-1, epoch=9, partition=7), topics=[FIVE], since=4)

for replica in (0, 1, 7, -2, -3):
    CASES.add(f"replica {replica}", at(-1, replica_id=replica), topics=[FIVE])
    CASES.add(
        f"replica {replica}, a time", at(BASE_TIMESTAMP_MS, replica_id=replica), topics=[FIVE]
    )

for timeout in (0, -1):
    CASES.add(
        f"timeout {timeout}", at(BASE_TIMESTAMP_MS, timeout_ms=timeout), topics=[FIVE], since=10
    )

# -- what there is not ----------------------------------------------------------------------

for index in (2, -1, 2**31 - 1):
    CASES.add(f"partition {index}", at(-1, partition=index), topics=[FIVE])
    CASES.add(f"partition {index} at a wrong time", at(-99, partition=index), topics=[FIVE])


def named(name: str) -> Function:
    return lambda on: asking(topic_at(name, -1))


for name in ("", ".", "a/b", "x" * 300, "\u0442", "__consumer_offsets", "__cluster_metadata"):
    CASES.add(f"topic '{name[:20]}'", named(name), topics=[])


@CASES.case(topics=[])
def an_unknown_topic(on: Ground) -> Values:
    return asking(topic_at(on.unused("body"), -1))


@CASES.case(topics=[])
def no_topics(on: Ground) -> Values:
    return asking()


@CASES.case(topics=[FIVE])
def no_partitions(on: Ground) -> Values:
    return asking({"name": on.topic, "partitions": []})


# -- several at once ------------------------------------------------------------------------


def several(on: Ground, *parts: tuple[int, int]) -> Values:
    partitions = [
        {"partition_index": index, "timestamp": time, "current_leader_epoch": -1}
        for index, time in parts
    ]
    return {"name": on.topic, "partitions": partitions}


@CASES.case(topics=[FIVE])
def several_partitions(on: Ground) -> Values:
    return asking(several(on, (1, -1), (0, BASE_TIMESTAMP_MS + 5), (9, -1)))


@CASES.case(topics=[FIVE, EMPTY])
def several_topics(on: Ground) -> Values:
    unknown = topic_at(on.unused("body"), -1)
    return asking(unknown, several(on, (0, -1)), topic_at(on.name("empty"), -2))


@CASES.case(topics=[FIVE])
def a_partition_twice(on: Ground) -> Values:
    return asking(several(on, (0, -1), (1, -1), (0, -2)))


@CASES.case(topics=[FIVE])
def a_topic_twice(on: Ground) -> Values:
    return asking(several(on, (0, -1)), several(on, (0, -2), (1, -1)))


@CASES.case(topics=[FIVE])
def an_unknown_partition_twice(on: Ground) -> Values:
    return asking(several(on, (8, -1), (8, -1)))


@CASES.case(topics=[])
def an_unknown_topic_twice(on: Ground) -> Values:
    return asking(topic_at(on.unused("body"), -1), topic_at(on.unused("body"), -2))


add_odd_names(CASES, lambda name: asking(topic_at(name, -1)))
