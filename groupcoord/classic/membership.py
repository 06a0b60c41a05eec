"""The fast path of Heartbeat: the cached result of a member's last lookup. Pure.

A member sends the same Heartbeat throughout a generation. The lookup of the first one is cached
here; later ones only check that it is still valid, which touches far less memory. With thousands
of members that is most of the cost of a Heartbeat.
"""

from __future__ import annotations

from typing import Final

from kavka.groupcoord.classic.group import ClassicGroup, GroupState
from kavka.groupcoord.classic.group_requests import HeartbeatRequest
from kavka.groupcoord.classic.members import ClassicGroupMember
from kavka.groupcoord.state import GroupsState
from kavka.log.timers import Timers

_REBALANCING: Final = GroupState.PREPARING_REBALANCE


class Membership:
    """A member in a generation of a group. It is valid as long as the member's session deadline
    is: that is cancelled when the member leaves, is fenced or replaced, or the group is deleted."""

    __slots__ = ("_generation", "_group", "_member", "_timers")

    def __init__(self, timers: Timers, group: ClassicGroup, member: ClassicGroupMember) -> None:
        self._timers: Final = timers
        self._group: Final = group
        self._generation: Final = group.generation
        self._member: Final = member

    @property
    def group_id(self) -> str:
        return self._group.group_id

    def heartbeat(self, now_ms: int) -> bool:
        """Whether the response is NONE; then the session timeout is reset. Otherwise nothing is
        changed, and `ClassicProtocol.heartbeat` must be called."""
        group, member = self._group, self._member
        deadline = member.deadline
        return (
            deadline is not None
            and group.generation == self._generation
            and group.current is not _REBALANCING
            and self._timers.postpone(deadline, now_ms + member.session_timeout_ms)
        )


def membership_of(state: GroupsState, request: HeartbeatRequest) -> Membership | None:
    """The cacheable membership of a heartbeat that succeeded; None if there is none."""
    group = state.groups.get(request.group_id)
    if not isinstance(group, ClassicGroup) or group.generation != request.generation:
        return None
    member = group.members.get(request.member_id)
    instance_id = request.instance_id
    if member is None or (instance_id is not None and instance_id != member.instance_id):
        return None
    return Membership(state.timers, group, member)
