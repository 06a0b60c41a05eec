"""A member of a classic group: its subscription, and its waiting requests. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias

from kavka.groupcoord.classic.group_records import StoredMember
from kavka.log.journal import ReplyFuture
from kavka.log.timers import Deadline

TimerKey: TypeAlias = tuple[str, str, str, str]
"""("classic", timer kind, group id, member id or "")"""


class OfferedProtocol(NamedTuple):
    """A protocol (assignor) that a member supports, with its metadata."""

    name: str
    metadata: bytes


class ClassicGroupMember:
    """A member."""

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "deadline",
        "instance_id",
        "is_new",
        "join",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "sync",
        "timer",
    )

    def __init__(
        self,
        group_id: str,
        member_id: str,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocols: Sequence[OfferedProtocol],
        assignment: bytes = b"",
    ) -> None:
        self.member_id: Final = member_id
        self.instance_id: Final = instance_id
        self.client_id: Final = client_id
        self.client_host: Final = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocols = protocols
        """In order of preference."""
        self.assignment = assignment
        self.join: ReplyFuture | None = None
        """The waiting JoinGroup. Set by the group, which counts them."""
        self.sync: ReplyFuture | None = None
        """The SyncGroup that waits for the leader's."""
        self.is_new = False
        """Whether it does not know its member id yet (JoinGroup before version 4)."""
        self.timer: Final = member_timer(group_id, member_id)
        self.deadline: Deadline | None = None
        """The current deadline of its session."""

    def metadata(self, protocol: str | None) -> bytes:
        """Its metadata for a protocol."""
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        return b""

    def vote(self, candidates: Iterable[str]) -> str | None:
        """The candidate that it prefers."""
        return next((name for name, _ in self.protocols if name in candidates), None)

    @property
    def is_waiting(self) -> bool:
        """Whether its session can't expire, since it waits for a response."""
        return not self.is_new and (self.join is not None or self.sync is not None)


def member_timer(group_id: str, member_id: str) -> TimerKey:
    """The timer of a member's session, or of a pending member."""
    return ("classic", "member", group_id, member_id)


def restored_member(group_id: str, protocol: str, stored: StoredMember) -> ClassicGroupMember:
    return ClassicGroupMember(
        group_id,
        stored.member_id,
        stored.instance_id,
        stored.client_id,
        stored.client_host,
        stored.session_timeout_ms
        if stored.rebalance_timeout_ms == -1
        else stored.rebalance_timeout_ms,
        stored.session_timeout_ms,
        (OfferedProtocol(protocol, stored.subscription),),
        stored.assignment,
    )
