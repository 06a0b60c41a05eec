"""What the rules of groups share: the groups of one partition of `__consumer_offsets`."""

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
        """All of them, in no certain order."""
        ...

    def partition_count(self, topic: str) -> int | None:
        """None if there is no such topic."""
        ...

    def topic_id(self, topic: str) -> UUID | None: ...

    def topic_name(self, topic_id: UUID) -> str | None: ...

    def racks(self, topic: str, partition: int) -> list[str]:
        """Of the brokers that have a replica."""
        ...


NO_CONFIGS: Final[Mapping[str, str]] = {}


class GroupsState:
    """All groups of one partition. Rules change it; records applied change it alone for good."""

    __slots__ = ("configs", "counts", "groups", "random", "settings", "timers", "topics")

    def __init__(
        self,
        settings: Callable[[], GroupSettings],
        topics: Topics,
        random: Random,
        configs: Callable[[str], Mapping[str, str]] = lambda group_id: NO_CONFIGS,
        counts: Counts | None = None,
    ) -> None:
        """`counts`: those of the broker, where it has some."""
        self.groups: dict[str, Group] = {}
        self.settings = settings
        """What is in force now."""
        self.configs = configs
        """What a group has been given for itself now, by the group's id: texts by name."""
        self.topics = topics
        self.random = random
        self.counts = counts or Counts()
        self.timers = Timers()
