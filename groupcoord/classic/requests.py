"""What the requests of the classic protocol ask, of whichever kind of group. Pure.

A group that members of both protocols are in answers them as well (KIP-848), so who asks does not
know which rules will answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from kavka.groupcoord.classic.members import OfferedProtocol
from kavka.log.journal import DecisionOrSteps, Ticket
from kavka.wire.errors import ErrorCode

LEAVERS_A_STEP: Final = 100
"""Members that leave in one go: each costs a line in the log."""


class JoinRequest(NamedTuple):
    """JoinGroup in `version`; `member_id` is "" for one without."""

    group_id: str
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Sequence[OfferedProtocol]
    """Each name once, the most liked in front."""

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


class Leaver(NamedTuple):
    """One that is to leave a group: a member by its id, or a static one by its instance id."""

    member_id: str
    instance_id: str | None = None
    reason: str | None = None


class LeaveRequest(NamedTuple):
    """LeaveGroup."""

    group_id: str
    leavers: Iterable[Leaver]
    """Gone through once."""


class ClassicRequests(Protocol):
    """Who answers them."""

    def join(self, request: JoinRequest, ticket: Ticket, now_ms: int) -> DecisionOrSteps:
        """Answered with a JoinGroupResponse, which comes when the rebalance ends; the answer
        must be the ticket's alone."""
        ...

    def sync(self, request: SyncRequest, ticket: Ticket, now_ms: int) -> DecisionOrSteps:
        """Answered with a SyncGroupResponse, which comes when the leader has asked too."""
        ...

    def heartbeat(self, request: HeartbeatRequest, now_ms: int) -> ErrorCode:
        """What the member is told, when what it rests on is committed. ApiError, or a code."""
        ...

    def leave(self, request: LeaveRequest, ticket: Ticket, now_ms: int) -> DecisionOrSteps:
        """Answered with a LeaveGroupResponse, which has a code for each of the leavers."""
        ...
