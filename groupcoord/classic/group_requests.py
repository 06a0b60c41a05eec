"""Requests of the classic protocol, to any kind of group. Pure.

A consumer group with members of both protocols handles them too (KIP-848), so the caller does not
know which implementation will.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from kavka.groupcoord.classic.members import OfferedProtocol
from kavka.log.journal import DecisionOrSteps, ReplyFuture
from kavka.wire.errors import ErrorCode

LEAVING_MEMBERS_PER_STEP: Final = 100
"""Members that leave between two pauses; each of them is logged."""


class JoinRequest(NamedTuple):
    """JoinGroup in `version`; `member_id` is "" if there is none."""

    group_id: str
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Sequence[OfferedProtocol]
    """Without duplicates, in order of preference."""

    reason: str | None
    version: int


class SyncRequest(NamedTuple):
    """SyncGroup."""

    group_id: str
    generation: int
    member_id: str
    instance_id: str | None
    protocol_type: str | None
    protocol: str | None
    assignments: Mapping[str, bytes]
    """By member id; of the leader."""


class HeartbeatRequest(NamedTuple):
    """Heartbeat."""

    group_id: str
    generation: int
    member_id: str
    instance_id: str | None


class LeavingMember(NamedTuple):
    """A member to remove: by its member id, or a static one by its instance id."""

    member_id: str
    instance_id: str | None = None
    reason: str | None = None


class LeaveRequest(NamedTuple):
    """LeaveGroup."""

    group_id: str
    leaving_members: Iterable[LeavingMember]
    """Iterated only once."""


class ClassicRequests(Protocol):
    """The handler of these requests."""

    def join(self, request: JoinRequest, future: ReplyFuture, now_ms: int) -> DecisionOrSteps:
        """Replies with a JoinGroupResponse, for a classic group when the rebalance completes; the
        response object must not be shared by futures."""
        ...

    def sync(self, request: SyncRequest, future: ReplyFuture, now_ms: int) -> DecisionOrSteps:
        """Replies with a SyncGroupResponse, in a classic group after the leader's SyncGroup."""
        ...

    def heartbeat(self, request: HeartbeatRequest, now_ms: int) -> ErrorCode:
        """The error code of the response, to be sent once the state it depends on is committed.
        May raise ApiError instead."""
        ...

    def leave(self, request: LeaveRequest, future: ReplyFuture, now_ms: int) -> DecisionOrSteps:
        """Replies with a LeaveGroupResponse with an error code for each leaving member."""
        ...
