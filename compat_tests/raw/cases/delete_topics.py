"""DeleteTopics: by name and by id, named twice and in two ways, what is not there, and time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

from kavka.compat_tests.raw.case import Cases, Function, Ground, Script, Step, Topic, Values
from kavka.compat_tests.raw.frames import add_frames
from kavka.compat_tests.raw.topics import gone

CASES = Cases("DeleteTopics")

IDS_SINCE = 6
NEW_SINCE = 1
"""Apache Kafka 4.3.1 judges these versions. 3.9.2, the judge of version 0, deletes a topic that is
named twice, and begins to work on a request whose time is over. Kavka answers all versions alike:
as 4.3.1."""

UNKNOWN_ID = UUID(int=5 << 64)
A, B, C = Topic("a"), Topic("b", partitions=3), Topic("c")


def request(on: Ground, names: Sequence[str | None], **more: Any) -> Values:
    """Topics by name, in the field that the version has."""
    fields: dict[str, Any] = {"timeout_ms": 60_000}
    if on.version < IDS_SINCE:
        fields["topic_names"] = list(names)
    else:
        fields["topics"] = [{"name": name, "topic_id": None} for name in names]
    return {**fields, **more}


def by_id(*topics: tuple[str | None, UUID | None], **more: Any) -> Values:
    requested = [{"name": name, "topic_id": topic_id} for name, topic_id in topics]
    return {"timeout_ms": 60_000, "topics": requested, **more}


def deleting(names: Callable[[Ground], Sequence[str]], expect: Sequence[str] = ()) -> Function:
    """Delete, and see that of the case's topics those of `expect` are no more."""

    def script(on: Ground) -> Script:
        yield on.ask(**request(on, names(on)))
        yield from left(on, expect)

    return script


def left(on: Ground, deleted: Sequence[str]) -> Script:
    """What is left of the case's topics."""
    kept = [
        topic.label for topic in on.case.topics if topic.label not in deleted and not topic.shared
    ]
    yield from gone(
        on, [on.name(label) for label in deleted], kept=[on.name(label) for label in kept]
    )


def named(*names: str) -> Callable[[Ground], Sequence[str]]:
    return lambda on: names


CASES.add("one", deleting(lambda on: [on.topic], ["a"]), topics=[A])
CASES.add("two", deleting(lambda on: [on.name("b"), on.name("a")], "ba"), topics=[A, B, C])
CASES.add(
    "one of those named is there",
    deleting(lambda on: [on.unused("x"), on.topic, on.unused("y")], ["a"]),
    topics=[A, B],
)
CASES.add("a name twice", deleting(lambda on: [on.topic] * 2), since=NEW_SINCE, topics=[A])
CASES.add("a name thrice", deleting(lambda on: [on.topic] * 3), since=NEW_SINCE, topics=[A])
CASES.add(
    "an unknown name twice",
    deleting(lambda on: [on.unused("x")] * 2),
    since=NEW_SINCE,
    topics=[],
)
CASES.add(
    "one twice and one once",
    deleting(lambda on: [on.topic, on.name("b"), on.topic], ["b"]),
    since=NEW_SINCE,
    topics=[A, B],
)
for bad in ("", ".", "..", "a b", "ä", "a/b", "x" * 250, "__cluster_metadata"):
    CASES.add(f"named {bad[:12]!r}", deleting(named(bad)), topics=[])
CASES.add("nothing", deleting(lambda on: []), topics=[])


@CASES.case(topics=[A])
def again(on: Ground) -> Script:
    yield on.ask(**request(on, [on.topic]))
    yield from left(on, ["a"])
    yield on.ask(**request(on, [on.topic]))


@CASES.case(since=NEW_SINCE, topics=[A])
def and_make_it_again(on: Ground) -> Script:
    yield on.ask(**request(on, [on.topic]))
    yield from left(on, ["a"])
    topic = {"name": on.topic, "num_partitions": 2, "replication_factor": 1}
    lists: dict[str, Any] = {"assignments": [], "configs": []}
    yield on.other(
        "CreateTopics", 4, timeout_ms=60_000, topics=[topic | lists], validate_only=False
    )
    yield on.ask(compared=False, **request(on, [on.topic]))  # its id is unknown
    yield from left(on, ["a"])


def without_time(timeout_ms: int) -> Function:
    def script(on: Ground) -> Script:
        names = [on.topic, on.unused("x"), on.unused("y"), on.unused("y")]
        yield on.ask(**request(on, names, timeout_ms=timeout_ms))
        yield on.ask(**request(on, names[2:], timeout_ms=timeout_ms))
        yield on.ask(**request(on, [], timeout_ms=timeout_ms))
        yield from left(on, [])

    return script


for timeout_ms in (0, -1, -(2**31)):
    CASES.add(f"timeout {timeout_ms}", without_time(timeout_ms), since=NEW_SINCE, topics=[A])

CASES.add("null", lambda on: {**request(on, []), **_null(on)}, topics=[])
CASES.add("a null name", lambda on: request(on, [None]), topics=[])


def _null(on: Ground) -> Values:
    return {"topic_names": None} if on.version < IDS_SINCE else {"topics": None}


# -- by id ----------------------------------------------------------------------------------


def asked_by_id(
    topics: Callable[[Ground], Sequence[tuple[str | None, UUID | None]]], expect: Sequence[str] = ()
) -> Function:
    def script(on: Ground) -> Script:
        yield on.ask(**by_id(*topics(on)))
        yield from left(on, expect)

    return script


def add_by_id(
    name: str,
    topics: Callable[[Ground], Sequence[tuple[str | None, UUID | None]]],
    expect: Sequence[str] = (),
) -> None:
    CASES.add(f"by id: {name}", asked_by_id(topics, expect), since=IDS_SINCE, topics=[A, B])


add_by_id("one", lambda on: [(None, on.id("a"))], ["a"])
add_by_id("two", lambda on: [(None, on.id("a")), (None, on.id("b"))], "ab")
add_by_id("one, and one by name", lambda on: [(None, on.id("a")), (on.name("b"), None)], "ab")
add_by_id("unknown", lambda on: [(None, UNKNOWN_ID), (None, on.id("b"))], "b")
add_by_id("reserved", lambda on: [(None, UUID(int=1))])
add_by_id("twice", lambda on: [(None, on.id("a"))] * 2)
add_by_id("unknown, twice", lambda on: [(None, UNKNOWN_ID)] * 2)
add_by_id("with the name", lambda on: [(on.topic, on.id("a"))])
add_by_id("with another name", lambda on: [(on.name("b"), on.id("a")), (on.name("b"), None)], "b")
add_by_id("neither", lambda on: [(None, None), (None, on.id("a")), (None, None)], "a")
add_by_id("and by name", lambda on: [(None, on.id("a")), (on.topic, None)])
add_by_id("and by name, name first", lambda on: [(on.topic, None), (None, on.id("a"))])
add_by_id("twice, and by name", lambda on: [(None, on.id("a"))] * 2 + [(on.topic, None)])
add_by_id("and by name twice", lambda on: [(None, on.id("a"))] + [(on.topic, None)] * 2, "a")


@CASES.case(since=IDS_SINCE, topics=[A])
def by_id_again(on: Ground) -> Script:
    yield on.ask(**by_id((None, on.topic_id)))
    yield from left(on, ["a"])
    yield on.ask(**by_id((None, on.topic_id)))


@CASES.case(since=IDS_SINCE, topics=[A])
def by_id_without_time(on: Ground) -> Script:
    for topics in (
        [(None, on.topic_id), (None, UNKNOWN_ID), (None, UNKNOWN_ID), (on.topic, on.topic_id)],
        [(None, None), (None, UNKNOWN_ID), (None, UNKNOWN_ID)],
        [(None, UNKNOWN_ID)],
    ):
        yield _without_time(on, topics)
    yield from left(on, [])


def _without_time(on: Ground, topics: Sequence[tuple[str | None, UUID | None]]) -> Step:
    return on.ask(**by_id(*topics, timeout_ms=0))


add_frames(CASES, lambda on: request(on, [on.unused("x")]), topics=[])
