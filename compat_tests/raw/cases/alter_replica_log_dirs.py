"""AlterReplicaLogDirs: to the directory where replicas are, to others, and what is not there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from kavka.compat_tests.raw.case import Cases, Function, Ground, Script, Topic, Values
from kavka.compat_tests.raw.frames import add_frames, add_odd_names

CASES = Cases("AlterReplicaLogDirs")

NOWHERE = "/no/such/directory"
LONGEST = 255 - len("-0.-future") - 32
"""Of a topic's name, so that the directory of its copy may be named."""

HERE = Topic("here", partitions=3, shared=True)


def directory(on: Ground) -> Any:
    """The broker's one log directory."""
    answer = yield on.other("DescribeLogDirs", 4, topics=[], compared=False)
    return answer["results"][0]["log_dir"]


def of(path: str | None, *topics: tuple[str | None, Iterable[int] | None]) -> dict[str, Any]:
    """One log directory of a request."""
    return {
        "path": path,
        "topics": [
            {"name": name, "partitions": None if indexes is None else list(indexes)}
            for name, indexes in topics
        ],
    }


def moving(*indexes: int, suffix: str = "") -> Function:
    """To the directory where they are, or to one whose name begins so."""

    def script(on: Ground) -> Script:
        path = yield from directory(on)
        yield on.ask(dirs=[of(path + suffix, (on.topic, indexes))])

    return script


for chosen in ((0,), (2, 0, 1), (), (1, 1), (3,), (-1, 2**31 - 1), (0, 3, 1)):
    CASES.add(f"partitions {chosen} to where they are", moving(*chosen), topics=[HERE])
for added in ("/", "/.", "x", "/..", " "):
    CASES.add(f"where they are with {added!r} behind", moving(0, suffix=added), topics=[HERE])


def to_path(path: str) -> Function:
    return lambda on: {"dirs": [of(path, (on.topic, [0, 7]), (on.unused("nobody"), [0]))]}


for path in (NOWHERE, "", "relative", "/", ".", "/" + "x" * 300, "a\nb"):
    CASES.add(f"path {path[:20]!r}", to_path(path), topics=[HERE])


@CASES.case(topics=[HERE])
def a_topic_that_is_not_there(on: Ground) -> Script:
    path = yield from directory(on)
    yield on.ask(dirs=[of(path, (on.unused("nobody"), [0, 1]), (on.topic, [0]))])


@CASES.case(topics=[HERE])
def a_partition_twice_with_two_directories(on: Ground) -> Script:
    path = yield from directory(on)
    yield on.ask(dirs=[of(path, (on.topic, [0, 1])), of(NOWHERE, (on.topic, [1]))])
    yield on.ask(dirs=[of(NOWHERE, (on.topic, [0, 1])), of(path, (on.topic, [1]))])


@CASES.case(topics=[HERE])
def a_topic_twice(on: Ground) -> Script:
    path = yield from directory(on)
    yield on.ask(dirs=[of(path, (on.topic, [0]), (on.topic, [2, 0]))])


def of_length(length: int) -> Function:
    """A topic that is not there: the length of its name is looked at first."""

    def script(on: Ground) -> Script:
        path = yield from directory(on)
        for where in (path, NOWHERE):
            yield on.ask(dirs=[of(where, ("x" * length, [0, 10]))])

    return script


for length in (LONGEST - 1, LONGEST, LONGEST + 1, 249, 300):
    CASES.add(f"a name of {length}", of_length(length), topics=[])


@CASES.case(topics=[HERE])
def null_path(on: Ground) -> Script:
    yield on.ask(dirs=[of(None, (on.topic, [0]))])


@CASES.case(topics=[HERE])
def a_null_name(on: Ground) -> Script:
    yield on.ask(dirs=[of(NOWHERE, (None, [0]))])


@CASES.case(topics=[HERE])
def null_partitions(on: Ground) -> Script:
    yield on.ask(dirs=[of(NOWHERE, (on.topic, None))])


def plain(on: Ground) -> Values:
    return {"dirs": [of(NOWHERE, (on.topic, [0]))]}


def named(name: str) -> Values:
    return {"dirs": [of(NOWHERE, (name, [0]))]}


def nothing(values: Values, _: Ground) -> Values:
    return values


NOTHING: Sequence[Values] = ({"dirs": []}, {"dirs": None}, {"dirs": [of(NOWHERE)]})
for number, values in enumerate(NOTHING):
    CASES.add(f"nothing, {number}", partial(nothing, values), topics=[])

add_frames(CASES, plain, topics=[HERE])
add_odd_names(CASES, named)
