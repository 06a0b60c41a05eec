"""CreateTopics: names, counts, assignments, settings, the order of checks, and what is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, TypeAlias

from kavka.compat_tests.raw.case import (
    PARTITIONS_MAX,
    Cases,
    Function,
    Ground,
    Script,
    Topic,
    Values,
)
from kavka.compat_tests.raw.codec.wire_client import new_topic
from kavka.compat_tests.raw.frames import add_frames
from kavka.compat_tests.raw.topics import made

CASES = Cases("CreateTopics")

NewTopic: TypeAlias = dict[str, Any]
Describe: TypeAlias = Callable[[Ground], NewTopic]

THERE = Topic("there.topic", shared=True)
VALIDATES_SINCE = 1
ANOTHER = 1_234_567
"""Not the id of the broker."""


def request(*topics: NewTopic | None, **more: Any) -> Values:
    return {"timeout_ms": 60_000, "topics": list(topics), **more}


def creating(*describe: Describe, many: bool = False) -> Function:
    """Make topics, and see what there is then. `many`: they have too many partitions."""

    def script(on: Ground) -> Script:
        if many:
            on.needs_limit()
        topics = [description(on) for description in describe]
        answer = yield on.ask(**request(*topics))
        created = [topic["name"] for topic in answer["topics"] if not topic["error_code"]]
        yield from made(on, created)

    return script


def new(
    partitions: int = 1,
    replicas: int = 1,
    *,
    label: str = "new",
    assigned: Sequence[tuple[int, Sequence[int | None]]] = (),
    configs: Sequence[tuple[str | None, str | None]] = (),
) -> Describe:
    """A topic; in an assignment None stands for the broker."""

    def describe(on: Ground) -> NewTopic:
        topic = new_topic(on.unused(label), partitions, replicas)
        topic["assignments"] = [
            {
                "partition_index": index,
                "broker_ids": [on.broker_id if broker is None else broker for broker in brokers],
            }
            for index, brokers in assigned
        ]
        topic["configs"] = [{"name": key, "value": value} for key, value in configs]
        return topic

    return describe


def named(name: str | None, **more: Any) -> Describe:
    return lambda on: new(**more)(on) | {"name": name}


def there(**more: Any) -> Describe:
    return lambda on: new(**more)(on) | {"name": on.topic}


OTHERWISE_IN_3_9 = (
    "wrong: *",
    "too many *",
    "assigned, with *",
    "assigned: * broker*",
    "assigned: a negative partition",
    "assigned: a partition twice*",
    "assigned: one known, one unknown",
    "assigned: other numbers of replicas",
    "* name twice",
    "* is there twice",
    "*name three times",
    "*__cluster_metadata*",
    "a bad name, and *",
    "an unknown setting, and *",
    "all refused",
    "good and bad ones",
    "names that collide*",
    "setting segment.bytes*",
    "timeout*",
)
"""Cases that Apache Kafka 3.9.2, the judge of versions 0 and 1, answers in other words or after
other checks than 4.3.1 does in version 2. Kavka answers all versions alike: as 4.3.1."""

NEW_SINCE = 2


def since(name: str) -> int:
    otherwise = any(fnmatchcase(name, pattern) for pattern in OTHERWISE_IN_3_9)
    return NEW_SINCE if otherwise else 0


def add(name: str, *describe: Describe, many: bool = False) -> None:
    CASES.add(name, creating(*describe, many=many), since=since(name), topics=[THERE])


# -- counts ---------------------------------------------------------------------------------

for partitions, replicas in ((1, 1), (3, 1), (-1, 1), (1, -1), (-1, -1)):
    add(f"{partitions} partitions, {replicas} replicas", new(partitions, replicas))

for partitions, replicas in (
    (0, 1),
    (-2, 1),
    (-(2**31), 1),
    (1, 0),
    (1, -2),
    (0, 0),
    (0, 2),
    (10_001, 1),
    (2**31 - 1, 1),
    (20_000, 0),
):
    many = partitions > PARTITIONS_MAX
    add(
        f"wrong: {partitions} partitions, {replicas} replicas",
        new(partitions, replicas),
        many=many,
    )

for partitions, replicas in ((1, 2), (1, 2**15 - 1), (-1, 3)):
    add(f"too many replicas: {replicas}", new(partitions, replicas))

# -- assignments ----------------------------------------------------------------------------

BROKER = None

ASSIGNMENTS: Mapping[str, Sequence[tuple[int, Sequence[int | None]]]] = {
    "one partition": [(0, [BROKER])],
    "partitions in any order": [(1, [BROKER]), (0, [BROKER]), (2, [BROKER])],
    "a gap": [(0, [BROKER]), (2, [BROKER])],
    "not from 0": [(1, [BROKER])],
    "a negative partition": [(-1, [BROKER])],
    "an unknown broker": [(0, [ANOTHER])],
    "a negative broker": [(0, [-1])],
    "no brokers": [(0, [])],
    "a broker twice": [(0, [BROKER, BROKER])],
    "an unknown broker twice": [(0, [ANOTHER, ANOTHER])],
    "one known, one unknown": [(0, [BROKER, ANOTHER])],
    "other numbers of replicas": [(0, [BROKER]), (1, [BROKER, ANOTHER])],
    "a partition twice": [(0, [BROKER]), (0, [BROKER])],
    "a partition twice, the second wrong": [(0, [BROKER]), (0, [ANOTHER])],
    "a partition twice, the first wrong": [(0, [ANOTHER]), (0, [BROKER])],
}

for how, assigned in ASSIGNMENTS.items():
    add(f"assigned: {how}", new(-1, -1, assigned=assigned))

for partitions, replicas in ((1, -1), (-1, 1), (1, 1), (0, -1), (-1, 0)):
    add(
        f"assigned, with {partitions} partitions, {replicas} replicas",
        new(partitions, replicas, assigned=[(0, [ANOTHER])]),
    )

# -- settings -------------------------------------------------------------------------------

SETTINGS: Sequence[tuple[str, str]] = (
    ("retention.ms", "1000"),
    ("retention.ms", "-1"),
    ("retention.ms", "-2"),
    ("retention.ms", "abc"),
    ("retention.ms", ""),
    ("retention.ms", "9223372036854775808"),
    ("cleanup.policy", "compact"),
    ("cleanup.policy", "compact,delete"),
    ("cleanup.policy", "none"),
    ("compression.type", "gzip"),
    ("compression.type", "zip"),
    ("min.insync.replicas", "0"),
    ("message.timestamp.type", "Never"),
    ("segment.bytes", "13"),
    ("unclean.leader.election.enable", "yes"),
    ("no.such.setting", "1"),
    ("", "1"),
)

for key, value in SETTINGS:
    add(f"setting {key}={value}", new(configs=[(key, value)]))

add("settings: several", new(configs=[("retention.ms", "5"), ("flush.ms", "6")]))
add("settings: that contradict", new(configs=[("min.compaction.lag.ms", "9223372036854775807")]))
LONG = "1" * 32_768
for name, second in ("too long", "x"), ("too long, and null", None):
    settings = [("no.such", LONG), ("flush.ms", second)]
    CASES.add(f"settings: {name}", creating(new(configs=settings)), since=5, topics=[THERE])
add("settings: null", new(configs=[("retention.ms", None)]))
add("settings: two null", new(configs=[("b", None), ("retention.ms", "5"), ("a", None)]))
add("settings: twice", new(configs=[("retention.ms", "5"), ("retention.ms", "6")]))
add("settings: twice, null first", new(configs=[("retention.ms", None), ("retention.ms", "6")]))
add("settings: twice, null last", new(configs=[("retention.ms", "6"), ("retention.ms", None)]))

# -- names ----------------------------------------------------------------------------------

for bad in ("", ".", "..", "a b", "ä", "a/b", "a:b", "a,b", "a\0b", "a\nb", "x" * 250, "😀"):
    add(f"named {bad[:5]!r}", named(bad))

add("named __cluster_metadata", named("__cluster_metadata"), new())
add("named as one that is there", there())
add("names that collide with one that is there", lambda on: _colliding(on))
add("names that collide with each other", new(label="a.b"), new(label="a_b"))


def _colliding(on: Ground) -> NewTopic:
    return new()(on) | {"name": on.topic.replace(".", "_")}


@CASES.case(topics=[])
def a_name_as_long_as_may_be(on: Ground) -> Script:
    name = on.unused("long").ljust(249, "x")
    yield on.ask(**request(new_topic(name)))
    yield from made(on, [name])


@CASES.case(since=VALIDATES_SINCE, topics=[])
def the_names_of_internal_topics(on: Ground) -> Values:
    names = ("__consumer_offsets", "__transaction_state", "__share_group_state")
    return request(*(new_topic(name) for name in names), validate_only=True)


# -- several at a time, and the order of checks ---------------------------------------------

add("a name twice", new(label="a"), new(label="b"), new(label="a"))
add("a name three times", new(label="a"), new(2, label="a"), new(3, label="a"))
add("a bad name twice", named("a b"), new(), named("a b"))
add("the name of one that is there twice", there(), new(), there())
add("__cluster_metadata twice", named("__cluster_metadata"), named("__cluster_metadata"), new())
add("all refused", named("__cluster_metadata"), named("x", partitions=2), named("x"))
add("good and bad ones", new(label="a"), named("a b"), there(), new(0, label="b"), new(label="c"))
add(
    "too many partitions in all",
    new(9_000, label="a"),
    new(1_001, label="b"),
    named("a b"),
    many=True,
)

WRONG: Mapping[str, Any] = {
    "null setting": {"configs": [("retention.ms", None)]},
    "unknown setting": {"configs": [("no.such", "1")]},
    "bad value": {"configs": [("retention.ms", "x")]},
    "bad assignment": {"partitions": -1, "replicas": -1, "assigned": [(0, [ANOTHER])]},
    "no partitions": {"partitions": 0},
    "too many replicas": {"replicas": 5},
}

for fault, wrong in WRONG.items():
    add(f"there already, and {fault}", there(**wrong))
    add(f"a bad name, and {fault}", named("a b", **wrong))
    add(f"an unknown setting, and {fault}", new(**{"configs": [("no.such", "1")], **wrong}))
    add(f"a null setting, and {fault}", new(**{"configs": [("a", None)], **wrong}))

# -- validating only, time ------------------------------------------------------------------


@CASES.case(since=VALIDATES_SINCE, topics=[THERE])
def validating_one_that_can_be(on: Ground) -> Script:
    topic = new(3, configs=[("retention.ms", "5")])(on)
    yield on.ask(**request(topic, validate_only=True))
    yield from made(on, [], unmade=[topic["name"]])


@CASES.case(since=NEW_SINCE, topics=[THERE])
def validating(on: Ground) -> Script:
    topics = [
        new(3, label="a", configs=[("retention.ms", "5")])(on),
        new(-1, -1, label="b", assigned=[(0, [BROKER]), (1, [BROKER])])(on),
        named("a b")(on),
        there()(on),
        new(label="c", configs=[("x", "y")])(on),
        new(0, label="d")(on),
        new(label="e.f")(on),
        new(label="e_f")(on),
    ]
    yield on.ask(**request(*topics, validate_only=True))
    yield from made(on, [], unmade=[topic["name"] for topic in topics[:2]])


def without_time(timeout_ms: int) -> Function:
    def script(on: Ground) -> Script:
        topics = [new(label="a")(on), new(label="b")(on), new(label="b")(on), named("a b")(on)]
        yield on.ask(**request(*topics, timeout_ms=timeout_ms))
        yield on.ask(**request(topics[1], topics[1], timeout_ms=timeout_ms))
        yield from made(on, [], unmade=[topics[0]["name"]])

    return script


for timeout_ms in (0, -1, -(2**31)):
    name = f"timeout {timeout_ms}"
    CASES.add(name, without_time(timeout_ms), since=since(name), topics=[])

CASES.add("no topics", lambda on: request(), topics=[])
CASES.add("no topics and no time", lambda on: request(timeout_ms=0), topics=[])
CASES.add("null topics", lambda on: {**request(), "topics": None}, topics=[])
CASES.add("a null name", lambda on: request(named(None)(on)), topics=[])
CASES.add("null assignments", lambda on: request(new()(on) | {"assignments": None}), topics=[])
CASES.add("null configs", lambda on: request(new()(on) | {"configs": None}), topics=[])


@CASES.case(topics=[])
def null_brokers(on: Ground) -> Values:
    topic = new(-1, -1)(on)
    return request(topic | {"assignments": [{"partition_index": 0, "broker_ids": None}]})


@CASES.case(topics=[])
def a_null_setting_name(on: Ground) -> Values:
    return request(new(configs=[(None, "1")])(on))


add_frames(CASES, lambda on: request(named("a b")(on)), topics=[])
