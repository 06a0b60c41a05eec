"""Fast path for requests that a client sends over and over.

Such requests of one kind differ only in correlation id and one part at their end. Once a request
has taken the general path (`dispatch`, `handlers`) without an error, the bytes in front of that
part are remembered with an encoded response to fill in. The next one with the same bytes is
carried out without decoding the request or encoding the response. All checks whose outcome may
change are repeated; what may fail takes the general path. Where a response has to wait, the rest of
the general path makes it.

`tests/unit/server/connections` has tests that both paths give the same responses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from kavka.server.broker import Broker
from kavka.server.request import log as request_log
from kavka.server.request.context import RequestContext, Response
from kavka.server.request.results import Call
from kavka.server.request.sliced_responses import EncodedResponse
from kavka.server.request.stats import Tally
from kavka.wire import header
from kavka.wire.api import Api
from kavka.wire.codec.frames import encode_response

REMEMBERED_MAX: Final = 8
"""Requests remembered per connection, a few hundred bytes each; a further one evicts one that was
not used lately, or else is not remembered."""


class FastRequest:
    """One remembered request: the bytes that the next ones have too, and their encoded response,
    where that is filled in."""

    __slots__ = ("api", "broker", "context", "end", "head", "middle", "response", "tally", "used")

    def __init__(
        self,
        broker: Broker,
        api: Api,
        context: RequestContext,
        frame: memoryview,
        end: int,
        response: Response | None = None,
    ) -> None:
        """`frame` varies from `end` on; `response` is one like the responses to such requests, if
        `handle` fills it in."""
        self.broker = broker
        self.api = api
        self.context = context
        self.end = end
        self.head = bytes(frame[:4])  # API key and version; the correlation id follows
        self.middle = bytes(frame[8:end])
        self.response = bytearray()
        if response is not None:
            self.response = encode_response(api, context.version, 0, response)[0]
        self.tally = broker.requests.of(api).fast_path_tallies[context.version]
        self.used = True
        """Whether it was used since the last search for one to evict."""

    def handle(self, frame: memoryview) -> bytearray | Call | None:
        """Repeat the checks whose outcome may have changed, carry the request out, and fill in a
        copy of the response but for the correlation id. A call whose result is a DelayedResponse,
        if the response has to wait; it counts as one of the general path. None: nothing was done.
        `frame` has the remembered bytes, if it is not too short."""
        raise NotImplementedError

    def is_untimed(self, tally: Tally) -> bool:
        """Whether neither the metrics nor the request log want the times of the next request that
        `tally` counts."""
        return tally.left > 0 and request_log.is_on() is self.broker.requests.logs

    def context_of(self, frame: memoryview) -> RequestContext:
        """The context of one of these requests."""
        first, (_, _, correlation_id, _) = self.context, header.read_fixed(frame)
        return RequestContext(first.peer, first.version, correlation_id, first.client_id)

    def is_current(self) -> bool:
        """Whether the fast path may still serve such requests; if not, this one is forgotten."""
        raise NotImplementedError


class FastPath:
    """The remembered requests of one connection."""

    __slots__ = ("_kinds", "broker", "requests")

    def __init__(self, broker: Broker, kinds: Mapping[int, Remember]) -> None:
        """`kinds`: by API key."""
        self._kinds = kinds
        self.broker = broker
        self.requests: list[FastRequest] = []

    def respond(self, frame: memoryview) -> bytearray | Call | None:
        """Carry out a remembered request and return its response, or a call whose response has to
        wait; None: nothing was done, and the request must take the general path."""
        remembered = self._find(frame)
        return None if remembered is None else self._carry_out(remembered, frame)

    def call(self, frame: memoryview) -> Call | None:
        """As `respond`, for a response that has to wait for those before it."""
        remembered = self._find(frame)
        if remembered is None:
            return None
        result = self._carry_out(remembered, frame)
        if not isinstance(result, bytearray):
            return result
        response = EncodedResponse(None, [result], {})
        return Call(remembered.api, remembered.context_of(frame), None, response)

    def _carry_out(self, remembered: FastRequest, frame: memoryview) -> bytearray | Call | None:
        broker, tally = self.broker, remembered.tally
        started_s = 0.0 if tally.left else broker.requests.now_s()
        if not broker.quotas.unlimited:
            return None  # the response may need a throttle time
        result = remembered.handle(frame)
        if result is None:
            if not remembered.is_current():
                self.requests.remove(remembered)
            return None
        remembered.used = True
        if result.__class__ is Call:
            return result
        assert isinstance(result, bytearray)
        result[4:8] = frame[4:8]  # the correlation id
        if tally.left:
            tally.left -= 1
        else:
            broker.requests.count_fast_path(tally, remembered.context, started_s, frame, result)
        return result

    def _find(self, frame: memoryview) -> FastRequest | None:
        for remembered in self.requests:
            begin = frame[: remembered.end].tobytes()  # comparing views takes twice as long
            if begin.endswith(remembered.middle) and begin.startswith(remembered.head):
                return remembered
        return None

    def remember(
        self, api: Api, context: RequestContext, request: Any, response: Any, frame: memoryview
    ) -> None:
        """Remember a request that has just taken the general path, if the fast path can serve it.

        It must have succeeded, so those of its fields that are checked only once were valid.
        """
        remember = self._kinds.get(api.key)
        if remember is not None:
            remember(self, context, request, response, frame)

    def has_room_for(self, frame: memoryview) -> bool:
        """Whether a request may be remembered, in place of one with the same remembered bytes, if
        there is one, which has just not served it."""
        remembered = self._find(frame)
        if remembered is not None:
            self.requests.remove(remembered)
        return remembered is not None or self._has_room()

    def _has_room(self) -> bool:
        """Whether one more may be remembered. Evicts those that are not current any more first,
        then one not used since the last call that found the list full."""
        if len(self.requests) < REMEMBERED_MAX:
            return True
        self.requests = [remembered for remembered in self.requests if remembered.is_current()]
        for remembered in self.requests:
            if not remembered.used:
                self.requests.remove(remembered)
                break
            remembered.used = False
        return len(self.requests) < REMEMBERED_MAX

    def forget(self, api: Api) -> None:
        """Forget all requests of this kind."""
        self.requests = [remembered for remembered in self.requests if remembered.api is not api]


Remember: TypeAlias = Callable[[FastPath, RequestContext, Any, Any, memoryview], object]
"""Of one kind of request: remembers one from its context, itself, its response and its frame."""
