"""The shared state of the group rules: the groups of one `__consumer_offsets` partition."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol
from uuid import UUID

from kavka.groupcoord.counts import Counts
from kavka.groupcoord.group import Group
from kavka.groupcoord.settings import GroupSettings
from kavka.log.timers import Timers
from kavka.seams import Random


class Topics(Protocol):
    """The cluster's topics, as this broker knows them now."""

    def names(self) -> list[str]:
        """All topic names, unordered."""
        ...

    def partition_count(self, topic: str) -> int | None:
        """None if the topic does not exist."""
        ...

    def topic_id(self, topic: str) -> UUID | None: ...

    def topic_name(self, topic_id: UUID) -> str | None: ...

    def racks(self, topic: str, partition: int) -> list[str]:
        """Racks of the brokers with a replica."""
        ...


NO_CONFIGS: Final[Mapping[str, str]] = {}


class GroupsState:
    """All groups of one partition. Only changes by applied records are durable."""

    __slots__ = ("configs", "counts", "groups", "random", "settings", "timers", "topics")

    def __init__(
        self,
        settings: Callable[[], GroupSettings],
        topics: Topics,
        random: Random,
        configs: Callable[[str], Mapping[str, str]] = lambda group_id: NO_CONFIGS,
        counts: Counts | None = None,
    ) -> None:
        """`counts`: the broker's counters, if there are any."""
        self.groups: dict[str, Group] = {}
        self.settings = settings
        """The current settings."""
        self.configs = configs
        """The dynamic configs of a group, by group id: {name: value}."""
        self.topics = topics
        self.random = random
        self.counts = counts or Counts()
        self.timers = Timers()
