"""Regular expressions that name topics and partitions, as Apache Kafka's tools take them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final

from kavka.tools.admin.errors import Failed
from kavka.tools.patterns import user_pattern
from kavka.wire.apis import metadata

RULE: Final = re.compile(r"([^:,]*)(?::(?:([0-9]*)|(?:([0-9]*)-([0-9]*))))?")
"""TOPIC, TOPIC:N, TOPIC:N-M (M left out), TOPIC:N-, TOPIC:-M; every topic without TOPIC."""

ANY: Final = ".*"
LEGAL: Final = re.compile("[a-zA-Z0-9._-]+")
NAME_MAX: Final = 249
"""How many characters the name of a topic has at most."""

Takes = Callable[[str, int], bool]
"""Whether a partition of a topic is meant."""


def name_pattern(text: str) -> re.Pattern[str]:
    """A regular expression for topics' names, or several with commas between; quotes around them
    don't count. Failed if it is none."""
    pattern = text.strip().replace(",", "|").replace(" ", "").strip("\"'")
    return user_pattern(pattern)


def check_topic_name(name: str) -> None:
    """Failed if no topic can have this name."""
    if name in ("", ".", "..") or len(name) > NAME_MAX or not LEGAL.fullmatch(name):
        raise Failed(
            f"Topic name is invalid: '{name}' is not of 1 to {NAME_MAX} ASCII letters and digits, "
            "'.', '_' and '-', or it is '.' or '..'"
        )


def matching(topics: Iterable[metadata.TopicResponse], text: str) -> list[metadata.TopicResponse]:
    """Those topics whose whole name matches."""
    pattern = name_pattern(text)
    return [topic for topic in topics if pattern.fullmatch(topic.name or "")]


def any_rule(text: str) -> Takes:
    """Partitions that any of the rules takes, which have commas between. Failed."""
    rules = [_rule(part) for part in text.split(",")]
    return lambda topic, partition: any(takes(topic, partition) for takes in rules)


def _rule(text: str) -> Takes:
    found = RULE.fullmatch(text)
    if found is None:
        raise Failed(f"Error occurred: Invalid rule specification: {text}")
    pattern = name_pattern(found[1] or ANY)
    if found[2]:
        partitions = range(int(found[2]), int(found[2]) + 1)
    else:
        partitions = range(int(found[3] or 0), int(found[4] or 1 << 31))
    return lambda topic, partition: partition in partitions and pattern.fullmatch(topic) is not None
