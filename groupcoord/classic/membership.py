"""A member's place in its group: what a Heartbeat asks, found by who has asked before. Pure.

A member says the same with each Heartbeat of a generation. What was looked up for the first is
kept here; for those that follow it is looked at whether it still holds, which touches far less of
the memory: with thousands of members that is what the time of a Heartbeat goes into.
"""

from __future__ import annotations

from typing import Final

from kavka.groupcoord.classic.group import ClassicGroup, GroupState
from kavka.groupcoord.classic.members import Member
from kavka.groupcoord.classic.requests import HeartbeatRequest
from kavka.groupcoord.state import GroupsState
from kavka.log.timers import Timers

_REBALANCING: Final = GroupState.PREPARING_REBALANCE


class Membership:
    """That a member is in a generation of a group. Its session's deadline tells whether it still
    is: who leaves, is put out or replaced, or whose group ends, has that cancelled for good."""

    __slots__ = ("_generation", "_group", "_member", "_timers")

    def __init__(self, timers: Timers, group: ClassicGroup, member: Member) -> None:
        self._timers: Final = timers
        self._group: Final = group
        self._generation: Final = group.generation
        self._member: Final = member

    @property
    def group_id(self) -> str:
        return self._group.group_id

    def heartbeat(self, now_ms: int) -> bool:
        """Whether the member is told that all is well; then its session begins anew. Else nothing
        is done, and `ClassicProtocol.heartbeat` is to be asked."""
        group, member = self._group, self._member
        deadline = member.deadline
        return (
            deadline is not None
            and group.generation == self._generation
            and group.current is not _REBALANCING
            and self._timers.postpone(deadline, now_ms + member.session_timeout_ms)
        )


def membership_of(state: GroupsState, request: HeartbeatRequest) -> Membership | None:
    """Of who is told, now, that all is well; None if that must be found out anew each time."""
    group = state.groups.get(request.group_id)
    if not isinstance(group, ClassicGroup) or group.generation != request.generation:
        return None
    member = group.members.get(request.member_id)
    instance_id = request.instance_id
    if member is None or (instance_id is not None and instance_id != member.instance_id):
        return None
    return Membership(state.timers, group, member)
