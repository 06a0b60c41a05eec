"""What is copied, and what a target lacks."""

from __future__ import annotations

import re

import pytest

from kavka.tools.mirror.topic_plan import (
    BATCH_BYTES,
    FIXED,
    Choice,
    ConfigChanges,
    Topic,
    batch_bytes,
    plan,
    small_limits,
)

DEFAULTS = {"retention.ms": "604800000", "cleanup.policy": "delete", "min.insync.replicas": "1"}


def topic(name: str = "t", partitions: int = 1, **own: str) -> Topic:
    given = {key.replace("_", "."): value for key, value in own.items()}
    return Topic(name, "id", partitions, {**DEFAULTS, **FIXED, **given}, frozenset(given))


@pytest.mark.parametrize(
    ("name", "is_internal", "taken"),
    [
        ("orders", False, True),
        ("orders-old", False, False),
        ("named-old", False, True),
        ("other", False, False),
        ("__consumer_offsets", True, False),
        ("kavka-mirror-x", False, False),
        ("_any", True, False),
        ("_any", False, True),
    ],
)
def test_topics_are_named_or_match(name: str, is_internal: bool, taken: bool) -> None:
    choice = Choice(
        frozenset({"named-old", "kavka-mirror-x"}),
        re.compile("orders.*|_.*"),
        re.compile(".*-old"),
    )
    assert choice.takes(name, is_internal=is_internal) is taken


def test_the_target_gets_what_it_lacks() -> None:
    found = plan({"a": topic("a", 3), "b": topic("b", 4), "c": topic("c")}, {"b": topic("b", 2)})
    assert (found.new, found.more, found.configs) == ({"a": 3, "c": 1}, {"b": 4}, {})


def test_more_partitions_in_the_target_are_left() -> None:
    assert plan({"t": topic()}, {"t": topic("t", 2)}).more == {}


def test_configs_follow_the_source_but_for_those_about_brokers() -> None:
    here = topic(retention_ms="5", min_insync_replicas="2", only_here="1")
    there = topic(cleanup_policy="compact", min_insync_replicas="3")
    found = plan({"t": here}, {"t": there})
    assert found.configs == {"t": ConfigChanges({"retention.ms": "5"}, ["cleanup.policy"])}
    assert found.unknown == {"t": ["only.here"]}


@pytest.mark.parametrize(
    ("source", "target", "changes"),
    [
        ({}, {"own": "2000"}, None),  # the user has given it more
        ({}, {"own": "500"}, "1000"),
        ({}, {"default": "500"}, "1000"),
        ({"own": "300"}, {}, "300"),
        ({"own": "300"}, {"own": "400"}, None),
        ({"own": "300"}, {"own": "200"}, "300"),
    ],
)
def test_the_target_takes_records_as_large_as_the_source_does(
    source: dict[str, str], target: dict[str, str], changes: str | None
) -> None:
    def limited(own: str = "", default: str = "1000") -> Topic:
        found = topic(max_message_bytes=own) if own else topic()
        return found._replace(configs={"max.message.bytes": default, **found.configs})

    found = plan({"t": limited(**source)}, {"t": limited(**target)}).configs
    expected = {} if changes is None else {"t": ConfigChanges({"max.message.bytes": changes}, [])}
    assert found == expected


def test_topics_that_take_no_full_batch() -> None:
    def limited(limit: str) -> Topic:
        return topic(max_message_bytes=limit)

    assert small_limits({}, BATCH_BYTES) == small_limits({"a": topic()}, BATCH_BYTES) == {}
    topics = {"a": limited("1048588"), "b": limited("5000"), "c": limited("0")}
    assert small_limits(topics, BATCH_BYTES) == {"b": 5000, "c": 0}
    assert small_limits(topics, 5000) == {"c": 0}
    assert small_limits(topics, 2_000_000) == {"a": 1048588, "b": 5000, "c": 0}


@pytest.mark.parametrize(
    ("given", "size"), [(None, BATCH_BYTES), ("2000000", 2_000_000), ("many", BATCH_BYTES)]
)
def test_a_batch_is_as_large_as_its_producer_was_told(given: str | None, size: int) -> None:
    assert batch_bytes({} if given is None else {"batch.size": given}) == size


def test_changes_that_are_made_to_a_topic() -> None:
    changes = ConfigChanges({"max.message.bytes": "3000"}, ["retention.ms"])
    after = changes.made_to(topic(max_message_bytes="1048588"))
    assert after == topic(max_message_bytes="3000")


def test_times_of_records_are_kept() -> None:
    there = topic()._replace(configs={**DEFAULTS, "message.timestamp.type": "LogAppendTime"})
    here = topic(message_timestamp_type="LogAppendTime")
    added = plan({"t": here}, {"t": there}).configs["t"].added
    assert added == {"message.timestamp.type": "CreateTime"}
