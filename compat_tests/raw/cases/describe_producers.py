"""DescribeProducers: what a partition remembers of its idempotent producers, and bad requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kavka.compat_tests.raw.case import Cases, Function, Ground, Script, Topic, Values, looking
from kavka.compat_tests.raw.codec.batches import Written, build
from kavka.compat_tests.raw.frames import add_frames

CASES = Cases("DescribeProducers")

PRODUCER = 5_000_000
NOT_LEADER_OR_FOLLOWER = 6
FRAMES = Topic("frames", partitions=2, shared=True)


def by(producer: int, epoch: int, sequence: int, *times_ms: int) -> bytearray:
    """A batch with a record for each of `times_ms`."""
    records = [Written(time_ms=time) for time in times_ms]
    return build(records, producer=(PRODUCER + producer, epoch, sequence))


def remembered(*batches: bytearray) -> Topic:
    return Topic(partitions=2, batches=batches)


def request(on: Ground, indexes: Sequence[int] = (0, 1)) -> Values:
    return {"topics": [{"name": on.topic, "partition_indexes": list(indexes)}]}


def until_there(on: Ground) -> Script:
    """Ask until the topic's logs are there: Apache Kafka's Metadata lists them earlier."""
    everything = range(on.case.topics[0].partitions)
    for _ in looking():
        answer = yield on.ask(**request(on, everything), compared=False)
        partitions = answer["topics"][0]["partitions"]
        if all(partition["error_code"] != NOT_LEADER_OR_FOLLOWER for partition in partitions):
            break


def asking(indexes: Sequence[int] = (0, 1)) -> Function:
    def script(on: Ground) -> Script:
        yield from until_there(on)
        yield on.ask(**request(on, indexes))

    return script


def named(*names: str | None) -> Function:
    return lambda on: {"topics": [{"name": name, "partition_indexes": [0, 1]} for name in names]}


for name, batches in {
    "nobody": (),
    "who has no id": (build(),),
    "one batch": (by(0, 0, 0, 1, 2, 3),),
    "two batches": (by(0, 0, 0, 5), by(0, 0, 1, 3, 2)),
    "timestamps out of order": (by(0, 0, 0, 9, 1),),
    "a first sequence that is not 0": (by(0, 3, 7, 0, 0),),
    "a new epoch": (by(0, 0, 0, 0, 0), by(0, 1, 0, 4)),
    "sequences that begin again": (by(0, 0, 2**31 - 2, 0, 0, 0),),
    "three producers": (by(2, 0, 0, 0), by(0, 1, 0, 1), by(1, 2, 0, 2)),
    "a copy": (by(0, 0, 0, 0), by(0, 0, 0, 0)),
    "more batches than are remembered": tuple(by(0, 0, number, number) for number in range(8)),
    "compressed": (build([Written()] * 3, codec="gzip", producer=(PRODUCER, 0, 0)),),
}.items():
    CASES.add(name, asking(), topics=[remembered(*batches)])

for indexes in ([], [0, 0], [5], [-1], [1, 2**31 - 1, 0, -(2**31)]):
    CASES.add(f"partitions {indexes}", asking(indexes), topics=[FRAMES])

CASES.add("no topics", lambda on: {"topics": []})
CASES.add("null topics", lambda on: {"topics": None})
CASES.add("bad names", named("", ".", "..", "a b", "x" * 250, "ä", "a/b"))
CASES.add("a name as long as may be", named("x" * 249))
CASES.add("a null name", named(None))


@CASES.case()
def null_partitions(on: Ground) -> Values:
    return {"topics": [{"name": on.topic, "partition_indexes": None}]}


@CASES.case()
def a_topic_that_is_not_there(on: Ground) -> Script:
    yield from until_there(on)
    names = (on.unused("nobody"), on.topic)
    yield on.ask(topics=[{"name": name, "partition_indexes": [0, 1]} for name in names])


@CASES.case(topics=[remembered()])
def a_topic_twice(on: Ground) -> Script:
    yield from until_there(on)
    topic = {"name": on.topic, "partition_indexes": [0]}
    yield on.ask(topics=[topic, {**topic, "partition_indexes": [1]}])


@CASES.case()
def a_batch_that_was_refused(on: Ground) -> Script:
    yield from until_there(on)
    for records in (by(0, 1, 0, 0), by(0, 0, 1, 1), by(0, 1, 9, 2), by(0, 1, 1, 3)):
        yield on.other("Produce", 8, compared=False, **_producing(on, records))
        yield on.ask(**request(on))


def _producing(on: Ground, records: bytearray) -> dict[str, Any]:
    partition = {"index": 0, "records": bytes(records)}
    topic = {"name": on.topic, "partition_data": [partition]}
    return {"acks": -1, "timeout_ms": 30_000, "topic_data": [topic]}


add_frames(CASES, request, topics=[FRAMES])
