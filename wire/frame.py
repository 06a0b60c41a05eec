"""Frames out of a byte stream, without copying them: a length (4 bytes) and that many bytes.

The kernel writes straight into an arena and frames are views of it. Arenas are shared: a
connection owns one only while it holds part of a frame, so a thousand idle connections own none.
All connections read into the same arena, the staging arena. A connection detaches it from the
pool only when its bytes must outlive the next read.

An arena is reused only when no memoryview of it is left, which CPython's reference counts tell
(`Arena.is_viewed`). Code that reads a request after its handler has returned declares that
(`RequestContext.keep_frame`), so that the memory is accounted for. Code that forgets to costs one
arena; it does not corrupt records.
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
FREE_BYTES_MIN: Final = 16 * 1024
"""With less free space at an arena's end its bytes are moved to the front before the next read."""

POOL_BYTES_MAX: Final = 32 * 1024 * 1024

IN_USE_BYTES_MAX: Final = 128 * 1024 * 1024
"""Responses are limited so that arenas in use stay below this, except that every connection may
always have one small response."""

RESPONSE_BYTES_MAX: Final = 8 * 1024 * 1024
"""Bytes of records in one response; reading more at once would block the loop for over 5 ms."""

STASH_BYTES_MAX: Final = 64 * 1024
"""A partial frame up to this size is copied to a buffer of its own size and its arena is released;
so peers that send slowly, or stop in mid-frame, hold no more memory than they sent."""

FIRST_ARENA_BYTES_MAX: Final = 4 * 1024 * 1024
"""The largest arena that a connection starts a read with, whatever it sent before. Up to this size
an arena grows by doubling; a bigger frame moves once, into an arena that holds all of it, since
copying more than this takes too long."""

_OWN_REFERENCES: Final = 3
"""References to the object that an arena's views share: from its own view, from the arena, and
from the call that counts them."""

ABANDONED_ARENAS_MAX: Final = 32
"""Abandoned arenas after which the garbage collector is run, to free those that are held by
reference cycles: 8 MiB of small requests that failed."""

YOUNGEST_GENERATION: Final = 0
"""The garbage collector's generation of new objects; it is always small."""

_TLS_HANDSHAKE: Final = b"\x16\x03"
_HTTP_METHODS: Final = (
    *(b"GET ", b"PUT ", b"POST", b"HEAD", b"PATC", b"DELE", b"OPTI", b"CONN", b"TRAC"),
    b"PRI ",  # HTTP/2
)
"""First four bytes of other protocols; read as a frame size, all of them are too big."""


class FrameError(Exception):
    """The stream can't be a Kafka client's; the message says why. The connection is closed."""


class Arena:
    """A buffer and the one view of it that frames are cut from. Its pool knows that it exists."""

    __slots__ = ("_exporter", "_pool", "buffer", "accounted_bytes", "size", "view")

    def __init__(self, size: int, pool: ArenaPool) -> None:
        self._pool = pool
        self.accounted_bytes = 0
        """Bytes of it that are included in the pool's `allocated_bytes`."""
        self.buffer: bytearray | mmap
        if size > FIRST_ARENA_BYTES_MAX:  # zeroing it at once takes half a millisecond a MiB
            self.buffer = mmap(-1, size, MAP_PRIVATE | MAP_ANONYMOUS)
        else:
            self.buffer = bytearray(size)
        self.size = size
        self.view = memoryview(self.buffer)
        # The object that CPython shares between a view and all slices of it; each references it.
        (self._exporter,) = get_referents(self.view)
        self.account(size)

    def is_viewed(self) -> bool:
        """Whether a view of any of its bytes exists: then they must not be overwritten."""
        return getrefcount(self._exporter) > _OWN_REFERENCES

    def account(self, upto: int) -> None:
        """Include the first `upto` bytes in the pool's `allocated_bytes`."""
        self._pool.allocated_bytes += upto - self.accounted_bytes
        self.accounted_bytes = upto

    def __del__(self) -> None:
        self._pool.allocated_bytes -= self.accounted_bytes


def arena_bytes(at_least: int) -> int:
    """The size of the smallest arena of at least so many bytes: a power of two."""
    return ARENA_BYTES if at_least <= ARENA_BYTES else 1 << (at_least - 1).bit_length()


class ArenaPool:
    """Free arenas by size (powers of two from 256 KiB), at most 32 MiB, and the staging arena."""

    def __init__(self) -> None:
        self.allocated_bytes = 0
        """Bytes of all arenas, free or in use; of a big frame's arena, those that have arrived."""
        self._free: dict[int, list[Arena]] = {}
        self._free_bytes = 0
        self._abandoned = 0
        self.staging = Arena(ARENA_BYTES, self)
        """Connections without an arena read into this one, each overwriting the one before."""

    @property
    def in_use_bytes(self) -> int:
        """Bytes of arenas that hold part of a request, or a response that its peer has not read."""
        return self.allocated_bytes - self._free_bytes - ARENA_BYTES  # the staging arena

    def response_bytes_max(self) -> int:
        """The limit for one response now: it falls as memory use grows, to one arena at least."""
        left = (IN_USE_BYTES_MAX - self.in_use_bytes) // 4
        return max(ARENA_BYTES, min(left, RESPONSE_BYTES_MAX))

    def acquire(self, at_least: int) -> Arena:
        """An arena of at least so many bytes."""
        size = arena_bytes(at_least)
        free = self._free.get(size)
        while free:
            self._free_bytes -= size
            arena = free.pop()
            if not arena.is_viewed():
                return arena
            self.abandon(arena)
        return Arena(size, self)

    def staging_buffer(self) -> memoryview:
        """The staging arena's bytes, for one read that follows immediately."""
        staging = self.staging
        if staging.is_viewed():
            self.abandon(self.detach_staging())
            staging = self.staging
        return staging.view

    def abandon(self, arena: Arena) -> None:
        """Don't reuse an arena that is still viewed: by a traceback that awaits garbage collection,
        or by code that did not call `keep_frame`. Its memory is freed with the last view."""
        self._abandoned += 1
        if self._abandoned == ABANDONED_ARENAS_MAX:
            self._abandoned = 0
            collect(YOUNGEST_GENERATION)

    def acquire_for_big_frame(self, at_least: int) -> Arena:
        """`acquire` for a big frame: a new arena is committed and accounted for as bytes arrive."""
        allocated_bytes = self.allocated_bytes
        arena = self.acquire(at_least)
        if self.allocated_bytes > allocated_bytes:
            arena.account(0)
        return arena

    def detach_staging(self) -> Arena:
        """Take the staging arena, with its bytes, out of the pool, and replace it by another."""
        staging, self.staging = self.staging, self.acquire(ARENA_BYTES)
        return staging

    def release(self, arena: Arena) -> None:
        """Return an arena; no frame in it may be in use."""
        if self._free_bytes + arena.size <= POOL_BYTES_MAX:
            arena.account(arena.size)
            self._free.setdefault(arena.size, []).append(arena)
            self._free_bytes += arena.size


class Framer:
    """One connection's stream. `get_buffer` and `buffer_updated` (as in asyncio's BufferedProtocol)
    take bytes in, `next_frame` gives frames out. Fast path: if the bytes of one read are exactly
    one frame, `single_frame` gives it and `buffer_updated` need not be called.

    A frame is valid until `get_buffer` is called again, or `release_or_stash` after the last frame.
    A retained frame is valid until `release_frame`, and `get_buffer` is not called before.
    A peer that announces a big frame gets memory only as its bytes arrive.
    """

    __slots__ = (
        "_arena",
        "_end",
        "_frame_bytes_max",
        "_is_retained",
        "_pool",
        "_start",
        "_stash",
        "_first_arena_bytes",
        "pending_frame_bytes",
    )

    def __init__(self, pool: ArenaPool, frame_bytes_max: int) -> None:
        self._pool = pool
        self._frame_bytes_max = frame_bytes_max
        self._arena: Arena | None = None
        self._start = 0
        self._end = 0
        self._is_retained = False
        self._stash: bytes | None = None  # few unread bytes, kept without an arena
        self.pending_frame_bytes = 0
        """Size of the partial frame, with its length prefix; 0 while unknown."""
        self._first_arena_bytes = ARENA_BYTES  # as the last big frame needed

    def get_buffer(self, sizehint: int = -1) -> memoryview:
        """Where to write the next bytes of the stream, immediately; never empty."""
        arena = self._arena
        if arena is None:
            if self._stash is not None:
                arena = self._unstash(self._stash)
            elif self._first_arena_bytes == ARENA_BYTES:
                return self._pool.staging_buffer()
            else:
                self._arena = arena = self._pool.acquire(self._first_arena_bytes)
                return arena.view
        start, end = self._start, self._end
        if arena.size - start < self.pending_frame_bytes or arena.size - end < FREE_BYTES_MIN:
            arena = self._make_space(arena, start, end)
        if self._end > arena.accounted_bytes:
            arena.account(self._end)
        return arena.view[self._end :]

    def _make_space(self, arena: Arena, start: int, end: int) -> Arena:
        """Move the partial frame to the front, or to a bigger arena if it fills this one."""
        held = end - start
        if held + FREE_BYTES_MIN > arena.size:
            bigger = self._bigger(arena)
            bigger.view[:held] = arena.view[start:end]
            self._pool.release(arena)
            self._arena = arena = bigger
            self._first_arena_bytes = min(bigger.size, FIRST_ARENA_BYTES_MAX)
        elif start and arena.is_viewed():  # an earlier frame is still in use
            other = self._pool.acquire(arena.size)
            other.view[:held] = arena.view[start:end]
            self._pool.abandon(arena)
            self._arena = arena = other
        elif start:
            arena.buffer[:held] = arena.view[start:end].tobytes()
        self._start, self._end = 0, held
        return arena

    def _bigger(self, arena: Arena) -> Arena:
        if arena.size >= FIRST_ARENA_BYTES_MAX:
            frame_bytes = max(self.pending_frame_bytes, arena.size)
            return self._pool.acquire_for_big_frame(frame_bytes + FREE_BYTES_MIN)
        return self._pool.acquire(min(arena.size * 2, self._frame_bytes_max + _LENGTH_BYTES))

    def buffer_updated(self, count: int) -> None:
        """`count` bytes were written into `get_buffer()`."""
        if self._arena is None:
            self._arena = self._pool.detach_staging()
        self._end += count

    def single_frame(self, count: int) -> memoryview | None:
        """The frame, if the `count` bytes in `get_buffer()` are exactly one and nothing precedes
        them. It is valid until any connection calls `get_buffer`. The bytes are not consumed: to
        keep them in the stream, call `buffer_updated`."""
        if self._arena is not None or count <= _LENGTH_BYTES or count > self._frame_bytes_max:
            return None
        staging = self._pool.staging
        if _unpack_length(staging.buffer)[0] != count - _LENGTH_BYTES:
            return None
        return staging.view[_LENGTH_BYTES:count]

    def next_frame(self) -> memoryview | None:
        """The next whole frame without its length, or None. FrameError ends the stream."""
        start = self._start
        held = self._end - start
        if held < _LENGTH_BYTES:
            if self._stash is None:  # else the size was read before the bytes were stashed
                self.pending_frame_bytes = 0
            return None
        arena = self._arena
        assert arena is not None, "bytes lie in an arena"
        (size,) = _unpack_length(arena.buffer, start)
        if size < 0 or size > self._frame_bytes_max:
            raise FrameError(self._error_message(size, bytes(arena.buffer[start : start + 4])))
        end = start + _LENGTH_BYTES + size
        if end > self._end:
            self.pending_frame_bytes = _LENGTH_BYTES + size
            return None
        self.pending_frame_bytes = 0
        self._start = end
        return arena.view[start + _LENGTH_BYTES : end]

    def put_back(self, frame: memoryview) -> None:
        """Undo the last `next_frame`: the next one gives the same frame again."""
        self._start -= _LENGTH_BYTES + len(frame)

    def _error_message(self, size: int, first: bytes) -> str:
        if first.startswith(_TLS_HANDSHAKE):
            return "a TLS handshake, on a listener without TLS: is security.protocol right?"
        if first in _HTTP_METHODS:
            return "an HTTP request on a listener for Kafka clients"
        if size < 0:
            return f"negative request size {size}"
        return f"request of {size} bytes; socket.request.max.bytes is {self._frame_bytes_max}"

    def retain_frame(self) -> None:
        """Keep the last frame valid until `release_frame`."""
        self._is_retained = True

    def release_frame(self) -> None:
        """The retained frame is no longer in use."""
        self._is_retained = False
        self.release_if_empty()

    def close(self) -> None:
        """The stream has ended: discard its bytes and release the arena, or leave that to
        `release_frame` if a frame in it is retained."""
        self._stash = None
        self._start = self._end
        self.pending_frame_bytes = 0
        self.release_or_stash()

    def release_if_empty(self) -> None:
        """Release the arena unless it holds unread bytes or a retained frame."""
        if self._start == self._end and self._arena is not None and not self._is_retained:
            self._pool.release(self._arena)
            self._arena = None
            self._start = self._end = 0

    def shrink(self) -> int:
        """Move the unread bytes behind a big frame that is handled to an arena of their size; how
        many bytes they are."""
        assert not self._is_retained, "its frame lies in the arena"
        held = self._end - self._start
        arena = self._arena
        if not held:
            self.release_if_empty()
        elif arena is not None and arena_bytes(held + FREE_BYTES_MIN) < arena.size:
            self._arena = smaller = self._pool.acquire(held + FREE_BYTES_MIN)
            smaller.view[:held] = arena.view[self._start : self._end]
            self._pool.release(arena)
            self._start, self._end = 0, held
        return held

    def release_or_stash(self) -> None:
        """While no frame is taken: stash few unread bytes, as of a small partial frame, and release
        the arena unless it holds more."""
        held = self._end - self._start
        if held and self._arena is not None:
            if held > STASH_BYTES_MAX:
                return
            self._stash = bytes(self._arena.view[self._start : self._end])
            self._first_arena_bytes = ARENA_BYTES
            self._start = self._end
        self.release_if_empty()

    def unstash(self) -> None:
        """Have `next_frame` find stashed bytes before more are read."""
        if self._stash is not None:
            self._unstash(self._stash)

    def _unstash(self, stash: bytes) -> Arena:
        self._arena = arena = self._pool.acquire(self._first_arena_bytes)
        self._end = len(stash)
        arena.buffer[: self._end] = stash
        self._stash = None
        return arena
