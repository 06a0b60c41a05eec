"""What all kinds of groups have in common, for the rules of offsets and for lists."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias
from uuid import UUID

from kavka.log.journal import Record

PartitionCheck: TypeAlias = Callable[[str, UUID, int], None]
"""Whether offsets of a topic (name, and id if it is known) and partition may be committed.
ApiError, which then is the answer for the whole request."""


class Group(Protocol):
    """One group, of whatever protocol. Refusals are ApiError."""

    group_id: str

    @property
    def kind(self) -> str:
        """As ListGroups tells it: "classic" or "consumer"."""
        ...

    def state(self, now_ms: int) -> str:
        """As ListGroups tells it, for example "Stable"."""
        ...

    @property
    def protocol_type(self) -> str:
        """ "consumer", or what else members of a classic group call it; "" if none has yet."""
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
        """Whether a member may commit offsets, with its generation or member epoch, by
        OffsetCommit (or TxnOffsetCommit) of `version`. ApiError. Given back is what to ask for
        each partition, where a member with an earlier epoch may commit some (KIP-1251)."""
        ...

    def committed_by(self, member_id: str, now_ms: int) -> None:
        """A member has committed, which is as good as a heartbeat (classic groups only)."""
        ...

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Whether a member may ask for offsets. ApiError."""
        ...

    def check_delete(self) -> None:
        """Whether the group may be deleted. ApiError NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND."""
        ...

    def check_offset_delete(self) -> None:
        """Whether offsets of the group may be deleted at all, before topics are looked at.
        ApiError."""
        ...

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether members read the topic, so that its offsets neither expire nor go."""
        ...

    def expires_since(self) -> int | None:
        """From when on offsets without a time of their own count as unused (KIP-211): ms since
        the epoch when the group became empty; 0: each since its last commit, as for groups that
        only keep offsets, and for stable ones, where those of topics that `is_subscribed_to` never
        expire; None: no offset expires at all, whatever its time."""
        ...

    def tombstones(self) -> Sequence[Record]:
        """Records that make all of the group go, but its offsets."""
        ...
