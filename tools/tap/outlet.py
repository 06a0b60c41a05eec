"""Sends records to the printer without ever waiting for it.

The printer is a process of its own: decoding and printing take longer than passing on. What it has
not read yet is kept up to a limit; beyond it, messages are left out and counted.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections import deque
from typing import Final

from kavka.tools.tap.capture import MAGIC, Kind, Record, encode

PENDING_BYTES_MAX: Final = 64 * 1024 * 1024

PIPE_BYTES: Final = 1024 * 1024
"""What an unprivileged process may ask for."""

BUFFERS_MAX: Final = 64
"""Buffers in one write."""


class Outlet:
    """The end of a pipe."""

    def __init__(self, loop: asyncio.AbstractEventLoop, descriptor: int) -> None:
        self.lost: asyncio.Future[None] = loop.create_future()
        """Done when nobody reads any more."""
        self._loop = loop
        self._descriptor = descriptor
        self._buffers: deque[bytes | memoryview] = deque([MAGIC])
        self._pending_bytes = len(MAGIC)
        self._dropped = 0
        self._is_writing = False
        self._drained: asyncio.Future[None] | None = None
        os.set_blocking(descriptor, False)
        try:
            fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        except OSError:
            pass  # it has the system's size
        self._begin()

    def put(self, record: Record) -> None:
        """Send a record, unless too much is pending."""
        if self.lost.done():
            return
        if self._pending_bytes > PENDING_BYTES_MAX:
            self._dropped += 1
            return
        if self._dropped:
            count, self._dropped = self._dropped, 0
            self._add(encode(Record(Kind.DROPPED, record.time_us, 0, b"%d" % count)))
        self._add(encode(record))

    async def drain(self) -> None:
        """Wait until everything was read into the pipe, or nobody reads any more."""
        if self._is_writing:
            self._drained = self._loop.create_future()
            await self._drained

    def close(self) -> None:
        """Close the pipe: the printer prints what it has and ends."""
        self._stop()
        os.close(self._descriptor)

    def _add(self, data: bytes) -> None:
        self._buffers.append(data)
        self._pending_bytes += len(data)
        if not self._is_writing:
            self._begin()

    def _begin(self) -> None:
        self._is_writing = True
        self._loop.add_writer(self._descriptor, self._write)

    def _stop(self) -> None:
        if self._is_writing:
            self._is_writing = False
            self._loop.remove_writer(self._descriptor)
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    def _write(self) -> None:
        buffers = self._buffers
        try:
            written = os.writev(
                self._descriptor, [buffers[at] for at in range(min(len(buffers), BUFFERS_MAX))]
            )
        except BlockingIOError:
            return
        except BrokenPipeError:
            buffers.clear()
            self._stop()
            self.lost.set_result(None)
            return
        self._pending_bytes -= written
        while written:
            first = buffers.popleft()
            if written < len(first):
                buffers.appendleft(memoryview(first)[written:])
                break
            written -= len(first)
        if not buffers:
            self._stop()
