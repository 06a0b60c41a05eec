"""What the user wants of a mirror."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from kavka.tools.mirror.topic_plan import Choice


class Task(NamedTuple):
    """What to mirror."""

    source: Mapping[str, str]
    target: Mapping[str, str]
    """Properties of Java clients, bootstrap.servers among them."""

    choice: Choice
    groups: re.Pattern[str] | None
    name: str
    """"": that of the source's cluster."""

    replication_factor: int | None
    refresh_ms: int
    until_caught_up: bool
    copy_again: frozenset[str] = frozenset()
    """Topics that are copied from their start, whatever was copied before."""
