"""Fast path for the Heartbeat that a member of a classic group sends over and over.

Between two rebalances a member's Heartbeats differ only in their correlation ids. One takes 2.5 us
instead of 11 (`bench.micro`: "Heartbeat").
"""

from __future__ import annotations

from typing import Any, Final

from kavka.groupcoord.classic.membership import Membership, membership_of
from kavka.groupcoord.shard import GroupShard
from kavka.server.auth.authorizer import Operation, ResourceType
from kavka.server.broker import Broker
from kavka.server.connections.fast_path import FastPath, FastRequest
from kavka.server.coordinators.journal_runner import JournalRunner
from kavka.server.handlers import heartbeat
from kavka.server.request.context import RequestContext
from kavka.wire.apis.heartbeat import API, HeartbeatResponse

_READ: Final = Operation.READ
_GROUP: Final = ResourceType.GROUP


class FastHeartbeat(FastRequest):
    """One member's Heartbeat in one generation."""

    __slots__ = ("_group_id", "_image", "_membership", "_runner")

    def __init__(
        self,
        broker: Broker,
        context: RequestContext,
        frame: memoryview,
        membership: Membership,
        runner: JournalRunner[GroupShard],
    ) -> None:
        """`runner` is that of the member's group."""
        super().__init__(broker, API, context, frame, len(frame), HeartbeatResponse())
        self._group_id = membership.group_id
        self._membership = membership
        self._image = broker.metadata.image
        self._runner = runner

    def handle(self, frame: memoryview) -> bytearray | None:
        broker, runner = self.broker, self._runner
        if len(frame) != self.end or broker.metadata.image is not self._image:
            return None
        if not broker.authorizer.allows(self.context, _READ, _GROUP, self._group_id):
            return None
        if not runner.is_settled() or not self._membership.heartbeat(runner.now_ms()):
            return None
        return self.response[:]

    def is_current(self) -> bool:
        """Not when the group's coordinator may have changed."""
        return self.broker.metadata.image is self._image


def remember(
    fast_path: FastPath,
    context: RequestContext,
    request: Any,
    response: HeartbeatResponse,
    frame: memoryview,
) -> None:
    """Only the latest, as a client is in one group at a time; none after an error: the member is
    leaving or rejoining. Nor while a group is being loaded: Heartbeats then succeed without a
    check."""
    fast_path.forget(API)
    broker = fast_path.broker
    runner = broker.groups.runner_for(request.group_id)
    if response.error_code or runner is None or not runner.is_settled():
        return
    membership = membership_of(runner.machine.state, heartbeat.group_request(context, request))
    if membership is not None and fast_path.has_room_for(frame):
        made = FastHeartbeat(broker, context, frame, membership, runner)
        fast_path.requests.append(made)
