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

    __slots__ = (
        "_after",
        "_answer",
        "_before",
        "_broker",
        "_context",
        "_group_id",
        "_image",
        "_look",
        "_runner",
        "_size",
        "_tally",
    )

    def __init__(
        self, broker: Broker, context: RequestContext, request: Any, frame: memoryview
    ) -> None:
        """`request` was answered without an error."""
        self._broker = broker
        self._context = context
        self._group_id: str = request.group_id
        self._look = partial(heartbeat.look, heartbeat.asked(context, request))
        self._image = broker.metadata.image
        self._runner = broker.groups.runner_of(request.group_id)
        self._size = len(frame)
        self._before = bytes(frame[:4])  # API key and version
        self._after = bytes(frame[8:])
        self._tally = broker.requests.of(API).remembered[context.version]
        answer = encode_response(API, context.version, 0, HeartbeatResponse())[0]
        self._answer = bytes(answer[:4]), bytes(answer[8:])

    def answer(self, frame: memoryview) -> bytes | None:
        """The answer to a request that is the remembered one; None: it must go the general way."""
        if len(frame) != self._size:
            return None
        request = frame.tobytes()
        if request[8:] != self._after or request[:4] != self._before:
            return None
        broker, tally = self._broker, self._tally
        started_s = 0.0 if tally.left else broker.requests.now_s()
        if not broker.quotas.unlimited:
            return None  # the answer may have to say how long to be quiet
        if not broker.authorizer.allows(self._context, _READ, _GROUP, self._group_id):
            return None
        if broker.metadata.image is not self._image or self._runner is None:
            return None  # another partition may be the group's
        try:
            if self._runner.read_at_once(self._look) is not _NONE:
                return None
        except ApiError:
            return None
        before, after = self._answer
        answer = before + request[4:8] + after  # the correlation id
        if tally.left:
            tally.left -= 1
        else:
            broker.requests.timed_at_once(tally, self._context, started_s, frame, answer)
        return answer
