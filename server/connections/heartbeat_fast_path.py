"""Fast path for the Heartbeat that a member sends over and over.

Between two rebalances a member's Heartbeats differ only in their correlation ids. Once one has
taken the general path (`dispatch`, `handlers.heartbeat`) without an error, its bytes are
remembered; the next one with the same bytes skips decoding, and its response skips encoding. The
checks are the same: any request that can't be answered at once without an error takes the general
path.

`tests/unit/server/connections/test_heartbeat_fast_path.py` checks that both paths give the same
responses.
"""

from __future__ import annotations

from typing import Any, Final

from kavka.groupcoord.classic.membership import Membership, membership_of
from kavka.groupcoord.shard import GroupShard
from kavka.server.auth.authorizer import Operation, ResourceType
from kavka.server.broker import Broker
from kavka.server.coordinators.journal_runner import JournalRunner
from kavka.server.handlers import heartbeat
from kavka.server.request.context import RequestContext
from kavka.wire.apis.heartbeat import API, HeartbeatResponse
from kavka.wire.codec.frames import encode_response

_READ: Final = Operation.READ
_GROUP: Final = ResourceType.GROUP


class FastHeartbeat:
    """One remembered request: its bytes without correlation id, and its encoded response."""

    __slots__ = (
        "_after",
        "_answer",
        "_before",
        "_broker",
        "_context",
        "_group_id",
        "_image",
        "_membership",
        "_runner",
        "_size",
        "_tally",
    )

    def __init__(
        self,
        broker: Broker,
        context: RequestContext,
        frame: memoryview,
        membership: Membership,
        runner: JournalRunner[GroupShard],
    ) -> None:
        """`context` and `frame` are of a successful Heartbeat of `membership`'s member; `runner`
        is its group's."""
        self._broker = broker
        self._context = context
        self._group_id = membership.group_id
        self._membership = membership
        self._image = broker.metadata.image
        self._runner = runner
        self._size = len(frame)
        self._before = bytes(frame[:4])  # API key and version
        self._after = bytes(frame[8:])
        self._tally = broker.requests.of(API).fast_path_tallies[context.version]
        answer = encode_response(API, context.version, 0, HeartbeatResponse())[0]
        self._answer = bytes(answer[:4]), bytes(answer[8:])

    def answer(self, frame: memoryview) -> bytes | None:
        """The response if the request equals the remembered one; None: take the general path."""
        if len(frame) != self._size:
            return None
        request = frame.tobytes()
        if not request.endswith(self._after) or not request.startswith(self._before):
            return None
        broker, tally, runner = self._broker, self._tally, self._runner
        started_s = 0.0 if tally.left else broker.requests.now_s()
        if not broker.quotas.unlimited:
            return None  # the response may need a throttle time
        if not broker.authorizer.allows(self._context, _READ, _GROUP, self._group_id):
            return None
        if broker.metadata.image is not self._image:
            return None  # the group's coordinator may have changed
        if not runner.is_settled() or not self._membership.heartbeat(runner.now_ms()):
            return None
        before, after = self._answer
        answer = before + request[4:8] + after  # the correlation id
        if tally.left:
            tally.left -= 1
        else:
            broker.requests.count_fast_path(tally, self._context, started_s, frame, answer)
        return answer


def remember(
    broker: Broker, context: RequestContext, request: Any, frame: memoryview
) -> FastHeartbeat | None:
    """The fast path for a successful request; None if the next one must be decoded too.

    While a group is being loaded, Heartbeats succeed without a check, so they are not remembered.
    """
    runner = broker.groups.runner_for(request.group_id)
    if runner is None or not runner.is_settled():
        return None
    membership = membership_of(runner.machine.state, heartbeat.group_request(context, request))
    return None if membership is None else FastHeartbeat(broker, context, frame, membership, runner)
