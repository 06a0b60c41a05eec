"""Fetch: offsets in and around the log, limits, sessions, epochs, followers, and what is not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from kavka.compat_tests.raw.case import Cases, Function, Ground, Script, Topic, Values
from kavka.compat_tests.raw.codec.batches import CODECS, Written, build, patch
from kavka.compat_tests.raw.frames import add_frames, add_odd_names
from kavka.compat_tests.raw.topics import GROUP_TOPIC

CASES = Cases("Fetch")

UNKNOWN_ID = UUID(int=0x77777777)
MIB = 1 << 20
ZEROS = bytes(500)

EMPTY = Topic("empty", partitions=2, shared=True)
SIX = Topic(
    "six",
    partitions=2,
    batches=(
        build([Written(), Written()]),
        build([Written(b"k", ZEROS), Written(None, None)], codec="gzip"),
        build([Written(value=ZEROS, headers=(("h", b"1"),)), Written()]),
    ),
    shared=True,
)
ZSTD = Topic("zstd", batches=(build([Written(value=ZEROS)] * 3, codec="zstd"),), shared=True)
MINE = Topic("mine", partitions=2, batches=(build(), build()))


def partition(index: int = 0, offset: int = 0, **more: Any) -> Values:
    return {
        "partition": index,
        "current_leader_epoch": -1,
        "fetch_offset": offset,
        "last_fetched_epoch": -1,
        "log_start_offset": -1,
        "partition_max_bytes": MIB,
        **more,
    }


def of(on: Ground, label: str, *partitions: Values) -> Values:
    return {"topic": on.name(label), "topic_id": on.id(label), "partitions": list(partitions)}


def fetching(topics: Sequence[Values], **more: Any) -> Values:
    """Answered at once, outside a session unless `more` says so."""
    return {
        "replica_id": -1,
        "max_wait_ms": 0,
        "min_bytes": 0,
        "max_bytes": 50 * MIB,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": -1,
        "topics": list(topics),
        "forgotten_topics_data": [],
        **more,
    }


def reading(topic: Topic, *partitions: Values, **more: Any) -> tuple[Function, Sequence[Topic]]:
    def case(on: Ground) -> Values:
        return fetching([of(on, topic.label, *partitions)], **more)

    return case, [topic]


def add(
    name: str, made: tuple[Function, Sequence[Topic]], since: int = 0, until: int | None = None
) -> None:
    function, topics = made
    CASES.add(name, function, topics=topics, since=since, until=until)


add_frames(CASES, lambda on: fetching([of(on, "six", partition())]), topics=[SIX])

# -- offsets --------------------------------------------------------------------------------

for offset in range(7):
    add(f"offset {offset} of 6", reading(SIX, partition(0, offset)))
for offset in (-1, -2, -(2**63), 7, 2**63 - 1):
    add(f"offset {offset}", reading(SIX, partition(0, offset)))
for offset in (0, 1, -1):
    add(f"offset {offset} of an empty log", reading(EMPTY, partition(0, offset)))

# -- limits ---------------------------------------------------------------------------------

for limit in (0, 1, 60, 79, 80, 81, 150, 200, 300, 2**31 - 1):
    add(f"partition_max_bytes {limit}", reading(SIX, partition(0, 0, partition_max_bytes=limit)))
    add(f"max_bytes {limit}", reading(SIX, partition(), max_bytes=limit))
for limit in (-1, -(2**31)):
    add(f"partition_max_bytes {limit}", reading(SIX, partition(0, 0, partition_max_bytes=limit)))
    add(f"max_bytes {limit}", reading(SIX, partition(), max_bytes=limit))
    two = partition(0), partition(1)
    add(f"max_bytes {limit} for two partitions", reading(SIX, *two, max_bytes=limit))
add(
    "max_bytes below the second partition's", reading(SIX, partition(0), partition(1), max_bytes=90)
)
for wait in (0, 1, 5, -1):
    add(
        f"max_wait_ms {wait} for more than there is",
        reading(SIX, partition(), max_wait_ms=wait, min_bytes=MIB),
    )
for least in (-1, 0, 1, 2**31 - 1):
    add(f"min_bytes {least} at the end", reading(SIX, partition(0, 6), min_bytes=least))


@CASES.case(topics=[SIX, MINE])
def limits_over_several_topics(on: Ground) -> Values:
    topics = [of(on, "six", partition()), of(on, "mine", partition(0), partition(1))]
    return fetching(topics, max_bytes=300)


# -- old consumers --------------------------------------------------------------------------

SHAPES = [
    Written(None, b"v", (("header", b"1"),)),
    Written(b"", None, time_ms=-5),
    Written(b"key", b"", time_ms=7),
    Written(None, None, (("", None),)),
    Written(b"k" * 300, b"v" * 400, time_ms=3),
]
OLD = tuple(
    Topic(f"old-{codec}", batches=[build(SHAPES, codec=codec)] * 3, shared=True) for codec in CODECS
)
BY_LOG = Topic(
    "by-log",
    configs={"message.timestamp.type": "LogAppendTime"},
    batches=[build(SHAPES), build(SHAPES, codec="gzip")],
    shared=True,
)
MANY = Topic("many", batches=[build([Written(b"%d" % n) for n in range(500)])] * 3, shared=True)
MIXED = Topic(
    "mixed", batches=[build(codec="snappy"), build(codec="zstd"), build(SHAPES)], shared=True
)
TIMELESS = Topic(
    "timeless", batches=[patch(build(), base_timestamp=-1, max_timestamp=-1)], shared=True
)
NOT_CONVERTED = Topic("not-converted", configs={"message.downconversion.enable": "false"})
ZSTD_WANTED = Topic("zstd-wanted", configs={"compression.type": "zstd"}, shared=True)

for topic in (*OLD, BY_LOG, TIMELESS):
    for offset in (0, 2, 5, 7):
        add(f"old: offset {offset} of {topic.label}", reading(topic, partition(0, offset)), until=3)
for limit in (5_000, 12_000, 20_000, 30_000):
    add(f"old: {limit} bytes of many", reading(MANY, partition(partition_max_bytes=limit)), until=3)
    add(f"old: {limit} bytes of all, many", reading(MANY, partition(), max_bytes=limit), until=3)
add("old: within many", reading(MANY, partition(0, 777)), until=3)
for offset in (0, 3, 6):
    add(f"old: offset {offset} of mixed", reading(MIXED, partition(0, offset)), until=3)
for offset in (0, -1, 1):
    case = reading(NOT_CONVERTED, partition(0, offset), max_wait_ms=100)
    add(f"conversion is disabled, offset {offset}", case, until=3)
    case = reading(ZSTD_WANTED, partition(0, offset))
    add(f"a topic of zstd, offset {offset}", case, until=3)

# -- isolation ------------------------------------------------------------------------------

for level in (1, 2, -1, 127):
    add(f"isolation level {level}", reading(SIX, partition(), isolation_level=level))
    add(f"isolation level {level} at the end", reading(SIX, partition(0, 6), isolation_level=level))
    add(
        f"isolation level {level} past the end",
        reading(SIX, partition(0, 9), isolation_level=level),
    )

# -- what there is not ----------------------------------------------------------------------


def elsewhere(name: str | None, index: int = 0, **more: Any) -> Function:
    def case(on: Ground) -> Values:
        topic = on.unused("body") if name is None else name
        found = {"topic": topic, "topic_id": UNKNOWN_ID, "partitions": [partition(index)]}
        return fetching([found], **more)

    return case


CASES.add("an unknown topic", elsewhere(None), topics=[])
CASES.add("an unknown topic in a new session", elsewhere(None, session_epoch=0), topics=[])
for name in ("", ".", "a/b", "x" * 300, "тест", "__cluster_metadata"):
    CASES.add(f"topic '{name[:20]}'", elsewhere(name), until=12, topics=[])


@CASES.case(until=12, topics=[])
def behind_the_end_of_an_internal_topic(on: Ground) -> Values:
    """Where there is one by then: what is in it are the groups of other cases."""
    at = {"topic": GROUP_TOPIC, "topic_id": UNKNOWN_ID, "partitions": [partition(0, 2**40)]}
    return fetching([at])


for index in (2, -1, 2**31 - 1):
    add(f"partition {index}", reading(SIX, partition(index)))


@CASES.case(since=13, topics=[])
def no_topic_id(on: Ground) -> Values:
    return fetching([{"topic": "", "topic_id": None, "partitions": [partition()]}])


@CASES.case(topics=[])
def no_topics(on: Ground) -> Values:
    return fetching([])


@CASES.case(topics=[SIX])
def no_partitions(on: Ground) -> Values:
    return fetching([of(on, "six")])


@CASES.case(topics=[SIX])
def unknown_and_known(on: Ground) -> Values:
    unknown = {"topic": on.unused("body"), "topic_id": UNKNOWN_ID, "partitions": [partition()]}
    return fetching([unknown, of(on, "six", partition(5), partition(0), partition(1))])


@CASES.case(topics=[SIX])
def a_partition_twice(on: Ground) -> Values:
    return fetching([of(on, "six", partition(0, 0), partition(0, 2))])


@CASES.case(topics=[SIX])
def a_topic_twice(on: Ground) -> Values:
    return fetching([of(on, "six", partition(0, 0)), of(on, "six", partition(0, 2))])


@CASES.case(topics=[SIX, EMPTY])
def topics_in_turns(on: Ground) -> Values:
    return fetching(
        [of(on, "six", partition(0)), of(on, "empty", partition(0)), of(on, "six", partition(1))]
    )


add("zstd", reading(ZSTD, partition()))
add("zstd at the end", reading(ZSTD, partition(0, 3)))

# -- epochs (KIP-320, KIP-595) --------------------------------------------------------------

for epoch in (0, 1, 7, -1, -2, -(2**31)):
    add(f"leader epoch {epoch}", reading(SIX, partition(0, 0, current_leader_epoch=epoch)), since=9)
    add(
        f"last fetched epoch {epoch}",
        reading(SIX, partition(0, 2, last_fetched_epoch=epoch)),
        since=12,
    )
    add(
        f"last fetched epoch {epoch} of an empty log",
        reading(EMPTY, partition(0, 0, last_fetched_epoch=epoch)),
        since=12,
    )
add(
    "last fetched epoch 0 past the end",
    reading(SIX, partition(0, 9, last_fetched_epoch=0)),
    since=12,
)
add(
    "a wrong epoch of an unknown partition",
    reading(SIX, partition(4, 0, current_leader_epoch=9)),
    since=9,
)
add(
    "a wrong epoch and a wrong offset",
    reading(SIX, partition(0, 99, current_leader_epoch=9)),
    since=9,
)

# -- followers, which a standalone broker does not have -------------------------------------------

for replica in (0, 1, 7, -2, -3):
    add(f"replica {replica}", reading(SIX, partition(), replica_id=replica), until=14)
    state = {"replica_id": replica, "replica_epoch": -1}
    CASES.add(
        f"replica state {replica}",
        reading(SIX, partition(), replica_state=state)[0],
        topics=[SIX],
        since=15,
    )

add("a rack", reading(SIX, partition(), rack_id="here"), since=11)
add("a cluster id", reading(SIX, partition(), cluster_id="not-this-one"), since=12)

# -- sessions (KIP-227) ---------------------------------------------------------------------

for session, epoch in ((0, 1), (0, 5), (77, 0), (77, 1), (77, -1), (-5, 3), (77, -2), (0, -7)):
    add(
        f"session {session} at epoch {epoch}",
        reading(SIX, partition(), session_id=session, session_epoch=epoch),
        since=7,
    )


def opened(on: Ground, *topics: Values) -> Any:
    return on.ask(**fetching(topics, session_epoch=0))


def going_on(on: Ground, session: int, epoch: int, *topics: Values, **more: Any) -> Any:
    return on.ask(**fetching(topics, session_id=session, session_epoch=epoch, **more))


@CASES.case(since=7, topics=[SIX])
def a_session_without_news(on: Ground) -> Script:
    first = yield opened(on, of(on, "six", partition(0, 6), partition(1, 0)))
    yield going_on(on, first["session_id"], 1)
    yield going_on(on, first["session_id"], 2)


@CASES.case(since=7, topics=[SIX, EMPTY])
def a_session_is_changed(on: Ground) -> Script:
    first = yield opened(on, of(on, "six", partition(0, 0), partition(1, 0)))
    session = first["session_id"]
    yield going_on(on, session, 1, of(on, "six", partition(0, 6)))
    yield going_on(on, session, 2, of(on, "empty", partition(0)))
    yield going_on(on, session, 3, of(on, "six", partition(0, 2)))
    gone = {"topic": on.name("six"), "topic_id": on.id("six"), "partitions": [0]}
    yield going_on(on, session, 4, forgotten_topics_data=[gone])
    yield going_on(on, session, 5)


@CASES.case(since=7, topics=[SIX])
def a_session_at_the_wrong_epoch(on: Ground) -> Script:
    first = yield opened(on, of(on, "six", partition(0, 6)))
    session = first["session_id"]
    yield going_on(on, session, 2)
    yield going_on(on, session, 1)
    yield going_on(on, session, 1)
    yield going_on(on, session, 2)


@CASES.case(since=7, topics=[SIX])
def a_session_is_closed(on: Ground) -> Script:
    first = yield opened(on, of(on, "six", partition(0, 6)))
    session = first["session_id"]
    yield going_on(on, session, -1)
    yield going_on(on, session, 1)


@CASES.case(since=7, topics=[SIX])
def a_session_is_started_again(on: Ground) -> Script:
    first = yield opened(on, of(on, "six", partition(0, 6)))
    again = yield going_on(on, first["session_id"], 0, of(on, "six", partition(1, 0)))
    yield going_on(on, first["session_id"], 1)
    yield going_on(on, again["session_id"], 1)


@CASES.case(since=7, topics=[SIX])
def everything_is_forgotten(on: Ground) -> Script:
    first = yield opened(on, of(on, "six", partition(0, 6)))
    gone = {"topic": on.name("six"), "topic_id": on.id("six"), "partitions": [0]}
    yield going_on(on, first["session_id"], 1, forgotten_topics_data=[gone])
    yield going_on(on, first["session_id"], 2)


@CASES.case(since=7, topics=[SIX])
def what_is_forgotten_is_named_too(on: Ground) -> Script:
    first = yield opened(on, of(on, "six", partition(0, 6), partition(1, 0)))
    gone = {"topic": on.name("six"), "topic_id": on.id("six"), "partitions": [0, 2]}
    named = of(on, "six", partition(0, 2), partition(2, 0))
    yield going_on(on, first["session_id"], 1, named, forgotten_topics_data=[gone])
    yield going_on(on, first["session_id"], 2, of(on, "six", partition(1, 1)))


@CASES.case(since=7, topics=[SIX])
def what_is_not_there_is_forgotten(on: Ground) -> Script:
    first = yield opened(on, of(on, "six", partition(0, 6)))
    gone = [
        {"topic": on.name("six"), "topic_id": on.id("six"), "partitions": [1, 9]},
        {"topic": on.unused("body"), "topic_id": UNKNOWN_ID, "partitions": [0]},
    ]
    yield going_on(on, first["session_id"], 1, forgotten_topics_data=gone)


@CASES.case(since=7, topics=[SIX])
def an_error_stays_news(on: Ground) -> Script:
    first = yield opened(on, of(on, "six", partition(0, 99), partition(7, 0), partition(1, 0)))
    yield going_on(on, first["session_id"], 1)
    yield going_on(on, first["session_id"], 2, of(on, "six", partition(0, 6)))
    yield going_on(on, first["session_id"], 3)


@CASES.case(since=7, topics=[SIX])
def an_unknown_topic_stays_news(on: Ground) -> Script:
    unknown = {"topic": on.unused("body"), "topic_id": UNKNOWN_ID, "partitions": [partition()]}
    first = yield opened(on, of(on, "six", partition(0, 6)), unknown)
    yield going_on(on, first["session_id"], 1)
    yield going_on(on, first["session_id"], 2)


@CASES.case(since=7, topics=[MINE])
def new_records_are_news(on: Ground) -> Script:
    first = yield opened(on, of(on, "mine", partition(0, 6), partition(1, 0)))
    session = first["session_id"]
    topic = {"name": on.name("mine"), "partition_data": [{"index": 1, "records": bytes(build())}]}
    yield on.other("Produce", 8, acks=-1, timeout_ms=5000, topic_data=[topic])
    yield going_on(on, session, 1)
    yield going_on(on, session, 2, of(on, "mine", partition(1, 3)))
    yield going_on(on, session, 3)


@CASES.case(since=7, topics=[SIX, EMPTY, ZSTD])
def partitions_take_turns(on: Ground) -> Script:
    """A partition that returned records goes to the end of the line."""
    first = yield opened(
        on,
        of(on, "six", partition(0, 0)),
        of(on, "zstd", partition(0, 0)),
        of(on, "empty", partition(0, 0)),
    )
    session = first["session_id"]
    yield going_on(on, session, 1, max_bytes=1)
    yield going_on(on, session, 2, max_bytes=1)
    yield going_on(on, session, 3, max_bytes=1)


@CASES.case(since=13, topics=[SIX])
def a_session_by_id_goes_on_by_name(on: Ground) -> Script:
    first = yield opened(on, of(on, "six", partition(0, 6)))
    topic = {"topic": on.name("six"), "partitions": [partition(1, 0)]}
    yield on.other(
        "Fetch", 12, **fetching([topic], session_id=first["session_id"], session_epoch=1)
    )


@CASES.case(since=7, until=12, topics=[SIX])
def a_session_by_name_goes_on_by_id(on: Ground) -> Script:
    first = yield opened(on, of(on, "six", partition(0, 6)))
    topic = of(on, "six", partition(1, 0))
    yield on.other(
        "Fetch", 13, **fetching([topic], session_id=first["session_id"], session_epoch=1)
    )


add_odd_names(
    CASES,
    lambda name: fetching([{"topic": name, "topic_id": None, "partitions": [partition()]}]),
    until=12,
)
