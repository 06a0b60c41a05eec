"""Listening sockets of the operating system."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable


class _SocketListening:
    def __init__(self, server: asyncio.Server) -> None:
        self._server = server

    @property
    def port(self) -> int:
        return int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        self._server.close()


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

    async def listen(
        self, host: str, port: int, factory: Callable[[], asyncio.BaseProtocol]
    ) -> _SocketListening:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            self._prepare(sock)
            sock.bind((host, port))
            server = await self._loop.create_server(factory, sock=sock, backlog=self._backlog)
        except BaseException:
            sock.close()
            raise
        return _SocketListening(server)

    def _prepare(self, sock: socket.socket) -> None:
        """Options that accepted sockets inherit. Buffers are set before listening: the window
        scale is agreed on in the handshake."""
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._receive_bytes != -1:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._receive_bytes)
        if self._send_bytes != -1:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._send_bytes)
        sock.setblocking(False)
