"""One member of a consumer group. Values only: every change makes another one."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

from kavka.wire.steps import PauseCounter, Slices

Target: TypeAlias = Mapping[UUID, Sequence[int]]
"""{topic id: partitions, in ascending order}; no topic is without partitions."""

Owned: TypeAlias = Mapping[UUID, Mapping[int, int]]
"""{topic id: {partition: epoch at which the member got it}}; no topic is without partitions."""

NOTHING: Final[Mapping[UUID, Mapping[int, int]]] = {}

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
LEAVE_STATIC_EPOCH: Final = -2
"""A static member that has gone, but may come back within its session's time."""

NO_EPOCH: Final = -1
"""Of a member that has had no epoch before, and of a group whose assignment is gone."""

UNSET: Final = -1
"""Of a time in a request or a record: there is none."""


class MemberState(IntEnum):
    """Where a member stands on its way to its target assignment (KIP-848)."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    """It was told to give partitions up, and has not said yet that it did."""
    UNRELEASED_PARTITIONS = 2
    """It waits for partitions that others have not given up yet."""
    UNKNOWN = 127
    """Written by a later version of Apache Kafka."""

    @classmethod
    def of(cls, value: int) -> MemberState:
        return cls(value) if value in (0, 1, 2) else cls.UNKNOWN


class ClassicProtocols(NamedTuple):
    """What a member that uses the classic protocol told when it joined."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    """(name, metadata)."""


@dataclass(frozen=True, slots=True)
class Member:
    """Times are in ms. `classic` is there if the member uses the classic protocol."""

    member_id: str
    member_epoch: int = JOIN_EPOCH
    previous_member_epoch: int = NO_EPOCH
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = UNSET
    client_id: str = ""
    client_host: str = ""
    topic_names: tuple[str, ...] = ()
    """In order, each once."""
    topic_regex: str | None = ""
    server_assignor: str | None = None
    assigned: Owned = field(default_factory=dict)
    revoking: Owned = field(default_factory=dict)
    """What it has to give up."""
    classic: ClassicProtocols | None = None

    @property
    def regex(self) -> str | None:
        """The expression it subscribes to, if there is one."""
        return self.topic_regex or None

    def is_reconciled_to(self, target_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.member_epoch == target_epoch


def in_order(names: Collection[str]) -> tuple[str, ...]:
    """Names of topics as members keep them."""
    return tuple(sorted(set(names)))


def with_epoch(target: Target, epoch: int) -> dict[UUID, dict[int, int]]:
    """A target assignment that became an assignment at `epoch`."""
    return {topic: dict.fromkeys(partitions, epoch) for topic, partitions in target.items()}


def partitions_of(owned: Owned) -> Slices[dict[UUID, list[int]]]:
    """An assignment without its epochs; partitions in order."""
    found, pauses = {}, PauseCounter()
    for topic, partitions in owned.items():
        found[topic] = sorted(partitions)
        if pauses.is_due(2 + len(partitions)):
            yield
    return found
