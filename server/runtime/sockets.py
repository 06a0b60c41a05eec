"""Sockets of the operating system."""

from __future__ import annotations

import asyncio
import errno
import logging
import resource
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    import ssl

    from kavka.seams import Listening, Network

logger = logging.getLogger(__name__)

SYSTEM_SIZED: Final = -1
"""Buffer size that stands for the system's default."""


ACCEPTS_PER_ITERATION_MAX: Final = 64
"""Connections accepted in one loop iteration; at 50 us each, 3 ms."""

EXHAUSTED: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
"""Errors of accept that mean exhausted file descriptors or memory: they last until something is
closed."""

EXHAUSTED_RETRY_S: Final = 1.0

RESERVED_DESCRIPTORS_MAX: Final = 64
"""File descriptors reserved for files, modules and processes, which connections may not use; at
most `RESERVED_SHARE` of all."""

RESERVED_SHARE: Final = 1 / 4

Factory: TypeAlias = Callable[[str], asyncio.BaseProtocol | None]


class SocketListening:
    """`kavka.seams.Listening` on one TCP socket that listens.

    It does not use `create_server`, which accepts all pending connections before a limit could
    stop it.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, bound: socket.socket) -> None:
        self._loop = loop
        self._socket = bound
        self._factory: Factory | None = None
        self._paused = False
        self._reading = False
        self._setting_up: dict[asyncio.Task[None], None] = {}
        self.port: int = bound.getsockname()[1]

    async def accept(self, factory: Factory) -> None:
        self._factory = factory
        self._read()

    def pause(self) -> None:
        self._paused = True
        self._stop_reading()

    def resume(self) -> None:
        self._paused = False
        self._read()

    def close(self) -> None:
        self._stop_reading()
        self._factory = None
        with suppress(OSError):
            # A forked child may hold the descriptor too, so that close alone would not stop it.
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _read(self) -> None:
        if self._factory is not None and not self._paused and not self._reading:
            self._reading = True
            self._loop.add_reader(self._socket, self._accept_some)

    def _stop_reading(self) -> None:
        if self._reading:
            self._reading = False
            self._loop.remove_reader(self._socket)

    def _accept_some(self) -> None:
        for _ in range(ACCEPTS_PER_ITERATION_MAX):
            if not self._reading:  # paused by the last one
                return
            try:
                _check_descriptors(self._socket)
                accepted, address = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as failure:
                if failure.errno not in EXHAUSTED:
                    raise
                logger.error(
                    "can't accept connections: %s; retrying in %d s",
                    failure.strerror,
                    EXHAUSTED_RETRY_S,
                )
                self._stop_reading()
                self._loop.call_later(EXHAUSTED_RETRY_S, self._read)
                return
            self._set_up_protocol(accepted, plain_address(address[0]))

    def _set_up_protocol(self, accepted: socket.socket, address: str) -> None:
        assert self._factory is not None, "set before the socket listens"
        protocol = self._factory(address)
        if protocol is None:
            accepted.close()
            return
        accepted.setblocking(False)
        task = self._loop.create_task(self._set_up(accepted, protocol), name="accept")
        self._setting_up[task] = None
        task.add_done_callback(self._setting_up.pop)

    async def _set_up(self, accepted: socket.socket, protocol: asyncio.BaseProtocol) -> None:
        try:
            await self._loop.connect_accepted_socket(lambda: protocol, accepted)
        except OSError as failure:
            accepted.close()
            protocol.connection_lost(failure)


def _check_descriptors(any_socket: socket.socket) -> None:
    """OSError EMFILE if only the reserved descriptors are left. The system assigns the lowest free
    number, so that of a new descriptor is about how many are in use."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return
    with any_socket.dup() as another:
        number = another.fileno()
    if number >= limit - min(RESERVED_DESCRIPTORS_MAX, int(limit * RESERVED_SHARE)):
        raise OSError(errno.EMFILE, f"connections may use no more of the {limit} file descriptors")


def plain_address(host: str) -> str:
    """An address without the prefix that a dual-stack socket adds to IPv4 addresses."""
    return host.removeprefix("::ffff:") if "." in host else host


def dialled_address(transport: asyncio.BaseTransport, port: int) -> tuple[str, int] | None:
    """The address that the client connected to, in the form to advertise back to it."""
    sockname = transport.get_extra_info("sockname")
    if sockname is None:
        return None
    return plain_address(sockname[0]), port or sockname[1]


class ReservedPort:
    """A bound socket that never listens: `SocketNetwork.bind` can have its address meanwhile."""

    def __init__(self, bound: socket.socket) -> None:
        self._socket = bound
        self.port: int = bound.getsockname()[1]

    def close(self) -> None:
        """Release the address."""
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
        return SocketListening(self._loop, await self._bound(host, port, listens=True))

    async def reserve(self, host: str, port: int) -> ReservedPort:
        """Keep an address from other programs. OSError if it is not available."""
        return ReservedPort(await self._bound(host, port, listens=False))

    async def _bound(self, host: str, port: int, *, listens: bool) -> socket.socket:
        every_family = not host and socket.has_dualstack_ipv6()
        family = socket.AF_INET6 if ":" in host or every_family else socket.AF_INET
        bound = socket.socket(family, socket.SOCK_STREAM)
        try:
            self._prepare(bound)
            bound.bind((await self._resolve(host, family), port))
            if listens:
                bound.listen(self._backlog)
        except BaseException:
            bound.close()
            raise
        return bound

    async def connect(
        self, host: str, port: int, factory: Callable[[], asyncio.BaseProtocol]
    ) -> asyncio.BaseTransport:
        transport, _ = await self._loop.create_connection(factory, host, port)
        return transport

    async def resolve(self, host: str) -> str:
        found = await self._loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        # If a host has both, Java (and so Apache Kafka) takes the first IPv4 address.
        best = min(found, key=lambda address: address[0] != socket.AF_INET)
        return plain_address(str(best[4][0]))

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


class TlsNetwork:
    """A `Network` whose connections to other hosts use TLS."""

    def __init__(
        self, plain: Network, loop: asyncio.AbstractEventLoop, context: ssl.SSLContext
    ) -> None:
        self._plain = plain
        self._loop = loop
        self._context = context

    async def bind(self, host: str, port: int) -> Listening:
        return await self._plain.bind(host, port)

    async def connect(
        self, host: str, port: int, factory: Callable[[], asyncio.BaseProtocol]
    ) -> asyncio.BaseTransport:
        try:
            transport, _ = await self._loop.create_connection(
                factory, host, port, ssl=self._context, server_hostname=host
            )
        except ConnectionResetError as failure:  # what a plain listener does with a handshake
            raise OSError(f"the TLS handshake failed: {failure}") from failure
        return transport

    async def resolve(self, host: str) -> str:
        """The host as it is named: its certificate is for that name."""
        return host

    def host_name(self) -> str:
        return self._plain.host_name()
