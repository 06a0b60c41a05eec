"""Sends frames to a broker over many connections at once, several frames behind each other, and
finds out what became of each: answered, closed the connection, or held.

A connection that is closed has been closed by the first frame behind the last one answered; those
behind it were not looked at and are sent again on another connection. How many are sent at a time
depends on how often such frames have closed a connection so far.
"""

from __future__ import annotations

import select
import socket
import struct
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence

from fuzz.frames import Frame
from support.ports import HOST

LANES = 64
"""Connections at once."""

FRAMES_PER_LANE_MAX = 24
HELD_AFTER_S = 1.0
"""Without a sign of life for so long, the frames of a connection are left: a fetch may wait for
as long as its damaged number says."""

TICK_S = 0.25
RECEIVE_BYTES = 1 << 18
CONNECT_TIMEOUT_S = 20.0

SENTINEL = 0x7FFFFFFF
ANSWERED, SILENT, CLOSED, HELD = range(4)
OUTCOMES = ("answered", "silent", "closed", "held")
"""`silent`: no answer, and the connection went on (acks=0)."""

_sentinel = struct.pack(">ihhih", 10, 18, 0, SENTINEL, -1)
"""ApiVersions 0 behind the last frame: its answer shows that all were handled."""
_unpack_head = struct.Struct(">ii").unpack_from


class _Lane:
    """One connection and the frames on it."""

    __slots__ = (
        "answered",
        "ends",
        "expected",
        "frames",
        "heads",
        "positions",
        "rest",
        "since_s",
        "skip",
        "socket",
    )

    def __init__(self, connected: socket.socket) -> None:
        self.socket = connected
        self.heads = b""  # of an answer whose first 8 bytes are not all there
        self.skip = 0  # bytes of an answer that are still to come
        self.begin([], b"", ends=False)

    def begin(self, frames: list[Frame], rest: bytes, *, ends: bool) -> None:
        """New frames on it, of whose bytes `rest` is not sent yet."""
        self.frames = frames
        self.positions = {frame.number: at for at, frame in enumerate(frames)}
        self.answered: set[int] = set()
        self.expected = 0  # frames before this one have been dealt with
        self.rest = rest
        self.ends = ends
        self.since_s = time.monotonic()


class Client:
    """Drives frames into a broker; `outcomes[kind][outcome]` and `by_target` count them."""

    def __init__(
        self,
        kinds: Sequence[str],
        targets: Sequence[str],
        port: int,
        *,
        on_tick: Callable[[int], None],
    ) -> None:
        """`on_tick` is called every quarter second with the number of frames dealt with."""
        self._port = port
        self._on_tick = on_tick
        self.outcomes = [[0] * len(OUTCOMES) for _ in kinds]
        self.by_target = [[0] * len(OUTCOMES) for _ in targets]
        self.connections = 0
        self.done = 0
        self._again: deque[Frame] = deque()
        self._source: Iterator[Frame] = iter(())
        self._lanes: dict[int, _Lane] = {}
        self._epoll = select.epoll()
        self._closes = [0.5] * len(kinds)

    def in_flight(self) -> list[int]:
        """Numbers of frames that have been sent and not been dealt with."""
        return sorted(frame.number for lane in self._lanes.values() for frame in lane.frames)

    def run(self, frames: Iterable[Frame]) -> None:
        """Send all of them; each is dealt with at the end."""
        self._source = iter(frames)
        for _ in range(LANES):
            self._open()
        tick_s = time.monotonic()
        while self._lanes:
            for fd, events in self._epoll.poll(TICK_S):
                lane = self._lanes.get(fd)
                if lane is not None:
                    self._serve(lane, events)
            now_s = time.monotonic()
            if now_s - tick_s >= TICK_S:
                tick_s = now_s
                self._leave_held(now_s)
                self._on_tick(self.done)
        self._epoll.close()

    # -- connections ----------------------------------------------------------------------

    def _open(self) -> None:
        """A new connection, if there is anything to send."""
        frame = self._next()
        if frame is None:
            return
        self._again.appendleft(frame)
        connected = socket.create_connection((HOST, self._port), CONNECT_TIMEOUT_S)
        connected.setblocking(False)
        self.connections += 1
        lane = _Lane(connected)
        self._lanes[connected.fileno()] = lane
        self._epoll.register(connected, select.EPOLLIN)
        self._fill(lane)

    def _drop(self, lane: _Lane) -> None:
        del self._lanes[lane.socket.fileno()]
        lane.socket.close()  # which takes it out of the epoll, too
        self._open()

    def _next(self) -> Frame | None:
        return self._again.popleft() if self._again else next(self._source, None)

    def _fill(self, lane: _Lane) -> None:
        """Send the next frames, or end the connection if there are none."""
        frames: list[Frame] = []
        survives = 1.0
        ends = False
        while len(frames) < FRAMES_PER_LANE_MAX and survives > 0.3 and not ends:
            frame = self._next()
            if frame is None:
                break
            frames.append(frame)
            survives *= 1 - self._closes[frame.kind]
            ends = frame.ends
        if not frames:
            self._drop(lane)
            return
        streams = [frame.stream for frame in frames]
        if not ends:
            streams.append(_sentinel)
        lane.begin(frames, b"".join(streams), ends=ends)
        self._send(lane)

    def _send(self, lane: _Lane) -> None:
        try:
            sent = lane.socket.send(lane.rest)
        except BlockingIOError:
            sent = 0
        except (ConnectionResetError, BrokenPipeError):
            lane.rest = b""  # the end is read from the socket
            return
        waited = len(lane.rest) > sent
        was_waiting = bool(lane.rest) and sent == 0
        lane.rest = lane.rest[sent:]
        if waited or was_waiting:
            self._epoll.modify(lane.socket, select.EPOLLIN | (select.EPOLLOUT if lane.rest else 0))
        if not lane.rest and lane.ends:
            try:
                lane.socket.shutdown(socket.SHUT_WR)
            except OSError:
                pass  # closed already

    # -- what comes back ------------------------------------------------------------------

    def _serve(self, lane: _Lane, events: int) -> None:
        if events & select.EPOLLOUT:
            self._send(lane)
            if not lane.rest:
                self._epoll.modify(lane.socket, select.EPOLLIN)
        if not events & ~select.EPOLLOUT:
            return
        try:
            data = lane.socket.recv(RECEIVE_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._closed(lane)
            return
        lane.since_s = time.monotonic()
        if self._read(lane, data):
            for at, frame in enumerate(lane.frames):
                self._count(frame, ANSWERED if at in lane.answered else SILENT)
            self._fill(lane)

    def _read(self, lane: _Lane, data: bytes) -> bool:
        """Note which frames have been answered; whether all have been dealt with."""
        finished = False
        if lane.heads:
            data = lane.heads + data
            lane.heads = b""
        at, end = lane.skip, len(data)
        while at + 8 <= end:
            size, correlation_id = _unpack_head(data, at)
            at += 4 + size
            if correlation_id == SENTINEL:
                finished = True
            position = lane.positions.get(correlation_id)
            if position is not None:
                lane.answered.add(position)
                lane.expected = max(lane.expected, position + 1)
        if at < end:
            lane.heads = data[at:]
            at = end
        lane.skip = at - end
        return finished

    def _closed(self, lane: _Lane) -> None:
        """The connection is gone: who did it, and who was not looked at."""
        culprit = lane.expected
        for at, frame in enumerate(lane.frames[:culprit]):
            self._count(frame, ANSWERED if at in lane.answered else SILENT)
        if culprit < len(lane.frames):
            self._count(lane.frames[culprit], CLOSED)
            self._again.extendleft(reversed(lane.frames[culprit + 1 :]))
        self._drop(lane)

    def _leave_held(self, now_s: float) -> None:
        for lane in list(self._lanes.values()):
            if now_s - lane.since_s < HELD_AFTER_S:
                continue
            for at, frame in enumerate(lane.frames):
                self._count(frame, ANSWERED if at in lane.answered else HELD)
            self._drop(lane)

    def _count(self, frame: Frame, outcome: int) -> None:
        self.done += 1
        self.outcomes[frame.kind][outcome] += 1
        self.by_target[frame.target][outcome] += 1
        rate = self._closes[frame.kind]
        self._closes[frame.kind] = rate + ((outcome == CLOSED) - rate) * 0.01
