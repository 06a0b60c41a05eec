"""One member of a consumer group, immutable: a change creates another object."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

from kavka.wire.steps import PauseCounter, Steps

Target: TypeAlias = Mapping[UUID, Sequence[int]]
"""{topic id: partitions, in ascending order}; no empty topics."""

Owned: TypeAlias = Mapping[UUID, Mapping[int, int]]
"""{topic id: {partition: epoch at which it was assigned}}; no empty topics."""

NOTHING: Final[Mapping[UUID, Mapping[int, int]]] = {}

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
LEAVE_STATIC_EPOCH: Final = -2
"""A static member that left temporarily; it may come back within its session timeout."""

NO_EPOCH: Final = -1
"""Of a member without a previous epoch, and of a group without an assignment."""

UNSET: Final = -1
"""A timeout that is not set, in a request or record."""


class MemberState(IntEnum):
    """The state of a member's reconciliation with its target assignment (KIP-848)."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    """It must revoke partitions, and has not acknowledged that yet."""
    UNRELEASED_PARTITIONS = 2
    """It waits for partitions that others have not revoked yet."""
    UNKNOWN = 127
    """Written by a later version of Apache Kafka."""

    @classmethod
    def of(cls, value: int) -> MemberState:
        return cls(value) if value in (0, 1, 2) else cls.UNKNOWN


class ClassicProtocols(NamedTuple):
    """The JoinGroup data of a member that uses the classic protocol."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    """(name, metadata)."""


@dataclass(frozen=True, slots=True)
class ConsumerGroupMember:
    """Times are in ms. `classic` is set if the member uses the classic protocol."""

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
    """Sorted, without duplicates."""
    topic_regex: str | None = ""
    server_assignor: str | None = None
    assigned: Owned = field(default_factory=dict)
    revoking: Owned = field(default_factory=dict)
    """Partitions that it must revoke."""
    classic: ClassicProtocols | None = None

    @property
    def regex(self) -> str | None:
        """The regex it subscribes to, if any."""
        return self.topic_regex or None

    def is_reconciled_to(self, target_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.member_epoch == target_epoch


def in_order(names: Collection[str]) -> tuple[str, ...]:
    """Topic names in the form of `ConsumerGroupMember.topic_names`."""
    return tuple(sorted(set(names)))


def with_epoch(target: Target, epoch: int) -> dict[UUID, dict[int, int]]:
    """A target assignment as an assignment made at `epoch`."""
    return {topic: dict.fromkeys(partitions, epoch) for topic, partitions in target.items()}


def partitions_of(owned: Owned) -> Steps[dict[UUID, list[int]]]:
    """An assignment without its epochs; partitions are sorted."""
    found, pauses = {}, PauseCounter()
    for topic, partitions in owned.items():
        found[topic] = sorted(partitions)
        if pauses.is_due(2 + len(partitions)):
            yield None
    return found
