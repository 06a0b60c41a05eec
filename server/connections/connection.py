"""One client connection: frames in, responses out in the order of the requests.

Requests reach their handlers in the order of arrival, and each sees what those before it did: what
is behind a request that is still being carried out waits for its response; so does what is behind a
JoinGroup or SyncGroup that waits for other members. Only Produce does not wait for Produce; and
nothing waits for a long poll, or what else is only not answered yet.
Reading pauses while too many requests are in flight, while the client does not read its responses,
while it is throttled, and while a big request waits for memory; docs/limits.md has the limits. It
ends with the client's stream or with a frame that is no request: the connection closes when all
requests before that are answered, as in Apache Kafka, which reads no further before it has
answered.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from types import CoroutineType
from typing import Any, Final

from kavka.seams import Tasks
from kavka.server.config.value_types import one_line
from kavka.server.connections.dispatch import FAST_PATHS, Dispatcher
from kavka.server.connections.in_flight import IN_FLIGHT_MAX, PRODUCE, Slot, weight_of
from kavka.server.connections.registry import Acceptor, Connections, RegisteredConnection
from kavka.server.request.context import BadRequest, Peer, RequestContext
from kavka.server.request.results import Call, DelayedResponse
from kavka.server.runtime.purgatory import Wait
from kavka.server.runtime.sockets import dialled_address
from kavka.wire.api import Api
from kavka.wire.errors import clear_tracebacks
from kavka.wire.frame import ARENA_BYTES, Arena, ArenaPool, FrameError, Framer

BYTES_PER_ITERATION_MAX: Final = 1024 * 1024
"""Bytes received before other connections are served; at 0.5 us a KiB, half a millisecond. Counted
across loop iterations, as pausing and resuming the socket costs two system calls."""

FRAMES_PER_ITERATION_MAX: Final = 64
"""Frames handled before other connections are served; at 20 us each, 1.3 ms."""

TURN_S_MAX: Final = 0.002
"""The same as a time limit; some requests cost a millisecond each."""

REASON_CHARS_MAX: Final = 500
"""Length limit of the logged reason for a bad request, which may quote a name from it."""


class Connection(RegisteredConnection):
    """The protocol of one accepted socket."""

    __slots__ = (
        "_arenas",
        "_bytes_in_slice",
        "_connections",
        "_dispatcher",
        "_ended",
        "_framer",
        "_lent",
        "_memory_bytes",
        "_muted",
        "_muted_until_s",
        "_now_s",
        "_out",
        "_peer",
        "_reading",
        "_fast_path",
        "_held_back",
        "_holding_back",
        "_holding_back_produce",
        "_slots",
        "_tasks",
        "_transport",
        "_unapplied",
        "_unsent_bytes",
        "_waits_for_memory",
        "_weight",
        "_write_paused",
        "_writes_whole",
        "get_buffer",
    )

    get_buffer: Callable[[int], memoryview]  # type: ignore[assignment]
    """The framer's method itself, as asyncio calls it before each read."""

    def __init__(
        self,
        acceptor: Acceptor,
        host: str,
        dispatcher: Dispatcher,
        tasks: Tasks,
        arenas: ArenaPool,
        connections: Connections,
        request_bytes_max: int,
    ) -> None:
        self.acceptor = acceptor
        self.host = host
        self.last_active = 0
        """Value of the shared activity counter when this connection was last active."""
        self._dispatcher = dispatcher
        self._tasks = tasks
        self._arenas = arenas
        self._connections = connections
        self._framer = Framer(arenas, request_bytes_max)
        self.get_buffer = self._framer.get_buffer
        self._fast_path = dispatcher.fast_path()
        self._now_s = dispatcher.now_s
        self._slots: deque[Slot] = deque()
        self._holding_back = 0
        """Requests in flight that others wait for; of several, all are Produce."""
        self._holding_back_produce = False
        """Whether these are Produce, which Produce may pass."""
        self._held_back = False
        """Whether the next frame must not be handled before they are answered."""
        self._unapplied: Slot | None = None
        """The last request, while it is not applied (`RequestContext.applied`): it may still need
        its frame, even after its connection has closed."""
        self._out: list[Any] = []
        self._lent: list[Arena] = []
        self._transport: Any = None
        self._bytes_in_slice = 0
        self._reading = True
        self._ended = False
        self._muted = False
        self._muted_until_s = 0.0
        self._write_paused = False
        self._unsent_bytes = 0
        self._weight = 0
        self._memory_bytes = 0
        self._waits_for_memory = False
        self._peer = Peer(acceptor.name, host)

    # -- asyncio callbacks ----------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        # With a high-water mark of 0, `pause_writing` reports at once whether bytes are left
        # unsent; if not, lent buffers can be reused.
        transport.set_write_buffer_limits(0)  # type: ignore[attr-defined]
        # uvloop hands the parts to one writev; plain asyncio before 3.12 would join (copy) them.
        self._writes_whole = type(transport).__module__.startswith("uvloop")
        peername = transport.get_extra_info("peername")
        if peername is not None:
            self._peer.address = f"{self.host}:{peername[1]}"
        if self.acceptor.dialled_port is not None:
            self._peer.dialled = dialled_address(transport, self.acceptor.dialled_port)
        if not self._connections.may_stay(self):
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Also called if an accepted connection could not be set up."""
        self._transport = None
        self._connections.forget(self)
        if self._peer.on_lost is not None:
            self._peer.on_lost()
        self._drop_requests()
        self._lent.clear()  # the transport may still hold them: garbage collected, not reused

    def buffer_updated(self, nbytes: int) -> None:
        connections = self._connections
        connections.activity = self.last_active = connections.activity + 1
        now_s = self._peer.arrived_s = self._now_s()
        framer = self._framer
        frame = None
        if not (self._slots or self._write_paused or self._muted):
            frame = framer.single_frame(nbytes)  # the common case
        if frame is None:
            framer.buffer_updated(nbytes)
            self._serve(now_s)
        elif (result := self._fast_path.respond(frame)) is not None:
            if isinstance(result, Call):
                self._queue(result, len(frame))
            else:
                self._transport.write(result)
        else:
            del frame  # no view of an arena may exist while it is read into
            framer.buffer_updated(nbytes)
            self._serve(now_s, framer.next_frame())
        self._bytes_in_slice += nbytes
        if self._bytes_in_slice >= BYTES_PER_ITERATION_MAX:
            self._end_slice()

    def eof_received(self) -> bool:
        self._end_reading()
        return bool(self._slots)  # keep the connection open until they are answered

    def pause_writing(self) -> None:
        self._write_paused = True

    def resume_writing(self) -> None:
        self._write_paused = False
        self._release_arenas()
        self._resume()

    # -- requests -------------------------------------------------------------------------

    def _serve(self, now_s: float, first: memoryview | None = None) -> None:
        """Handle a bounded number of buffered frames, after `first`, which the fast path has
        already declined."""
        framer = self._framer
        ends_s = now_s + TURN_S_MAX
        try:
            if first is not None:
                self._handle(first)
                first = None  # no view of an arena may exist while it is read into
                if self._lent:
                    self._flush()
            for _ in range(FRAMES_PER_ITERATION_MAX):
                if self._write_paused or self._muted or self._weight >= IN_FLIGHT_MAX:
                    framer.release_if_empty()
                    self._shrink_memory()
                    self._pause()
                    break
                frame = framer.next_frame()
                if frame is None:
                    framer.release_or_stash()
                    if framer.pending_frame_bytes > ARENA_BYTES or self._memory_bytes:
                        waits = self._holding_back and not self._holding_back_produce
                        self._reserve_memory(0 if waits else framer.pending_frame_bytes)
                        if waits:
                            self._hold_back()
                    break
                if self._holding_back and not self._may_pass(frame):
                    framer.put_back(frame)
                    frame = None
                    self._hold_back()
                    break
                if self._take_fast_path(frame):
                    frame = None
                    continue
                self._handle(frame)
                frame = None
                if self._lent:
                    self._flush()  # send big responses one by one, so that reading may pause
                if self._now_s() >= ends_s:
                    self._yield_to_others()
                    break
            else:
                self._yield_to_others()
        except (BadRequest, FrameError) as failure:
            self._close_for_bad_request(str(failure))
            return
        except Exception:
            self.abort()  # asyncio does it only for its own callbacks
            raise
        if self._out:
            self._flush()

    def _handle(self, frame: memoryview) -> None:
        call = self._dispatcher.call(self._peer, frame)
        result: Any = call.result
        if result is None:
            return
        kind = result.__class__
        waiting: asyncio.Future[Any]
        if kind is CoroutineType:
            waiting = self._tasks.spawn(result, name=call.api.name)
        elif kind is asyncio.Future:
            waiting = result
        else:
            if call.api.key in FAST_PATHS:
                self._fast_path.remember(call.api, call.context, call.request, result, frame)
            if kind is DelayedResponse:
                self._dispatcher.drop_frame_views(call.api, call.request)
                self._queue(call, len(frame))
            elif self._slots:
                self._queue(call, len(frame))
            else:
                self._write(call.api, call.context, result, len(frame))
            return
        slot = Slot(call, waiting, len(frame))
        applied = call.context.applied
        if call.context.keeps_frame and applied is not None:
            self._framer.retain_frame()
        else:
            self._dispatcher.drop_frame_views(slot.api, slot.request)
        if applied is not None:
            slot.weight = IN_FLIGHT_MAX
            self._unapplied = slot
            applied.add_done_callback(lambda _: self._applied(slot))
        self._enqueue(slot)
        waiting.add_done_callback(lambda waiting: self._response_ready(slot, waiting))

    def _take_fast_path(self, frame: memoryview) -> bool:
        """Whether the fast path has carried out a request."""
        fast_path = self._fast_path
        result = fast_path.call(frame) if self._slots else fast_path.respond(frame)
        if isinstance(result, Call):
            self._queue(result, len(frame))
        elif result is not None:
            self._out.append(result)
        return result is not None

    def _queue(self, call: Call, request_bytes: int) -> None:
        """The response to a request has to wait for a change of partitions, or for the responses
        before it."""
        delayed = call.result
        if not isinstance(delayed, DelayedResponse):
            self._enqueue(Slot(call, None, request_bytes))
            return
        slot = Slot(call, delayed.wait, request_bytes)
        self._enqueue(slot)
        delayed.wait.add_callback(lambda is_complete: self._wait_ended(slot, delayed, is_complete))

    def _may_pass(self, frame: memoryview) -> bool:
        """Whether a request may be handled while others are carried out: Produce behind Produce."""
        return self._holding_back_produce and self._dispatcher.is_produce(frame)

    def _hold_back(self) -> None:
        self._held_back = True
        self._shrink_memory()
        self._framer.release_or_stash()
        self._pause()

    def _enqueue(self, slot: Slot) -> None:
        self._slots.append(slot)
        self._weight += slot.weight
        if slot.holds_back:
            self._holding_back += 1
            self._holding_back_produce = slot.api.key == PRODUCE

    def _applied(self, slot: Slot) -> None:
        """The request has been applied, though its response may still wait: read the next requests,
        in the next loop iteration, as the response may be to close the connection."""
        if slot is self._unapplied:  # else the response came before this callback
            self._unblock_next(slot)
        self._tasks.call_soon(self._resume)

    def _unblock_next(self, slot: Slot) -> None:
        """Let the requests behind `slot` be read, and release its frame."""
        self._unapplied = None
        weight = weight_of(slot.api)
        self._weight -= slot.weight - weight
        slot.weight = weight
        if slot.context.keeps_frame:
            self._dispatcher.drop_frame_views(slot.api, slot.request)
            self._framer.release_frame()
        self._shrink_memory()

    def _wait_ended(self, slot: Slot, delayed: DelayedResponse, is_complete: bool | None) -> None:
        """A wait for a change of partitions has ended."""
        if is_complete is None or self._is_closing:
            return  # `_drop_requests` has cancelled it, or will
        api, context, request = slot.api, slot.context, slot.request
        made = self._dispatcher.make(api, context, request, delayed, is_complete)
        if made.__class__ is CoroutineType:  # it takes longer, as the disk has to be read
            slot.waiting = task = self._tasks.spawn(made, name=api.name)
            task.add_done_callback(lambda task: self._response_ready(slot, task))
        else:
            self._send_response(slot, made, None)

    def _response_ready(self, slot: Slot, waiting: asyncio.Future[Any]) -> None:
        """A handler's awaited response is ready."""
        if self._is_closing:
            return
        if waiting.cancelled():  # no response behind it could ever be sent
            self.abort()
            return
        failure = waiting.exception()
        self._send_response(slot, None if failure else waiting.result(), failure)

    @property
    def _is_closing(self) -> bool:
        return self._transport is None or self._transport.is_closing()

    def _send_response(self, slot: Slot, response: Any, failure: BaseException | None) -> None:
        """Send a response that was waited for, or one to a failure. If it can't be sent, neither
        can any behind it: the connection is closed."""
        try:
            self._send_ready(slot, response, failure)
        except BadRequest as bad_request:
            clear_tracebacks(bad_request)  # the slot holds it, and its traceback the slot: a cycle
            self._drop_requests()
            self._close_for_bad_request(str(bad_request))
        except Exception:
            self.abort()
            raise
        # In the next loop iteration: until then a future may hold a view of what was sent.
        if not self._reading:
            self._tasks.call_soon(self._resume)

    def _send_ready(self, slot: Slot, response: Any, failure: BaseException | None) -> None:
        """Send the completed responses at the head of the queue."""
        slot.waiting = None
        self._holding_back -= slot.holds_back
        slot.holds_back = False
        if slot is self._unapplied:
            self._unblock_next(slot)
        if slot.context.timing is not None:
            slot.context.timing.responded()
        if failure is not None:
            response = self._dispatcher.failed(slot.api, slot.context, slot.request, failure)
        slot.response = response
        if response.__class__ is BadRequest:
            self._end_reading()  # close the connection when all before it are answered
        connections = self._connections
        connections.activity = self.last_active = connections.activity + 1
        slots = self._slots
        while slots and slots[0].waiting is None:
            head = slots.popleft()
            self._weight -= head.weight
            if head.response.__class__ is BadRequest:
                raise head.response
            if head.response is not None:
                self._write(head.api, head.context, head.response, head.request_bytes)
            elif head.context.timing is not None:
                head.context.timing.written(head.context, head.request_bytes, 0, 0)
        if self._out:
            self._flush()
        if self._ended and not slots:
            self.close()

    # -- back-pressure --------------------------------------------------------------------

    def _end_slice(self) -> None:
        """Yield to other connections: a transport keeps reading while its buffer fills up."""
        self._bytes_in_slice = 0
        if self._reading:
            self._yield_to_others()

    def _yield_to_others(self) -> None:
        """Continue in the next loop iteration."""
        self._pause()
        self._tasks.call_soon(self._resume)

    def _pause(self) -> None:
        if self._reading and self._transport is not None:
            self._reading = False
            self._transport.pause_reading()

    def _resume(self) -> None:
        """Continue with the buffered frames, then with the socket."""
        if self._reading or self._ended or self._is_closing:
            return
        if self._write_paused or self._muted or self._weight >= IN_FLIGHT_MAX:
            self._shrink_memory()
            return
        if self._waits_for_memory or (self._held_back and self._holding_back):
            return
        self._held_back = False
        self._reading = True
        self._framer.unstash()
        self._transport.resume_reading()
        self._serve(self._now_s())

    def _reserve_memory(self, needed: int) -> None:
        """Read a big request only when memory for all of it is reserved."""
        if needed == self._memory_bytes:
            return
        self._release_memory()
        if needed <= ARENA_BYTES:
            return
        if self._connections.reserve_memory(needed, self._memory_available):
            self._memory_bytes = needed
        else:
            self._waits_for_memory = True
            self._pause()

    def _memory_available(self) -> None:
        """Retry in the next loop iteration, as the caller is in the middle of releasing memory."""
        self._waits_for_memory = False
        self._tasks.call_soon(self._resume)

    def _shrink_memory(self) -> None:
        """While no more is read: return the memory of a big request that is handled. What was read
        behind it keeps some if it is big, too."""
        if not self._memory_bytes or self._framer.pending_frame_bytes or self._unapplied:
            return
        held = self._framer.shrink()
        kept = min(held, self._memory_bytes) if held > ARENA_BYTES else 0
        self._connections.request_memory.release(self._memory_bytes - kept)
        self._memory_bytes = kept

    def _release_memory(self) -> None:
        held, self._memory_bytes = self._memory_bytes, 0
        if held:
            self._connections.request_memory.release(held)

    def _mute(self, throttle_ms: int) -> None:
        """Read nothing for the throttle time (KIP-219). Of several throttled responses the latest
        end counts."""
        self._muted = True
        self._pause()
        ends_s = self._now_s() + throttle_ms / 1000
        if ends_s > self._muted_until_s:
            self._muted_until_s = ends_s
            self._tasks.call_later(throttle_ms / 1000, self._unmute, ends_s)

    def _unmute(self, ends_s: float) -> None:
        if ends_s == self._muted_until_s:
            self._muted = False
            self._resume()

    # -- responses ------------------------------------------------------------------------

    def _write(self, api: Api, context: RequestContext, response: Any, size: int) -> None:
        timing = context.timing
        if timing is not None:
            timing.dequeued()
        throttle_ms = self._dispatcher.throttle_ms(context, response, size)
        parts = self._dispatcher.encode(api, context, response)
        self._out += parts
        if timing is not None:
            timing.written(context, size, sum(map(len, parts)), throttle_ms)
        if context.lent is not None:
            self._lent += context.lent
        if throttle_ms:
            self._mute(throttle_ms)

    def _flush(self) -> None:
        out, self._out = self._out, []
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if len(out) == 1:
            transport.write(out[0])
        elif self._writes_whole:
            transport.writelines(out)
        else:
            for part in out:
                transport.write(part)
        if self._lent and not self._write_paused and not transport.is_closing():
            self._release_arenas()  # after a failed write the transport still holds the parts

    def _release_arenas(self) -> None:
        """The transport holds no more data: lent buffers return to their pool."""
        for arena in self._lent:
            self._arenas.release(arena)
        self._lent.clear()

    # -- closing --------------------------------------------------------------------------

    @property
    def address(self) -> str:
        """The peer's host and port, for the log."""
        return self._peer.address

    def is_idle(self) -> bool:
        """Whether no request is in flight, and the client has read nothing since the last call.

        Must be called periodically, as it compares the unsent bytes with those of the last call.
        """
        if (self._slots or self._muted) and not self._ended:  # else the client may be gone
            return False
        if not self._write_paused or self._transport is None:
            return True
        before, self._unsent_bytes = self._unsent_bytes, self._transport.get_write_buffer_size()
        return before == self._unsent_bytes

    def _end_reading(self) -> None:
        """Take no more requests, whatever the client still sends; responses are still sent."""
        self._ended = True
        self._pause()
        self._framer.close()
        if self._unapplied is None:
            self._release_memory()
        if self._waits_for_memory:
            self._connections.request_memory.cancel(self._memory_available)

    def _close_for_bad_request(self, reason: str) -> None:
        """Close once all requests in flight are answered. The reason is logged in one line, even
        if the quoted names have line breaks."""
        self._connections.bad_requests.line(
            "closing connection from %s on %s: %s",
            self._peer.address,
            self.acceptor.name,
            one_line(reason[:REASON_CHARS_MAX]),
        )
        if self._out:
            self._flush()
        self._end_reading()
        if not self._slots:
            self.close()

    def _drop_requests(self) -> None:
        """Send no more responses. As in Apache Kafka, requests in flight are still carried out;
        only waits for a response alone (fetch, acks=all) are cancelled."""
        for slot in self._slots:
            waiting = slot.waiting
            if waiting is None:
                continue
            if isinstance(waiting, Wait) or waiting.__class__ is asyncio.Future:
                waiting.cancel()
            elif (wait := slot.context.waits_for) is not None:
                wait.cancel()
            else:
                self._connections.add_orphan(waiting)
        self._slots.clear()
        self._end_reading()

    def close(self) -> None:
        """Close without logging, as the broker stops. Responses already written are still sent."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close at once and discard unsent data."""
        if self._transport is not None:
            self._transport.abort()
