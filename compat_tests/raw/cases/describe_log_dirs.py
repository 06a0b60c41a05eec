"""DescribeLogDirs: everything or a choice, sizes after writing and cutting, and odd choices.

Topics that other cases made are left out of the answers: see the list of what differs by nature.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kavka.compat_tests.raw.case import Cases, Ground, Script, Topic, Values, looking
from kavka.compat_tests.raw.codec.batches import Written, build
from kavka.compat_tests.raw.frames import Ordinary, add_frames

CASES = Cases("DescribeLogDirs")

TWO_BATCHES = (build([Written(value=bytes(100))] * 3), build([Written(value=b"x")]))
WRITTEN = Topic("written", partitions=3, batches=TWO_BATCHES, shared=True)
EMPTY = Topic("empty", partitions=2, shared=True)
BOTH = (WRITTEN, EMPTY)


def choice(**partitions: Sequence[int]) -> Ordinary:
    """Partitions of the shared topics, by label."""

    def request(on: Ground) -> Values:
        return {
            "topics": [
                {"topic": on.name(label), "partitions": list(indexes)}
                for label, indexes in partitions.items()
            ]
        }

    return request


def of(on: Ground, *indexes: int) -> dict[str, Any]:
    return {"topic": on.topic, "partitions": list(indexes)}


def until_there(on: Ground) -> Script:
    """Ask until the case's logs are there: Apache Kafka's Metadata lists them earlier."""
    topics = [
        {"topic": on.name(topic.label), "partitions": list(range(topic.partitions))}
        for topic in on.case.topics
    ]
    for _ in looking():
        answer = yield on.ask(topics=topics, compared=False)
        (directory,) = answer["results"]
        found = sum(len(topic["partitions"]) for topic in directory["topics"])
        if found == sum(topic.partitions for topic in on.case.topics):
            break
    yield on.ask(topics=topics)


CASES.add("all logs once they are there", until_there, topics=BOTH)
CASES.add("nothing", lambda on: {"topics": []}, topics=BOTH)
CASES.add("one partition", choice(written=[0]), topics=BOTH)
CASES.add("all partitions of two topics", choice(empty=[0, 1], written=[2, 0, 1]), topics=BOTH)
CASES.add("a topic without partitions", choice(written=[]), topics=BOTH)
CASES.add("a partition twice", choice(written=[0, 0, 1]), topics=BOTH)
CASES.add("partitions that are not there", choice(written=[3, 0, -1, 2**31 - 1]), topics=BOTH)


@CASES.case(topics=[WRITTEN])
def a_topic_twice(on: Ground) -> Values:
    return {"topics": [of(on, 0), of(on, 2, 0)]}


@CASES.case(topics=[WRITTEN])
def topics_that_are_not_there(on: Ground) -> Values:
    names = [on.unused("nobody"), "", "a b", "x" * 300]
    return {"topics": [{"topic": name, "partitions": [0]} for name in names] + [of(on, 0)]}


@CASES.case(topics=[WRITTEN])
def a_null_name(on: Ground) -> Script:
    yield on.ask(topics=[{"topic": None, "partitions": [0]}])


@CASES.case(topics=[WRITTEN])
def null_partitions(on: Ground) -> Script:
    yield on.ask(topics=[{"topic": on.topic, "partitions": None}])


@CASES.case(topics=[Topic(partitions=2)])
def a_log_that_grows(on: Ground) -> Script:
    yield from until_there(on)
    for records in TWO_BATCHES:
        partition = {"index": 1, "records": bytes(records)}
        topic = {"name": on.topic, "partition_data": [partition]}
        yield on.other("Produce", 8, acks=-1, timeout_ms=30_000, topic_data=[topic], compared=False)
        yield on.ask(topics=[of(on, 0, 1)])


add_frames(CASES, choice(written=[0, 1]), topics=BOTH)
CASES.add("everything", lambda on: {"topics": None}, topics=BOTH)
