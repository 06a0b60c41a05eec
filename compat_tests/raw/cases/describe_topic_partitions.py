"""DescribeTopicPartitions: order and pages of the topics asked for, and cursors good and bad.

Pages through all topics begin and end within the topics of the case, since what else there is
depends on the other cases.
"""

from __future__ import annotations

from typing import Any

from kavka.compat_tests.raw.case import Cases, Function, Ground, Script, Topic, Values
from kavka.compat_tests.raw.frames import Ordinary, add_frames
from kavka.compat_tests.raw.topics import GROUP_TOPIC

CASES = Cases("DescribeTopicPartitions")

A = Topic("a", partitions=2, shared=True)
B = Topic("b", partitions=3, shared=True)
C = Topic("c", shared=True)
TOPICS = (A, B, C)
ALL = ("c", "b", "a")
DEFAULT_LIMIT = 2000


def named(on: Ground, *labels: str) -> list[dict[str, Any]]:
    """Topics by label; one in capitals is there by no name like it."""
    return [{"name": on.unused(label) if label.isupper() else on.name(label)} for label in labels]


def at(on: Ground, label: str, partition: int) -> dict[str, Any]:
    (topic,) = named(on, label)
    return {"topic_name": topic["name"], "partition_index": partition}


def page(
    *labels: str, limit: int = DEFAULT_LIMIT, cursor: tuple[str, int] | None = None
) -> Ordinary:
    """A page of these topics, or of all."""

    def request(on: Ground) -> Values:
        return {
            "topics": named(on, *labels),
            "response_partition_limit": limit,
            "cursor": at(on, *cursor) if cursor else None,
        }

    return request


def plain(*names: str | None) -> Function:
    return lambda on: {"topics": [{"name": name} for name in names]}


CASES.add("three topics", page(*ALL), topics=TOPICS)
CASES.add("a topic twice", page("b", "a", "b"), topics=TOPICS)
CASES.add("a topic that is not there", page("a", "NOBODY", "c"), topics=TOPICS)
CASES.add("only topics that are not there", page("NOBODY", "ELSE"), topics=TOPICS)
CASES.add("bad names", plain("a b", ".", "..", "x" * 250, "ä", "a/b"))
CASES.add("a name as long as may be", plain("x" * 249))
CASES.add("an empty name", plain(""))
CASES.add("an empty name among others", plain("", "a b"))
CASES.add("an internal topic", plain(GROUP_TOPIC))
CASES.add("a null name", plain(None))
CASES.add("null topics", lambda on: {"topics": None})

for count in (-(2**31), -1, 0, 1, 2, 3, 4, 5, 6, 2**31 - 1):
    CASES.add(f"at most {count} partitions", page(*ALL, limit=count), topics=TOPICS)
for count in (1, 2, 3, 4, 5):
    unknown = page("NOBODY", "a", "b", "c", "ELSE", limit=count)
    CASES.add(f"at most {count} partitions and unknown topics", unknown, topics=TOPICS)
    everything = page(limit=count, cursor=("a", 0))
    CASES.add(f"at most {count} partitions of everything", everything, topics=TOPICS)

for label, index in (
    *(("a", 0), ("a", 1), ("a", 2), ("a", 100), ("b", 0), ("b", 1), ("b", 2), ("b", 3), ("c", 0)),
    *(("c", 5), ("a", -1), ("b", -(2**31)), ("NOBODY", 0), ("NOBODY", -1)),
):
    cursor = (label, index)
    CASES.add(f"from {label} {index} on", page(*ALL, cursor=cursor), topics=TOPICS)
    two = page(*ALL, cursor=cursor, limit=2)
    CASES.add(f"two partitions from {label} {index} on", two, topics=TOPICS)

CASES.add("from an unknown topic on", page("a", "NOBODY", cursor=("NOBODY", 3)), topics=TOPICS)
CASES.add("everything from a bad partition on", page(cursor=("a", -1)), topics=TOPICS)
CASES.add("past all numbers", page(*ALL, cursor=("b", 2**31 - 1)), topics=TOPICS)


@CASES.case(topics=TOPICS)
def an_empty_cursor(on: Ground) -> Values:
    return {"topics": named(on, *ALL), "cursor": {"topic_name": "", "partition_index": 0}}


@CASES.case(topics=TOPICS)
def a_cursor_with_a_null_name(on: Ground) -> Values:
    return {"topics": named(on, *ALL), "cursor": {"topic_name": None, "partition_index": 0}}


@CASES.case(topics=TOPICS)
def page_after_page(on: Ground) -> Script:
    labels = ["a", "b", "c"]
    answer = yield on.ask(topics=named(on, *labels), response_partition_limit=1)
    for _ in range(10):
        cursor = answer["next_cursor"]
        if cursor is None:
            break
        rest = [name for name in named(on, *labels) if name["name"] >= cursor["topic_name"]]
        answer = yield on.ask(topics=rest, response_partition_limit=1, cursor=cursor)


add_frames(CASES, page(*ALL, limit=4, cursor=("a", 1)), topics=TOPICS)
