"""One connection to a broker, on which requests are pipelined.

The broker sends the responses in the order of the requests. A request whose response does not come
in time ends the connection, and with it all requests behind it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from kavka.client.errors import Disconnected, NotConnected, TimedOut
from kavka.seams import TIMER_ROUNDING_S, Clock, Tasks, Timer
from kavka.wire import client_frames
from kavka.wire.api import Api
from kavka.wire.client_frames import MalformedResponse
from kavka.wire.frame import ArenaPool, FrameError, Framer

IN_FLIGHT_MAX: Final = 128
"""Requests of one connection without a response; a broker reads no more ahead."""

RESPONSE_BYTES_MAX: Final = 256 * 1024 * 1024
"""A larger response ends the connection. Of a Fetch response only the first batch can exceed the
limit that the request gives."""

NEVER_S: Final = float("inf")


class Callbacks(NamedTuple):
    """Exactly one of them is called, once; it must not raise."""

    on_response: Callable[[Any], object]
    on_failure: Callable[[Disconnected], object]


class _InFlight(NamedTuple):
    api: Api
    version: int
    correlation_id: int
    callbacks: Callbacks
    owns_bytes: bool
    due_s: float
    timeout_s: float


class Connection(asyncio.BufferedProtocol):
    """The protocol of one socket. `address` is for messages only."""

    def __init__(
        self, clock: Clock, tasks: Tasks, arenas: ArenaPool, *, address: str, client_id: str
    ) -> None:
        self.address: Final = address
        self.lost: Final[asyncio.Future[None]] = tasks.future()
        """Done when the connection has ended, for any reason."""
        self._clock = clock
        self._tasks = tasks
        self._client_id = client_id
        self._framer = Framer(arenas, RESPONSE_BYTES_MAX)
        self._in_flight: deque[_InFlight] = deque()
        self._correlation_id = 0
        self._transport: Any = None
        self._timer: Timer | None = None
        """For the request that has to be answered first."""
        self._timer_due_s = NEVER_S

    @property
    def is_open(self) -> bool:
        """Whether requests can be sent."""
        return self._transport is not None

    def send(
        self,
        api: Api,
        version: int,
        request: Any,
        callbacks: Callbacks,
        *,
        timeout_s: float,
    ) -> None:
        """Send a request. Records in its response are views that are valid during the callback.

        The request's own record bytes must not change before the response. NotConnected if the
        connection has ended; OverflowError with `IN_FLIGHT_MAX` requests in flight.
        """
        self._send(api, version, request, callbacks, timeout_s, owns_bytes=False)

    async def ask(
        self,
        api: Api,
        version: int,
        request: Any,
        *,
        timeout_s: float,
        take: Callable[[Any], Any] | None = None,
    ) -> Any:
        """The response to a request; it owns its bytes, for which the frame is copied. With `take`
        nothing is copied: that is called with the response, whose records are views that are valid
        during the call, and this returns or raises what it returns or raises.

        Disconnected (TimedOut) if the connection ends first, and as `send`.
        """
        response = self._tasks.future()

        def on_response(message: Any) -> None:
            if response.done():
                return  # the caller was cancelled
            try:
                response.set_result(message if take is None else take(message))
            except Exception as failure:
                response.set_exception(failure)

        def on_failure(failure: Disconnected) -> None:
            if not response.done():
                response.set_exception(failure)

        callbacks = Callbacks(on_response, on_failure)
        self._send(api, version, request, callbacks, timeout_s, owns_bytes=take is None)
        return await response

    def send_without_response(self, api: Api, version: int, request: Any) -> None:
        """Send what is not answered: a Produce request with acks=0. NotConnected as `send`."""
        self._write(api, version, request)

    def close(self) -> None:
        """Close it; requests in flight fail."""
        self._end(Disconnected(f"the connection to {self.address} was closed"))

    # -- asyncio callbacks ----------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        why = f": {exc}" if exc is not None else ""
        self._end(Disconnected(f"{self.address} closed the connection{why}"))
        self._framer.close()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._framer.get_buffer(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        framer = self._framer
        framer.buffer_updated(nbytes)
        try:
            while self._transport is not None and (frame := framer.next_frame()) is not None:
                self._respond(frame)
                frame = None  # no view of an arena may exist while it is read into
        except FrameError:
            self._end(Disconnected(f"{self.address} sent what is not a response of Kafka's"))
        except MalformedResponse as failure:
            self._end(Disconnected(f"{self.address} sent a malformed response: {failure}"))
        framer.release_or_stash()

    # -- requests and responses -----------------------------------------------------------

    def _send(
        self,
        api: Api,
        version: int,
        request: Any,
        callbacks: Callbacks,
        timeout_s: float,
        *,
        owns_bytes: bool,
    ) -> None:
        if len(self._in_flight) >= IN_FLIGHT_MAX:
            raise OverflowError(f"{self.address} has not answered {IN_FLIGHT_MAX} requests")
        correlation_id = self._write(api, version, request)
        due_s = self._clock.monotonic_s() + timeout_s
        self._in_flight.append(
            _InFlight(api, version, correlation_id, callbacks, owns_bytes, due_s, timeout_s)
        )
        if due_s < self._timer_due_s:
            self._set_timer(due_s, timeout_s)

    def _write(self, api: Api, version: int, request: Any) -> int:
        """Write a request; its correlation id."""
        if self._transport is None:
            raise NotConnected(f"the connection to {self.address} has ended")
        correlation_id = self._correlation_id = (self._correlation_id + 1) & 0x7FFF_FFFF
        parts = client_frames.encode_request(api, version, correlation_id, self._client_id, request)
        self._transport.writelines(parts)
        return correlation_id

    def _respond(self, frame: memoryview) -> None:
        correlation_id = client_frames.correlation_id_of(frame)
        if not self._in_flight or self._in_flight[0].correlation_id != correlation_id:
            raise MalformedResponse(f"no response is due with correlation id {correlation_id}")
        request = self._in_flight[0]
        if request.owns_bytes:
            frame = memoryview(bytes(frame))
        message = client_frames.decode_response(request.api, request.version, frame)
        self._in_flight.popleft()
        request.callbacks.on_response(message)

    def _set_timer(self, due_s: float, within_s: float) -> None:
        self._stop_timer()
        self._timer_due_s = due_s
        self._timer = self._tasks.call_later(within_s, self._time_out)

    def _stop_timer(self) -> None:
        self._timer_due_s = NEVER_S
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _time_out(self) -> None:
        """The request that the timer was set for is due, or was answered: then the timer is set
        again, which costs less than a timer for each request."""
        self._stop_timer()
        if not self._in_flight:
            return
        first = min(self._in_flight, key=lambda request: request.due_s)
        left_s = first.due_s - self._clock.monotonic_s()
        if left_s > TIMER_ROUNDING_S:
            self._set_timer(first.due_s, left_s)
        else:
            late = f"{first.api.name} within {first.timeout_s:g} s"
            self._end(TimedOut(f"{self.address} has not answered {late}"))

    def _end(self, failure: Disconnected) -> None:
        self._stop_timer()
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()
        if not self.lost.done():
            self.lost.set_result(None)
        while self._in_flight:
            request = self._in_flight.popleft()
            request.callbacks.on_failure(failure)
