"""The interface of all kinds of groups, for offsets and ListGroups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias
from uuid import UUID

from kavka.log.journal import JournalRecord

PartitionCheck: TypeAlias = Callable[[str, UUID, int], None]
"""Whether offsets of a topic (name, and id if known) and partition may be committed. An ApiError
fails the whole request."""


class Group(Protocol):
    """One group of any protocol. Errors are ApiError."""

    group_id: str

    @property
    def kind(self) -> str:
        """The group type in ListGroups: "classic" or "consumer"."""
        ...

    def state(self, now_ms: int) -> str:
        """The state in ListGroups, for example "Stable"."""
        ...

    @property
    def protocol_type(self) -> str:
        """ "consumer", or what the members of a classic group named; "" if there was none yet."""
        ...

    def check_commit(
        self,
        member_id: str,
        instance_id: str | None,
        generation: int,
        *,
        is_transactional: bool,
        version: int,
    ) -> PartitionCheck | None:
        """Whether a member may commit offsets with this generation or member epoch, in
        OffsetCommit (or TxnOffsetCommit) of `version`. ApiError. Returns a check to call for each
        partition if a member with an earlier epoch may commit only some (KIP-1251)."""
        ...

    def committed_by(self, member_id: str, now_ms: int) -> None:
        """Handle a commit of a member, which in classic groups counts as a heartbeat."""
        ...

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Whether a member may fetch offsets. ApiError."""
        ...

    def check_delete(self) -> None:
        """Whether the group may be deleted. ApiError NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND."""
        ...

    def check_offset_delete(self) -> None:
        """Whether offsets of the group may be deleted at all, whatever the topics. ApiError."""
        ...

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether members subscribe to the topic: then its offsets are not expired or deleted."""
        ...

    def expires_since(self) -> int | None:
        """Start of the retention of offsets without an own expiry time (KIP-211): when the group
        became empty, in ms since 1970; 0: the last commit of each offset, as for groups that only
        store offsets and stable ones (except for topics that `is_subscribed_to`); None: no offset
        expires at all, even one with an own expiry time."""
        ...

    def tombstones(self) -> Sequence[JournalRecord]:
        """Records that delete the group, but not its offsets."""
        ...
