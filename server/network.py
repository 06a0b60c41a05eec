"""Listening sockets of the operating system."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Final

SYSTEM_SIZED: Final = -1
"""Buffer size that leaves it to the system."""


class SocketListening:
    """`kavka.seams.Listening` on one bound TCP socket."""

    def __init__(self, loop: asyncio.AbstractEventLoop, bound: socket.socket, backlog: int) -> None:
        self._loop = loop
        self._socket = bound
        self._backlog = backlog
        self._server: asyncio.AbstractServer | None = None
        self.port: int = bound.getsockname()[1]

    async def accept(self, factory: Callable[[], asyncio.BaseProtocol]) -> None:
        self._server = await self._loop.create_server(
            factory, sock=self._socket, backlog=self._backlog
        )

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        self._socket.close()


class SocketNetwork:
    """`kavka.seams.Network` over TCP.

    `backlog` is `socket.listen.backlog.size`; buffer sizes in bytes, -1 for the system's own
    (`socket.receive.buffer.bytes`, `socket.send.buffer.bytes`).
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, *, backlog: int, receive_bytes: int, send_bytes: int
    ) -> None:
        self._loop = loop
        self._backlog = backlog
        self._receive_bytes = receive_bytes
        self._send_bytes = send_bytes

    async def bind(self, host: str, port: int) -> SocketListening:
        every_family = not host and socket.has_dualstack_ipv6()
        family = socket.AF_INET6 if ":" in host or every_family else socket.AF_INET
        bound = socket.socket(family, socket.SOCK_STREAM)
        try:
            self._prepare(bound)
            bound.bind((await self._resolve(host, family), port))
        except BaseException:
            bound.close()
            raise
        return SocketListening(self._loop, bound, self._backlog)

    def host_name(self) -> str:
        return socket.getfqdn()

    async def _resolve(self, host: str, family: int) -> str:
        if not host:
            return "::" if family == socket.AF_INET6 else "0.0.0.0"  # every interface
        found = await self._loop.getaddrinfo(host, None, family=family, type=socket.SOCK_STREAM)
        return str(found[0][4][0])

    def _prepare(self, unbound: socket.socket) -> None:
        """Options that accepted sockets inherit. Buffers are set before listening: the window
        scale is agreed on in the handshake."""
        unbound.setblocking(False)
        unbound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        unbound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if unbound.family == socket.AF_INET6:
            unbound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        if self._receive_bytes != SYSTEM_SIZED:
            unbound.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._receive_bytes)
        if self._send_bytes != SYSTEM_SIZED:
            unbound.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._send_bytes)
