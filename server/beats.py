"""A short way for the Heartbeat that a member sends over and over.

Between two rebalances a member's Heartbeats differ in nothing but their correlation ids. Once one
has gone the general way (`dispatch`, `handlers.heartbeat`) and was answered without an error, its
bytes are remembered; the next one with the same bytes is asked of the group without being decoded,
and answered without being encoded. What is checked is the same: whatever is not answered at once
and without an error goes the general way, which asks once more; to ask twice changes nothing.

`tests/unit/server/test_beats.py` holds both ways to the same answers.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from kavka.server.auth.authorizer import Operation, ResourceType
from kavka.server.broker import Broker
from kavka.server.context import RequestContext
from kavka.server.handlers import heartbeat
from kavka.wire.apis.heartbeat import API, HeartbeatResponse
from kavka.wire.codec import encode_response
from kavka.wire.errors import ApiError, ErrorCode

_READ: Final = Operation.READ
_GROUP: Final = ResourceType.GROUP
_NONE: Final = ErrorCode.NONE


class Beat:
    """One remembered request: its bytes without correlation id, and its answer."""

    __slots__ = ("_answer", "_broker", "_context", "_group_id", "_head", "_look", "_rest", "_tally")

    def __init__(
        self, broker: Broker, context: RequestContext, request: Any, frame: memoryview
    ) -> None:
        """`request` was answered without an error."""
        self._broker = broker
        self._context = context
        self._group_id: str = request.group_id
        self._look = partial(heartbeat.look, heartbeat.asked(context, request))
        self._head = bytes(frame[:4])  # API key and version
        self._rest = bytes(frame[8:])
        self._tally = broker.requests.of(API).remembered[context.version]
        answer: bytearray = encode_response(API, context.version, 0, HeartbeatResponse())[0]
        self._answer = answer

    def answer(self, frame: memoryview) -> bytearray | None:
        """The answer to a request that is the remembered one; None: it must go the general way."""
        if frame[8:] != self._rest or frame[:4] != self._head:
            return None
        broker, tally = self._broker, self._tally
        started_s = 0.0 if tally.left else broker.requests.now_s()
        if not broker.quotas.unlimited:
            return None  # the answer may have to say how long to be quiet
        if not broker.authorizer.allows(self._context, _READ, _GROUP, self._group_id):
            return None
        try:
            if broker.groups.read_at_once(self._group_id, self._look) is not _NONE:
                return None
        except ApiError:
            return None
        answer = self._answer[:]
        answer[4:8] = frame[4:8]  # the correlation id
        if tally.left:
            tally.left -= 1
        else:
            broker.requests.timed_at_once(tally, self._context, started_s, frame, answer)
        return answer
