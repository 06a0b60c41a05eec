"""What the rules of groups share: the groups of one partition of `__consumer_offsets`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol
from uuid import UUID

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


class Counts:
    """Of all groups that a broker has coordinated since its start; each place adds its own."""

    __slots__ = (
        "classic_rebalances",
        "consumer_rebalances",
        "offsets_committed",
        "offsets_deleted",
        "offsets_expired",
    )

    def __init__(self) -> None:
        self.classic_rebalances = 0
        """Generations that got an assignment."""
        self.consumer_rebalances = 0
        """Epochs of groups of the newer protocol, but for those in which a member just goes."""
        self.offsets_committed = 0
        self.offsets_deleted = 0
        """By OffsetDelete."""
        self.offsets_expired = 0


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
