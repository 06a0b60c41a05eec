"""CreatePartitions: counts, assignments, names, validating only, and what is there afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kavka.compat_tests.raw.case import Cases, Function, Ground, Script, Topic, Values
from kavka.compat_tests.raw.codec.batches import build
from kavka.compat_tests.raw.frames import add_frames
from kavka.compat_tests.raw.topics import extended, made

CASES = Cases("CreatePartitions")

TWO = Topic("two", partitions=2)
SHARED = Topic("shared", partitions=2, shared=True)
ANOTHER = 1_234_567
"""Not the id of the broker."""

BROKER = None

Assigned = Sequence[Sequence[int | None]] | None


def new_partitions(
    on: Ground, name: str | None, count: int, assigned: Assigned = None
) -> dict[str, Any]:
    """A topic of a request; in an assignment None stands for the broker."""
    assignments = None
    if assigned is not None:
        assignments = [
            {"broker_ids": [on.broker_id if broker is None else broker for broker in brokers]}
            for brokers in assigned
        ]
    return {"name": name, "count": count, "assignments": assignments}


def request(*topics: Any, **more: Any) -> Values:
    return {"timeout_ms": 60_000, "validate_only": False, "topics": list(topics), **more}


def extending(count: int, assigned: Assigned = None) -> Function:
    def script(on: Ground) -> Script:
        yield on.ask(**request(new_partitions(on, on.topic, count, assigned)))
        yield from extended(on, on.topic, count)

    return script


for count in (3, 4, 20):
    CASES.add(f"up to {count}", extending(count), topics=[TWO])
CASES.add("assigned: one", extending(3, [[BROKER]]), topics=[TWO])
CASES.add("assigned: three", extending(5, [[BROKER]] * 3), topics=[TWO])

# -- what can't be; both with and without making it -----------------------------------------

WRONG: Sequence[tuple[str, int, Assigned]] = (
    *((f"to {count}", count, None) for count in (2, 1, 0, -1, -(2**31))),
    ("to as many, assigned", 2, []),
    ("to less, assigned", 1, [[ANOTHER]]),
    ("none assigned", 3, []),
    ("too few assigned", 4, [[BROKER]]),
    ("too many assigned", 3, [[BROKER], [BROKER]]),
    ("too many assigned, to unknown ones", 3, [[ANOTHER], [ANOTHER]]),
    ("to an unknown broker", 3, [[ANOTHER]]),
    ("to a negative broker", 3, [[-1]]),
    ("to a broker twice", 3, [[BROKER, BROKER]]),
    ("to an unknown one twice", 3, [[ANOTHER, ANOTHER]]),
    ("to none", 3, [[]]),
    ("to two", 3, [[BROKER, ANOTHER]]),
    ("the second wrong", 4, [[BROKER], [ANOTHER]]),
    ("several wrong", 5, [[BROKER], [], [ANOTHER]]),
)


def refused(count: int, assigned: Assigned, *, validate_only: bool) -> Function:
    def case(on: Ground) -> Values:
        topic = new_partitions(on, on.topic, count, assigned)
        return request(topic, validate_only=validate_only)

    return case


for name, count, assigned in WRONG:
    CASES.add(name, refused(count, assigned, validate_only=False), topics=[SHARED])
    CASES.add(f"{name}, validating", refused(count, assigned, validate_only=True), topics=[SHARED])


def named(*names: str | None) -> Function:
    return lambda on: request(*(new_partitions(on, name, 3) for name in names))


for bad in ("", ".", "..", "a b", "ä", "x" * 250, "__cluster_metadata"):
    CASES.add(f"named {bad[:12]!r}", named(bad), topics=[])
CASES.add("unknown names", named("nobody-1", "nobody-2", "a b", ""), topics=[])
CASES.add("a null name", named(None), topics=[])

# -- several --------------------------------------------------------------------------------


@CASES.case(topics=[Topic("a"), Topic("b", partitions=2), Topic("c")])
def good_and_bad_ones(on: Ground) -> Script:
    a, b, c = (on.name(label) for label in "abc")
    topics = [
        new_partitions(on, a, 3),
        new_partitions(on, b, 2),
        new_partitions(on, on.unused("x"), 3),
        new_partitions(on, c, 2),
    ]
    yield on.ask(**request(*topics))
    yield from extended(on, a, 3)
    yield from extended(on, c, 2)
    yield from made(on, [b])


@CASES.case(topics=[Topic("a"), Topic("b")])
def a_name_twice(on: Ground) -> Script:
    a, b = on.name("a"), on.name("b")
    yield on.ask(
        **request(new_partitions(on, a, 2), new_partitions(on, b, 2), new_partitions(on, a, 3))
    )
    yield from extended(on, b, 2)
    yield from made(on, [a])


CASES.add("an unknown name twice", lambda on: request(*[new_partitions(on, "x", 2)] * 2), topics=[])
CASES.add("a name three times", lambda on: request(*[new_partitions(on, "x", 2)] * 3), topics=[])
CASES.add("nothing", lambda on: request(), topics=[])


@CASES.case(topics=[TWO])
def twice_in_a_row(on: Ground) -> Script:
    for count in (4, 4, 3, 6):
        yield on.ask(**request(new_partitions(on, on.topic, count)))
        yield from extended(on, on.topic, max(4, count))


@CASES.case(topics=[TWO])
def validating(on: Ground) -> Script:
    yield on.ask(**request(new_partitions(on, on.topic, 9), validate_only=True))
    assigned = new_partitions(on, on.topic, 3, [[BROKER]])
    yield on.ask(**request(assigned, validate_only=True))
    yield from made(on, [on.topic])


@CASES.case(topics=[TWO])
def and_write_to_the_new_one(on: Ground) -> Script:
    yield on.ask(**request(new_partitions(on, on.topic, 3)), compared=False)
    yield from extended(on, on.topic, 3)
    yield on.other("Produce", 8, **_producing(on.topic))
    offsets = {"name": on.topic, "partitions": [{"partition_index": 2, "timestamp": -1}]}
    yield on.other("ListOffsets", 5, replica_id=-1, isolation_level=0, topics=[offsets])


def _producing(topic: str) -> Values:
    partition = {"index": 2, "records": bytes(build())}
    data = {"name": topic, "partition_data": [partition]}
    return {"acks": -1, "timeout_ms": 30_000, "topic_data": [data]}


# -- too many, time, nulls ------------------------------------------------------------------


@CASES.case(topics=[SHARED])
def more_than_one_request_may_make(on: Ground) -> Values:
    return request(new_partitions(on, on.topic, 10_003), validate_only=True)


@CASES.case(topics=[SHARED])
def as_many_as_one_request_may_make(on: Ground) -> Values:
    return request(new_partitions(on, on.topic, 10_002), validate_only=True)


def without_time(timeout_ms: int) -> Function:
    def script(on: Ground) -> Script:
        x = on.unused("x")
        topics = [
            new_partitions(on, on.topic, 5),
            new_partitions(on, x, 1),
            new_partitions(on, x, 2),
        ]
        yield on.ask(**request(*topics, timeout_ms=timeout_ms))
        yield on.ask(**request(*topics[1:], timeout_ms=timeout_ms))
        yield on.ask(**request(timeout_ms=timeout_ms))
        yield from made(on, [on.topic])

    return script


for timeout_ms in (0, -1, -(2**31)):
    CASES.add(f"timeout {timeout_ms}", without_time(timeout_ms), topics=[TWO])

CASES.add("null topics", lambda on: {**request(), "topics": None}, topics=[])


@CASES.case(topics=[SHARED])
def null_brokers(on: Ground) -> Values:
    topic = new_partitions(on, on.topic, 3)
    return request(topic | {"assignments": [{"broker_ids": None}]})


add_frames(CASES, lambda on: request(new_partitions(on, on.unused("x"), 3)), topics=[])
