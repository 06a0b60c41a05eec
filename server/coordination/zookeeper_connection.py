"""One connection to a ZooKeeper server: frames in and out, the handshake, pings."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from typing import Any, Final

from kavka.client.dialling import dial
from kavka.client.errors import ConnectFailed
from kavka.seams import Clock, Network, Tasks, Timer
from kavka.server.coordination import zookeeper_messages as messages
from kavka.server.coordination.digest_md5 import DigestMd5, SaslError
from kavka.server.coordination.zookeeper_messages import Welcome

FRAME_BYTES_MAX: Final = 4 * 1024 * 1024
"""A longer response ends the connection (`jute.maxbuffer`, as Apache Kafka sets it)."""

SILENCE_SHARE: Final = 2 / 3
"""After so much of the session's timeout without a word the server is given up, so that another
one can be asked before the session expires; as ZooKeeper's own client does."""

PINGS: Final = 3
"""Pings in that time."""

_unpack_length: Final = struct.Struct(">i").unpack_from


class ZooKeeperConnection(asyncio.Protocol):
    """The protocol of one socket."""

    def __init__(self, tasks: Tasks, clock: Clock, on_frame: Callable[[bytes], object]) -> None:
        self.lost: Final[asyncio.Future[str]] = tasks.future()
        """Why it has ended, when it has."""
        self._tasks = tasks
        self._clock = clock
        self._on_frame = on_frame
        self._stream = bytearray()
        self._transport: Any = None
        self._welcome: asyncio.Future[Welcome] | None = None
        self._sasl_response: asyncio.Future[bytes] | None = None
        """The frame that the server says next, in an authentication."""
        self._silence_s_max = 0.0
        self._heard_s = 0.0
        self._ping_timer: Timer | None = None

    async def open(
        self, network: Network, address: tuple[str, int], hello: bytes, *, within_s: float
    ) -> Welcome:
        """Connect, and do the handshake, each within a time. ConnectFailed."""
        await dial(network, self._tasks, address, self, within_s=within_s)
        self._welcome = self._tasks.future()
        self.send(hello)
        timer = self._tasks.call_later(within_s, self.close, "no response to the handshake")
        try:
            return await self._welcome
        finally:
            timer.cancel()
            self._welcome = None

    async def authenticate(self, exchange: DigestMd5, *, within_s: float) -> None:
        """Authenticate the session (SASL), before its first request. ConnectFailed;
        AuthenticationFailed."""
        timer = self._tasks.call_later(within_s, self.close, "no response to the authentication")
        try:
            challenge = messages.sasl_token(await self._exchange_sasl(messages.sasl(b"")))
            if not challenge:
                raise SaslError("the server has no SASL")
            last = messages.sasl_token(
                await self._exchange_sasl(messages.sasl(exchange.respond(challenge)))
            )
            exchange.check(last or b"")
        except SaslError as failure:
            raise ConnectFailed(f"SASL: {failure}", refused=False) from failure
        finally:
            timer.cancel()
            self._sasl_response = None

    async def _exchange_sasl(self, frame: bytes) -> bytes:
        if self._transport is None:
            raise ConnectFailed("it closed the connection", refused=False)
        self._sasl_response = self._tasks.future()
        self.send(frame)
        return await self._sasl_response

    def begin(self, timeout_ms: int) -> None:
        """The handshake is done: send pings, and end the connection if the server is silent."""
        self._silence_s_max = timeout_ms / 1000 * SILENCE_SHARE
        self._heard_s = self._clock.monotonic_s()
        self._schedule_ping()

    def send(self, frame: bytes) -> None:
        """Send a frame; no effect if the connection has ended."""
        if self._transport is not None:
            self._transport.write(frame)

    def close(self, reason: str) -> None:
        """End it at once."""
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()
        if self._ping_timer is not None:
            self._ping_timer.cancel()
        for awaited in (self._welcome, self._sasl_response):
            if awaited is not None and not awaited.done():
                awaited.set_exception(ConnectFailed(reason, refused=False))
        if not self.lost.done():
            self.lost.set_result(reason)

    def _schedule_ping(self) -> None:
        self._ping_timer = self._tasks.call_later(self._silence_s_max / PINGS, self._ping)

    def _ping(self) -> None:
        silence_s = self._clock.monotonic_s() - self._heard_s
        if silence_s >= self._silence_s_max:
            self.close(f"it has been silent for {silence_s:.1f} s")
            return
        self.send(messages.ping())
        self._schedule_ping()

    # -- asyncio callbacks ----------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self.close(f"it closed the connection: {exc}" if exc else "it closed the connection")

    def data_received(self, data: bytes) -> None:
        self._heard_s = self._clock.monotonic_s()
        stream = self._stream
        stream += data
        while len(stream) >= 4 and self._transport is not None:
            (size,) = _unpack_length(stream)
            if not 0 <= size <= FRAME_BYTES_MAX:
                self.close(f"it sent a frame of {size} bytes; {FRAME_BYTES_MAX} are allowed")
                return
            if len(stream) < 4 + size:
                return
            frame = bytes(stream[4 : 4 + size])
            del stream[: 4 + size]
            if self._welcome is not None:
                self._welcome.set_result(messages.welcome(frame))
                self._welcome = None
            elif self._sasl_response is not None:
                self._sasl_response.set_result(frame)
                self._sasl_response = None
            else:
                self._on_frame(frame)
