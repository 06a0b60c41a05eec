"""One client connection: frames in, answers out in the order of the requests.

Requests reach their handlers in the order of arrival, whatever an earlier one still waits for.
Reading pauses while too many requests are unanswered, while the peer does not read its answers,
while it is throttled, and while a big request waits for memory. What that bounds is told in
docs/limits.md.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from types import CoroutineType
from typing import Any, Final

from kavka.seams import Tasks
from kavka.server.config.value_types import one_line
from kavka.server.connections.dispatch import Call, Dispatcher
from kavka.server.connections.registry import Connections, Gate
from kavka.server.request.context import BadRequest, Peer, RequestContext
from kavka.server.runtime.sockets import plain_address
from kavka.wire.api import Api
from kavka.wire.errors import clear_tracebacks
from kavka.wire.frame import ARENA_BYTES, Arena, ArenaPool, FrameError, Framer

UNANSWERED_MAX: Final = 128
"""Requests of one connection that may wait for their answer at once, if they are Produce."""

OTHERS_UNANSWERED_MAX: Final = 8
"""The same if they are other requests, whose answers hold more while they wait for their turn.
Apache Kafka handles one request of a connection after another, so clients send few at once."""

FETCHES_UNANSWERED_MAX: Final = 2

BYTES_PER_TURN_MAX: Final = 1024 * 1024
"""Bytes received before other connections get their turn; at 0.5 us a KiB, half a millisecond.
Counted across turns: one that ends too early costs two system calls."""

FRAMES_PER_TURN_MAX: Final = 64
"""Frames handled before other connections get their turn; at 20 us each, 1.3 ms."""

TURN_S_MAX: Final = 0.002
"""Or for how long; some requests cost a millisecond each."""

REASON_CHARS_MAX: Final = 500
"""Of what the log tells of a bad request, which may quote a name out of it."""

PRODUCE: Final = 0
HEARTBEAT: Final = 12
"""The APIs whose repeated requests are remembered."""

_WEIGHTS: Final = {PRODUCE: 1, 1: UNANSWERED_MAX // FETCHES_UNANSWERED_MAX}
_WEIGHT_OF_OTHERS: Final = UNANSWERED_MAX // OTHERS_UNANSWERED_MAX
"""What an unanswered request counts, by API key; at UNANSWERED_MAX in all reading pauses."""


def _weight_of(api: Api) -> int:
    return _WEIGHTS.get(api.key, _WEIGHT_OF_OTHERS)


class _Slot:
    """A place in the order of answers."""

    __slots__ = ("api", "context", "request", "request_bytes", "response", "waiting", "weight")

    def __init__(self, call: Call, waiting: asyncio.Future[Any] | None, request_bytes: int) -> None:
        self.api = call.api
        self.context = call.context
        self.request = None if waiting is None else call.request
        """What an error is answered with; its bytes are not looked at any more."""
        self.response = call.answer
        self.waiting = waiting
        self.request_bytes = request_bytes
        self.weight = _weight_of(call.api)


class Connection(asyncio.BufferedProtocol):
    """The protocol of one accepted socket."""

    __slots__ = (
        "_arenas",
        "_bytes_this_turn",
        "_connections",
        "_dispatcher",
        "_framer",
        "_lent",
        "_memory_bytes",
        "_muted",
        "_muted_until_s",
        "_now_s",
        "_out",
        "_peer",
        "_reading",
        "_shortcut",
        "_slots",
        "_tasks",
        "_transport",
        "_unsent_bytes",
        "_waits_for_memory",
        "_weight",
        "_write_paused",
        "_writes_whole",
        "gate",
        "get_buffer",
        "host",
        "last_active",
    )

    get_buffer: Callable[[int], memoryview]  # type: ignore[assignment]
    """The framer's own, as it is asked for before each read."""

    def __init__(
        self,
        gate: Gate,
        host: str,
        dispatcher: Dispatcher,
        tasks: Tasks,
        arenas: ArenaPool,
        connections: Connections,
        request_bytes_max: int,
    ) -> None:
        self.gate = gate
        self.host = host
        self.last_active = 0
        """The shared count of activity when this connection last showed any."""
        self._dispatcher = dispatcher
        self._tasks = tasks
        self._arenas = arenas
        self._connections = connections
        self._framer = Framer(arenas, request_bytes_max)
        self.get_buffer = self._framer.get_buffer
        self._shortcut = dispatcher.shortcut()
        self._now_s = dispatcher.now_s
        self._slots: deque[_Slot] = deque()
        self._out: list[Any] = []
        self._lent: list[Arena] = []
        self._transport: Any = None
        self._bytes_this_turn = 0
        self._reading = True
        self._muted = False
        self._muted_until_s = 0.0
        self._write_paused = False
        self._unsent_bytes = 0
        self._weight = 0
        self._memory_bytes = 0
        self._waits_for_memory = False
        self._peer = Peer(gate.name, host)

    # -- the transport's calls ------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        # With no high-water mark the transport writes at once and tells, by `pause_writing`,
        # whether all of it went out: then lent buffers are free again.
        transport.set_write_buffer_limits(0)  # type: ignore[attr-defined]
        # uvloop hands the parts to one writev; plain asyncio before 3.12 would join (copy) them.
        self._writes_whole = type(transport).__module__.startswith("uvloop")
        peername = transport.get_extra_info("peername")
        if peername is not None:
            self._peer.address = f"{self.host}:{peername[1]}"
        if self.gate.dialled_port is not None:
            self._peer.dialled = _dialled(transport, self.gate.dialled_port)
        if not self._connections.keeps(self):
            self.shut()

    def connection_lost(self, exc: Exception | None) -> None:
        """Also called for a connection that was accepted and then could not be set up."""
        self._transport = None
        self._connections.forget(self)
        if self._peer.on_lost is not None:
            self._peer.on_lost()
        self._drop_requests()
        self._lent.clear()  # the transport may still hold them: left to the garbage collector

    def buffer_updated(self, nbytes: int) -> None:
        connections = self._connections
        connections.activity = self.last_active = connections.activity + 1
        now_s = self._peer.arrived_s = self._now_s()
        framer = self._framer
        frame = None
        if not (self._slots or self._write_paused or self._muted):
            frame = framer.single_frame(nbytes)  # as nearly always
        if frame is None:
            framer.buffer_updated(nbytes)
            self._serve(now_s)
        elif (answer := self._shortcut.answer(frame)) is not None:
            self._transport.write(answer)
        else:
            del frame  # no view of an arena is kept where others are read into it
            framer.buffer_updated(nbytes)
            self._serve(now_s, framer.next_frame())
        self._bytes_this_turn += nbytes
        if self._bytes_this_turn >= BYTES_PER_TURN_MAX:
            self._end_turn()

    def eof_received(self) -> bool:
        self._framer.release_if_empty()  # room was made for bytes that did not come
        return False  # close: a client that will not read answers needs none

    def pause_writing(self) -> None:
        self._write_paused = True

    def resume_writing(self) -> None:
        self._write_paused = False
        self._give_back()
        self._resume()

    # -- requests -------------------------------------------------------------------------

    def _serve(self, now_s: float, first: memoryview | None = None) -> None:
        """Handle the frames at hand, a bounded number of them, after `first`, which is not a
        remembered one."""
        framer = self._framer
        ends_s = now_s + TURN_S_MAX
        try:
            if first is not None:
                self._handle(first)
                first = None  # no view of an arena is kept where others are read into it
                if self._lent:
                    self._flush()
            for _ in range(FRAMES_PER_TURN_MAX):
                if self._write_paused or self._muted or self._weight >= UNANSWERED_MAX:
                    framer.release_if_empty()
                    self._pause()
                    break
                frame = framer.next_frame()
                if frame is None:
                    framer.release_or_stash()
                    if framer.pending_frame_bytes > ARENA_BYTES or self._memory_bytes:
                        self._take_memory(framer.pending_frame_bytes)
                    break
                if not self._slots and (answer := self._shortcut.answer(frame)) is not None:
                    self._out.append(answer)
                    frame = None
                    continue
                self._handle(frame)
                frame = None
                if self._lent:
                    self._flush()  # big answers leave one by one, or reading pauses
                if self._now_s() >= ends_s:
                    self._let_others()
                    break
            else:
                self._let_others()
        except (BadRequest, FrameError) as failure:
            self._close(str(failure))
            return
        except Exception:
            self.abort()  # the transport does it only where it is the transport that called
            raise
        if self._out:
            self._flush()

    def _handle(self, frame: memoryview) -> None:
        call = self._dispatcher.call(self._peer, frame)
        answer: Any = call.answer
        if answer is None:
            return
        kind = answer.__class__
        if kind is CoroutineType:
            answer = self._tasks.spawn(answer, name=call.api.name)
        elif kind is not asyncio.Future:
            if call.api.key == PRODUCE:
                self._shortcut.learn(call.context, call.request, answer, frame)
            elif call.api.key == HEARTBEAT:
                self._shortcut.learn_beat(call.context, call.request, answer, frame)
            if self._slots:
                self._wait_for_turn(_Slot(call, None, len(frame)))
            else:
                self._write(call.api, call.context, answer, len(frame))
            return
        slot = _Slot(call, answer, len(frame))
        if call.context.keeps_frame:
            self._framer.retain_frame()
        else:
            self._dispatcher.forget_bytes(slot.api, slot.request)
        if (applied := call.context.applied) is not None:
            slot.weight = UNANSWERED_MAX
            applied.add_done_callback(lambda _: self._applied(slot))
        self._wait_for_turn(slot)
        answer.add_done_callback(lambda waiting: self._answered(slot, waiting))

    def _wait_for_turn(self, slot: _Slot) -> None:
        self._slots.append(slot)
        self._weight += slot.weight

    def _applied(self, slot: _Slot) -> None:
        """What was asked for is done, whatever the answer still waits for: others may follow; a
        turn later, as the answer may be that the connection is to be closed."""
        if slot.weight == UNANSWERED_MAX:  # else the answer was quicker than this word
            self._let_follow(slot)
        self._tasks.call_soon(self._resume)

    def _let_follow(self, slot: _Slot) -> None:
        weight = _weight_of(slot.api)
        self._weight -= slot.weight - weight
        slot.weight = weight
        if slot.context.keeps_frame:
            self._dispatcher.forget_bytes(slot.api, slot.request)
            self._framer.release_frame()
        if self._transport is None:
            self._give_memory()

    def _answered(self, slot: _Slot, waiting: asyncio.Future[Any]) -> None:
        """A handler that waited has its answer. Where that can't be sent, nor can any behind it:
        the connection ends."""
        if self._transport is None or self._transport.is_closing():
            return
        if waiting.cancelled():  # by whatever: none behind it could ever be sent
            self.abort()
            return
        try:
            self._send_in_turn(slot, waiting)
        except BadRequest as failure:
            clear_tracebacks(failure)  # it is the slot's answer, and would know the slot by them
            self._close(str(failure))
        except Exception:
            self.abort()
            raise
        else:
            self._resume()

    def _send_in_turn(self, slot: _Slot, waiting: asyncio.Future[Any]) -> None:
        """Send what is now at the head of the order."""
        failure = waiting.exception()
        slot.waiting = None
        if slot.weight == UNANSWERED_MAX:
            self._let_follow(slot)
        if slot.context.timing is not None:
            slot.context.timing.answered()
        if failure is None:
            slot.response = waiting.result()
            if isinstance(slot.response, BadRequest):
                raise slot.response
        else:
            slot.response = self._dispatcher.failed(slot.api, slot.context, slot.request, failure)
        connections = self._connections
        connections.activity = self.last_active = connections.activity + 1
        slots = self._slots
        while slots and slots[0].waiting is None:
            head = slots.popleft()
            self._weight -= head.weight
            if head.response is not None:
                self._write(head.api, head.context, head.response, head.request_bytes)
            elif head.context.timing is not None:
                head.context.timing.written(head.context, head.request_bytes, 0, 0)
        if self._out:
            self._flush()

    # -- back-pressure --------------------------------------------------------------------

    def _end_turn(self) -> None:
        """Let others have the loop: a transport reads on as long as its buffer is filled."""
        self._bytes_this_turn = 0
        if self._reading:
            self._let_others()

    def _let_others(self) -> None:
        """Go on in the next turn of the loop."""
        self._pause()
        self._tasks.call_soon(self._resume)

    def _pause(self) -> None:
        if self._reading and self._transport is not None:
            self._reading = False
            self._transport.pause_reading()

    def _resume(self) -> None:
        """Go on with the frames that were held back, then with the socket."""
        if self._reading or self._transport is None or self._transport.is_closing():
            return
        if self._write_paused or self._muted or self._weight >= UNANSWERED_MAX:
            return
        if self._waits_for_memory:
            return
        self._reading = True
        self._transport.resume_reading()
        self._serve(self._now_s())

    def _take_memory(self, needed: int) -> None:
        """A big request goes on only when there is memory for the whole of it."""
        if needed == self._memory_bytes:
            return
        self._give_memory()
        if needed <= ARENA_BYTES:
            return
        if self._connections.take_memory(needed, self._memory_given):
            self._memory_bytes = needed
        else:
            self._waits_for_memory = True
            self._pause()

    def _memory_given(self) -> None:
        """Ask again, a turn later: who gives is in the middle of something."""
        self._waits_for_memory = False
        self._tasks.call_soon(self._resume)

    def _give_memory(self) -> None:
        held, self._memory_bytes = self._memory_bytes, 0
        if held:
            self._connections.request_memory.give(held)

    def _mute(self, throttle_ms: int) -> None:
        """Read nothing for so long. Of several answers with a time the latest end counts."""
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

    # -- answers --------------------------------------------------------------------------

    def _write(self, api: Api, context: RequestContext, response: Any, size: int) -> None:
        timing = context.timing
        if timing is not None:
            timing.headed()
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
            self._give_back()  # of what it failed to write it still has the parts

    def _give_back(self) -> None:
        """The transport has let go of everything: lent buffers may be written again."""
        for arena in self._lent:
            self._arenas.release(arena)
        self._lent.clear()

    # -- the end --------------------------------------------------------------------------

    @property
    def address(self) -> str:
        """The peer's host and port, for the log."""
        return self._peer.address

    def is_at_rest(self) -> bool:
        """Whether nothing is owed to the peer but what it does not read.

        To be asked now and then: that it reads is seen by comparing with the last time.
        """
        if self._slots or self._muted:
            return False
        if not self._write_paused or self._transport is None:
            return True
        before, self._unsent_bytes = self._unsent_bytes, self._transport.get_write_buffer_size()
        return before == self._unsent_bytes

    def _close(self, reason: str) -> None:
        """Close because of what the peer sent, with one line in the log, whatever names it sent."""
        self._connections.bad.line(
            "closing connection from %s on %s: %s",
            self._peer.address,
            self.gate.name,
            one_line(reason[:REASON_CHARS_MAX]),
        )
        if self._out:
            self._flush()
        self._pause()
        if self._transport is not None:
            self._transport.close()
        self._drop_requests()  # the peer may take its time to read what it was sent

    def _drop_requests(self) -> None:
        """Nothing is answered any more. What was asked for is done to its end, as in Apache Kafka:
        only what waits for nothing but its answer ends here."""
        is_being_read = False
        for slot in self._slots:
            waiting = slot.waiting
            if waiting is None:
                continue
            if waiting.__class__ is asyncio.Future:
                waiting.cancel()
            elif (wait := slot.context.waits_for) is not None:
                wait.cancel()
            else:
                self._connections.leave_behind(waiting)
                is_being_read = is_being_read or slot.weight == UNANSWERED_MAX
        self._slots.clear()
        self._framer.close()
        if not is_being_read:
            self._give_memory()
        if self._waits_for_memory:
            self._connections.request_memory.withdraw(self._memory_given)

    def shut(self) -> None:
        """Close without a reason to log: the broker stops. Written answers still go out."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close at once; what the peer has not read is dropped."""
        if self._transport is not None:
            self._transport.abort()


def _dialled(transport: asyncio.BaseTransport, port: int) -> tuple[str, int] | None:
    """The address that the peer connected to, as it may be told to the peer again."""
    sockname = transport.get_extra_info("sockname")
    if sockname is None:
        return None
    return plain_address(sockname[0]), port or sockname[1]
