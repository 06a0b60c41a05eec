"""Metadata: topics by name and by id, all of them, what is not there, creation by asking."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from kavka.compat_tests.raw.case import Cases, Function, Ground, Script, Topic, Values, looking
from kavka.compat_tests.raw.codec.batches import build
from kavka.compat_tests.raw.frames import add_frames, add_odd_names

CASES = Cases("Metadata")

UNKNOWN_ID = UUID(int=0x77777777)

THREE = Topic("three", partitions=3, batches=(build(),), shared=True)
ONE = Topic("one", shared=True, configs={"cleanup.policy": "compact"})


def asking(*names: str, **more: Any) -> Values:
    """By name; nothing is created unless asked for."""
    return {
        "topics": [{"topic_id": None, "name": name} for name in names],
        "allow_auto_topic_creation": False,
        "include_cluster_authorized_operations": False,
        "include_topic_authorized_operations": False,
        **more,
    }


def by_id(*ids: UUID | None, name: str | None = None, **more: Any) -> Values:
    return asking(topics=[{"topic_id": topic_id, "name": name} for topic_id in ids], **more)


add_frames(CASES, lambda on: asking(on.topic), topics=[THREE])

# -- by name --------------------------------------------------------------------------------


@CASES.case(topics=[THREE, ONE])
def two_topics(on: Ground) -> Values:
    return asking(on.name("one"), on.name("three"))


@CASES.case(topics=[THREE])
def a_topic_twice(on: Ground) -> Values:
    return asking(on.topic, on.topic)


@CASES.case(topics=[THREE], since=4)
def known_and_unknown(on: Ground) -> Values:
    return asking(on.topic, on.unused("body"), on.unused("other"))


@CASES.case(topics=[], since=4)
def an_unknown_topic_twice(on: Ground) -> Values:
    return asking(on.unused("body"), on.unused("body"))


@CASES.case(topics=[], since=1)
def no_topics(on: Ground) -> Values:
    return asking()


@CASES.case(topics=[THREE, ONE], since=1)
def all_topics(on: Ground) -> Values:
    """Other cases make topics meanwhile on neither broker: cases run one after another."""
    return asking(topics=None)


@CASES.case(topics=[THREE], until=0)
def all_topics_of_the_oldest_version(on: Ground) -> Values:
    return asking()


@CASES.case(topics=[THREE], since=8)
def operations(on: Ground) -> Values:
    return asking(
        on.topic,
        on.unused("body"),
        include_cluster_authorized_operations=True,
        include_topic_authorized_operations=True,
    )


NAMES = {
    "empty": "",
    "a dot": ".",
    "two dots": "..",
    "three dots": "...",
    "a slash": "a/b",
    "a space": "a b",
    "a line end": "a\n",
    "249 characters": "x" * 249,
    "250 characters": "x" * 250,
    "not ASCII": "\u0442",
    "of the consumers' offsets": "__consumer_offsets",
    "of transactions": "__transaction_state",
    "of the cluster": "__cluster_metadata",
    "two underscores": "__nothing",
}


def named(name: str, **more: Any) -> Function:
    return lambda on: asking(name, **more)


for label, text in NAMES.items():
    CASES.add(f"a name: {label}", named(text), since=4, topics=[])

# -- by id (KIP-516) ------------------------------------------------------------------------


@CASES.case(since=12, topics=[THREE])
def a_topic_by_id(on: Ground) -> Values:
    return by_id(on.topic_id)


@CASES.case(since=12, topics=[THREE, ONE])
def topics_by_id(on: Ground) -> Values:
    return by_id(on.id("one"), UNKNOWN_ID, on.id("three"), on.id("one"))


@CASES.case(since=10, topics=[THREE])
def by_id_and_name(on: Ground) -> Values:
    return by_id(on.topic_id, name=on.topic)


@CASES.case(since=10, topics=[THREE])
def by_id_and_another_name(on: Ground) -> Values:
    return by_id(on.topic_id, name=on.unused("body"))


@CASES.case(since=10, topics=[])
def by_neither(on: Ground) -> Values:
    return by_id(None)


@CASES.case(since=10, topics=[THREE])
def some_by_name_and_some_by_id(on: Ground) -> Values:
    topics = [{"topic_id": None, "name": on.topic}, {"topic_id": on.topic_id, "name": None}]
    return asking(topics=topics)


@CASES.case(since=10, topics=[THREE])
def an_id_in_an_old_version(on: Ground) -> Values:
    return by_id(on.topic_id)


@CASES.case(since=10, topics=[])
def an_unknown_id(on: Ground) -> Values:
    return by_id(UNKNOWN_ID)


@CASES.case(since=10, topics=[THREE])
def operations_by_id(on: Ground) -> Values:
    return by_id(
        on.topic_id,
        UNKNOWN_ID,
        include_cluster_authorized_operations=True,
        include_topic_authorized_operations=True,
    )


# -- creation by asking ---------------------------------------------------------------------


def creating(*names: str) -> Values:
    return asking(*names, allow_auto_topic_creation=True)


for label, text in NAMES.items():
    if label in ("249 characters", "three dots", "two underscores"):
        continue
    if label.startswith("of "):
        continue
    CASES.add(
        f"creation of a name: {label}", named(text, allow_auto_topic_creation=True), topics=[]
    )


@CASES.case(topics=[THREE])
def creation_of_what_is_there(on: Ground) -> Values:
    return creating(on.topic)


def created(on: Ground, *names: str) -> Script:
    """Asked for, and asked again once the first of the names is there."""
    yield on.ask(**creating(*names))
    for _ in looking():
        answer = yield on.ask(**asking(names[0]), compared=False)
        [topic] = answer["topics"]
        if not topic["error_code"] and topic["partitions"][0]["leader_id"] >= 0:
            break
    yield on.ask(**asking(*names))


@CASES.case(topics=[], since=4)
def creation(on: Ground) -> Script:
    yield from created(on, on.unused("body"))


@CASES.case(topics=[THREE], since=4)
def creation_among_others(on: Ground) -> Script:
    yield from created(on, on.unused("body"), on.topic, "a/b")


@CASES.case(topics=[], since=4)
def creation_of_names_that_collide(on: Ground) -> Script:
    yield from created(on, on.unused("body") + ".", on.unused("body") + "_")


@CASES.case(topics=[], until=3)
def creation_by_an_old_version(on: Ground) -> Script:
    """Which can't say that it wants none."""
    for _ in looking():
        answer = yield on.ask(**asking(on.unused("body")), compared=False)
        [topic] = answer["topics"]
        if not topic["error_code"] and topic["partitions"][0]["leader_id"] >= 0:
            break
    yield on.ask(**asking(on.unused("body")))


add_odd_names(CASES, lambda name: asking(name), since=4)
