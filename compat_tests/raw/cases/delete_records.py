"""DeleteRecords: offsets in and around the log, policies, what readers find afterwards."""

from __future__ import annotations

from collections.abc import Sequence

from kavka.compat_tests.raw.case import Cases, Function, Ground, Script, Topic, Values
from kavka.compat_tests.raw.cases import fetch, list_offsets
from kavka.compat_tests.raw.codec.batches import BASE_TIMESTAMP_MS, Written, build
from kavka.compat_tests.raw.frames import add_frames, add_odd_names

CASES = Cases("DeleteRecords")

HIGH_WATERMARK = -1
EARLIEST, LATEST, MAX_TIMESTAMP = -2, -1, -3
SOME_MS = 10_000
BATCHES = (
    build([Written(time_ms=0), Written(time_ms=50), Written(time_ms=10)]),
    build([Written(time_ms=20)], codec="gzip"),
    build([Written(time_ms=30), Written(time_ms=40)], codec="lz4"),
)
SIX = Topic(batches=BATCHES, partitions=2)
FRAMES = Topic("frames", batches=BATCHES, shared=True)
POLICIES = ("delete", "compact", "compact,delete", "")


def named(*offsets: int, partition: int = 0) -> list[Values]:
    return [{"partition_index": partition, "offset": offset} for offset in offsets]


def of(name: str | None, partitions: Sequence[Values] | None) -> Values:
    return {"topics": [{"name": name, "partitions": partitions}], "timeout_ms": SOME_MS}


def deleting(*offsets: int, partition: int = 0) -> Function:
    """One request for each offset."""

    def script(on: Ground) -> Script:
        for offset in offsets:
            yield on.ask(**of(on.topic, named(offset, partition=partition)))
        yield from seen(on)

    return script


def seen(on: Ground) -> Script:
    """What is left of partition 0, as several ways of reading show it."""
    label = on.case.topics[0].label
    for special in (
        EARLIEST,
        LATEST,
        MAX_TIMESTAMP,
        *range(BASE_TIMESTAMP_MS, BASE_TIMESTAMP_MS + 60, 10),
    ):
        lookup = list_offsets.asking(list_offsets.topic_at(on.topic, special))
        yield on.other("ListOffsets", 7, **lookup)
    for offset in range(8):
        reading = fetch.fetching([fetch.of(on, label, fetch.partition(offset=offset))])
        yield on.other("Fetch", 12, **reading)
    partition = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}
    lookup = {"topic": on.topic, "partitions": [partition]}
    yield on.other("OffsetForLeaderEpoch", 4, replica_id=-1, topics=[lookup])


for offset in (*range(9), HIGH_WATERMARK, -2, -(2**63), 2**63 - 1):
    CASES.add(f"offset {offset}", deleting(offset), topics=[SIX])

CASES.add("an empty log", deleting(0, HIGH_WATERMARK, 1), topics=[Topic()])
CASES.add("an earlier offset later", deleting(4, 2, 0), topics=[SIX])
CASES.add("step by step", deleting(1, 3, 4, 6, HIGH_WATERMARK), topics=[SIX])

for policy in POLICIES:
    CASES.add(
        f"cleanup.policy={policy}",
        deleting(2, HIGH_WATERMARK, 99),
        topics=[
            Topic(
                # a cleaner that compacts deletes what is old as well, at any time: the records are
                configs={"cleanup.policy": policy, "retention.ms": "-1"},
                batches=[build([Written(b"k")] * 3)],
            )
        ],
    )


@CASES.case(topics=[SIX])
def what_is_written_afterwards(on: Ground) -> Script:
    yield on.ask(**of(on.topic, named(HIGH_WATERMARK)))
    data = {"index": 0, "records": bytes(build())}
    topic = {"name": on.topic, "partition_data": [data]}
    yield on.other("Produce", 8, acks=-1, timeout_ms=SOME_MS, topic_data=[topic])
    yield on.ask(**of(on.topic, named(7)))
    yield from seen(on)


@CASES.case(topics=[SIX])
def a_partition_twice(on: Ground) -> Script:
    yield on.ask(**of(on.topic, [*named(4), *named(2)]))
    yield from seen(on)


@CASES.case(topics=[SIX])
def a_topic_twice(on: Ground) -> Script:
    first, again = {"name": on.topic, "partitions": named(1)}, {"name": on.topic}
    yield on.ask(topics=[first, {**again, "partitions": named(3)}], timeout_ms=SOME_MS)
    yield from seen(on)


@CASES.case(topics=[SIX])
def two_partitions_and_one_that_is_not_there(on: Ground) -> Script:
    partitions = [
        *named(5),
        *named(1, partition=1),
        *named(0, partition=2),
        *named(0, partition=-1),
    ]
    yield on.ask(**of(on.topic, partitions))


@CASES.case()
def a_topic_that_is_not_there(on: Ground) -> Values:
    return of(on.unused("nobody"), named(0, -1))


@CASES.case()
def a_null_name(on: Ground) -> Values:
    return of(None, named(0))


@CASES.case()
def null_partitions(on: Ground) -> Values:
    return of(on.topic, None)


def within(timeout_ms: int) -> Function:
    return lambda on: {**of(on.topic, named(1)), "timeout_ms": timeout_ms}


for timeout_ms in (0, -1, 2**31 - 1, -(2**31)):
    CASES.add(f"timeout {timeout_ms}", within(timeout_ms), topics=[SIX])


def of_name(name: str) -> Function:
    return lambda on: of(name, named(0))


for name in ("", ".", "a b", "x" * 250, "__consumer_offsets", "__transaction_state"):
    CASES.add(f"name {name[:20]!r}", of_name(name))

CASES.add("no topics", lambda on: {"topics": [], "timeout_ms": SOME_MS})
CASES.add("null topics", lambda on: {"topics": None, "timeout_ms": SOME_MS})
CASES.add("no partitions", lambda on: of(on.topic, []))

add_frames(CASES, lambda on: of(on.topic, named(0)), topics=[FRAMES])
add_odd_names(CASES, lambda name: of(name, named(0)))
