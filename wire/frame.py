"""Frames out of a byte stream, without copying them: a length (4 bytes) and that many bytes.

The kernel writes straight into an arena and frames are views of it. Arenas are shared: a
connection owns one only while it holds part of a frame, so a thousand idle connections own none.
All read into the same one, the desk, and take it away only when something has to lie there longer
than until the next read.

Bytes that somebody still has a view of are never written again: an arena is used for other bytes
only when no view of it is left, which the interpreter counts (`Arena.is_viewed`). Code that looks
at a request after its handler has returned says so (`RequestContext.keep_frame`), so that memory
is accounted for; code that forgets to say so costs an arena, not somebody's records.
"""

from __future__ import annotations

import struct
from gc import collect, get_referents
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from sys import getrefcount
from typing import Final

_unpack_length: Final = struct.Struct(">i").unpack_from
_LENGTH_BYTES: Final = 4

ARENA_BYTES: Final = 256 * 1024
ROOM_BYTES_MIN: Final = 16 * 1024
"""Less room than this at an arena's end is not worth a system call: its bytes are moved first."""

POOL_BYTES_MAX: Final = 32 * 1024 * 1024

IN_USE_BYTES_MAX: Final = 128 * 1024 * 1024
"""Answers are cut so that arenas in use stay below this, but for one small answer a connection."""

ANSWER_BYTES_MAX: Final = 8 * 1024 * 1024
"""Bytes of records in one answer; to read more at once would hold the loop for over 5 ms."""

STASH_BYTES_MAX: Final = 64 * 1024
"""A begun frame that is smaller waits for its rest in a buffer of its own size, not in an arena;
so peers that send slowly, or a little and no more, hold no more memory than they sent."""

FIRST_ARENA_BYTES_MAX: Final = 4 * 1024 * 1024
"""A connection that once sent a bigger frame doesn't begin each read with as big an arena. Up to
here an arena is left for one of twice the size, then for one that has room for all of the frame:
to move more takes too long."""

_OWN_REFERENCES: Final = 3
"""To what an arena's views share: its own view's, its own, and the one of asking."""

LEFT_VIEWED_MAX: Final = 32
"""Arenas that are left because they are viewed until the garbage collector is asked for those in
reference cycles: 8 MiB of small requests that failed."""

YOUNGEST: Final = 0
"""The collector's generation of what has just been made; it never has much to look through."""

_TLS_HANDSHAKE: Final = b"\x16\x03"
_HTTP_METHODS: Final = (
    *(b"GET ", b"PUT ", b"POST", b"HEAD", b"PATC", b"DELE", b"OPTI", b"CONN", b"TRAC"),
    b"PRI ",  # HTTP/2
)
"""What else speaks first to a port, by its first four bytes; taken for a size, all are too big."""


class FrameError(Exception):
    """The stream can't be a Kafka client's; the message says why. The connection is closed."""


class Arena:
    """A buffer and the one view of it that frames are cut from. Its pool knows that it exists."""

    __slots__ = ("_exporter", "_pool", "buffer", "counted", "size", "view")

    def __init__(self, size: int, pool: ArenaPool) -> None:
        self._pool = pool
        self.counted = 0
        """Bytes that its pool knows of."""
        self.buffer: bytearray | mmap
        if size > FIRST_ARENA_BYTES_MAX:  # to clear it at once takes half a millisecond a MiB
            self.buffer = mmap(-1, size, MAP_PRIVATE | MAP_ANONYMOUS)
        else:
            self.buffer = bytearray(size)
        self.size = size
        self.view = memoryview(self.buffer)
        # What CPython shares between a view and all that is cut from it; each holds a reference.
        (self._exporter,) = get_referents(self.view)
        self.count(size)

    def is_viewed(self) -> bool:
        """Whether anybody has a view of its bytes, or of some of them: then they may not change."""
        return getrefcount(self._exporter) > _OWN_REFERENCES

    def count(self, upto: int) -> None:
        """Have the pool know of so many bytes."""
        self._pool.made_bytes += upto - self.counted
        self.counted = upto

    def __del__(self) -> None:
        self._pool.made_bytes -= self.counted


class ArenaPool:
    """Arenas at rest, by size (powers of two from 256 KiB), at most 32 MiB of them and the desk."""

    def __init__(self) -> None:
        self.made_bytes = 0
        """Bytes of all arenas that exist, at rest or not; of one for a big frame, as they come."""
        self._free: dict[int, list[Arena]] = {}
        self._free_bytes = 0
        self._left_viewed = 0
        self.desk = Arena(ARENA_BYTES, self)
        """Where whoever holds nothing reads the next bytes; the next read may be another's."""

    @property
    def in_use_bytes(self) -> int:
        """Bytes of arenas that hold part of a request, or an answer that its peer has not read."""
        return self.made_bytes - self._free_bytes - ARENA_BYTES  # the desk's

    def answer_bytes_max(self) -> int:
        """How big an answer may be now: less the more is in use, but never nothing."""
        left = (IN_USE_BYTES_MAX - self.in_use_bytes) // 4
        return max(ARENA_BYTES, min(left, ANSWER_BYTES_MAX))

    def take(self, at_least: int) -> Arena:
        """An arena of at least so many bytes."""
        size = ARENA_BYTES
        if at_least > size:
            size = 1 << (at_least - 1).bit_length()
        free = self._free.get(size)
        while free:
            self._free_bytes -= size
            arena = free.pop()
            if not arena.is_viewed():
                return arena
            self.left_viewed(arena)
        return Arena(size, self)

    def desk_room(self) -> memoryview:
        """The desk, to be written to at once."""
        desk = self.desk
        if desk.is_viewed():
            self.left_viewed(self.clear_desk())
            desk = self.desk
        return desk.view

    def left_viewed(self, arena: Arena) -> None:
        """An arena is not used again, as somebody has a view of it: a traceback that waits for the
        garbage collector, or code that did not say so. Its memory goes with the last view."""
        self._left_viewed += 1
        if self._left_viewed == LEFT_VIEWED_MAX:
            self._left_viewed = 0
            collect(YOUNGEST)

    def take_for_big(self, at_least: int) -> Arena:
        """The same for a big frame: a new one gets its memory, and counts, as the bytes arrive."""
        made_bytes = self.made_bytes
        arena = self.take(at_least)
        if self.made_bytes > made_bytes:
            arena.count(0)
        return arena

    def clear_desk(self) -> Arena:
        """The desk, with what lies on it; there is another one from now on."""
        desk, self.desk = self.desk, self.take(ARENA_BYTES)
        return desk

    def give(self, arena: Arena) -> None:
        """Put an arena back; nobody should look at frames in it any more."""
        if self._free_bytes + arena.size <= POOL_BYTES_MAX:
            arena.count(arena.size)
            self._free.setdefault(arena.size, []).append(arena)
            self._free_bytes += arena.size


class Framer:
    """One connection's stream. `room` and `received` take bytes in, `next` gives frames out; bytes
    that are a `lone` frame need not be taken in.

    A frame is valid until `rest` is called after the last one, or `room` for more bytes; one that
    is held until it is `let_go`, and no room is asked for before.
    A peer that announces a big frame gets memory only as its bytes arrive.
    """

    __slots__ = (
        "_arena",
        "_end",
        "_frame_bytes_max",
        "_is_held",
        "_pool",
        "_start",
        "_stash",
        "_usual",
        "needed",
    )

    def __init__(self, pool: ArenaPool, frame_bytes_max: int) -> None:
        self._pool = pool
        self._frame_bytes_max = frame_bytes_max
        self._arena: Arena | None = None
        self._start = 0
        self._end = 0
        self._is_held = False
        self._stash: bytes | None = None  # what is held of a begun frame, if that is little
        self.needed = 0
        """Bytes of the frame that is begun, its length included; 0: not known."""
        self._usual = ARENA_BYTES  # what the last big frame needed

    def room(self, sizehint: int = -1) -> memoryview:
        """Where the next bytes of the stream are to be written, at once; never empty."""
        arena = self._arena
        if arena is None:
            if self._stash is None and self._usual == ARENA_BYTES:
                return self._pool.desk_room()
            arena = self._arena = self._pool.take(self._usual)
            if self._stash is None:
                return arena.view
            self._unstash(arena, self._stash)
        start, end = self._start, self._end
        if arena.size - start < self.needed or arena.size - end < ROOM_BYTES_MIN:
            arena = self._make_room(arena, start, end)
        if self._end > arena.counted:
            arena.count(self._end)
        return arena.view[self._end :]

    def _make_room(self, arena: Arena, start: int, end: int) -> Arena:
        """Move the begun frame to the front, of a bigger arena if this one is full of it."""
        held = end - start
        if held + ROOM_BYTES_MIN > arena.size:
            bigger = self._bigger(arena)
            bigger.view[:held] = arena.view[start:end]
            self._pool.give(arena)
            self._arena = arena = bigger
            self._usual = min(bigger.size, FIRST_ARENA_BYTES_MAX)
        elif start and arena.is_viewed():  # an earlier frame is still looked at
            other = self._pool.take(arena.size)
            other.view[:held] = arena.view[start:end]
            self._pool.left_viewed(arena)
            self._arena = arena = other
        elif start:
            arena.buffer[:held] = arena.view[start:end].tobytes()
        self._start, self._end = 0, held
        return arena

    def _bigger(self, arena: Arena) -> Arena:
        if arena.size >= FIRST_ARENA_BYTES_MAX:
            return self._pool.take_for_big(max(self.needed, arena.size) + ROOM_BYTES_MIN)
        return self._pool.take(min(arena.size * 2, self._frame_bytes_max + _LENGTH_BYTES))

    def received(self, count: int) -> None:
        """`count` bytes were written into `room()`."""
        if self._arena is None:
            self._arena = self._pool.clear_desk()
        self._end += count

    def lone(self, count: int) -> memoryview | None:
        """The frame that the `count` bytes in `room()` are, if they are one, whole, and nothing
        was held before. It is valid until anybody asks for room, and is no part of the stream
        unless its bytes are `received`."""
        if self._arena is not None or count <= _LENGTH_BYTES or count > self._frame_bytes_max:
            return None
        desk = self._pool.desk
        if _unpack_length(desk.buffer)[0] != count - _LENGTH_BYTES:
            return None
        return desk.view[_LENGTH_BYTES:count]

    def next(self) -> memoryview | None:
        """The next whole frame without its length, or None. FrameError ends the stream."""
        start = self._start
        held = self._end - start
        if held < _LENGTH_BYTES:
            if self._stash is None:  # else it was looked at before it was put there
                self.needed = 0
            return None
        arena = self._arena
        assert arena is not None, "bytes are held in an arena"
        (size,) = _unpack_length(arena.buffer, start)
        if size < 0 or size > self._frame_bytes_max:
            raise FrameError(self._complaint(size, bytes(arena.buffer[start : start + 4])))
        end = start + _LENGTH_BYTES + size
        if end > self._end:
            self.needed = _LENGTH_BYTES + size
            return None
        self.needed = 0
        self._start = end
        return arena.view[start + _LENGTH_BYTES : end]

    def _complaint(self, size: int, first: bytes) -> str:
        if first.startswith(_TLS_HANDSHAKE):
            return "a TLS handshake, on a listener without TLS: is security.protocol right?"
        if first in _HTTP_METHODS:
            return "an HTTP request on a listener for Kafka clients"
        if size < 0:
            return f"negative request size {size}"
        return f"request of {size} bytes; socket.request.max.bytes is {self._frame_bytes_max}"

    def hold(self) -> None:
        """The frame that was taken last is looked at until it is `let_go`."""
        self._is_held = True

    def let_go(self) -> None:
        """Nobody looks at the frame any more."""
        self._is_held = False
        self.pause()

    def drop(self) -> None:
        """The stream is over: give the arena back with whatever lies in it, once no frame is held
        there."""
        self._stash = None
        self._start = self._end
        self.rest()

    def pause(self) -> None:
        """No frame is taken for now: give the arena back unless something lies in it."""
        if self._start == self._end and self._arena is not None and not self._is_held:
            self._pool.give(self._arena)
            self._arena = None
            self._start = self._end = 0

    def rest(self) -> None:
        """All whole frames are taken: give the arena back unless much of one lies in it."""
        held = self._end - self._start
        if held and self._arena is not None:
            if held > STASH_BYTES_MAX:
                return
            self._stash = bytes(self._arena.view[self._start : self._end])
            self._usual = ARENA_BYTES
            self._start = self._end
        self.pause()

    def _unstash(self, arena: Arena, stash: bytes) -> None:
        self._end = len(stash)
        arena.buffer[: self._end] = stash
        self._stash = None
