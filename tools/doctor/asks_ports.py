"""Resolves names, connects, exchanges a few bytes, shakes hands by TLS: no more than a client does
before its first request."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from kavka.seams import Clock
from kavka.tools.doctor import port_protocol
from kavka.tools.doctor.port_protocol import Heard, PortProtocol, Reply

READ_BYTES: Final = 4096
FRAME_BYTES_MAX: Final = 1 << 20


class Resolved(NamedTuple):
    """The addresses of a host; none if it failed, and why."""

    addresses: Sequence[str]
    failure: str = ""


class Connected(NamedTuple):
    """Whether an address accepts connections."""

    address: str
    took_ms: float
    failure: str = ""
    is_refused: bool = False
    """Something answered that nothing listens there."""
    is_late: bool = False
    """Nothing answered."""


class Port(NamedTuple):
    """A port of a host, and how long it may take to answer."""

    host: str
    port: int
    within_s: float
    address: str = ""
    """The one of the host's that answers; "" while it is not known."""

    @property
    def target(self) -> str:
        """What connections go to: a client that gets no answer at one address tries the next."""
        return self.address or self.host

    def answers_at(self, tried: Sequence[Connected]) -> Port:
        """The port with the first address that accepts connections, if one does."""
        accepted = (attempt.address for attempt in tried if not attempt.failure)
        return self._replace(address=next(accepted, ""))

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


async def resolve(host: str, within_s: float) -> Resolved:
    """The addresses of a host, in the order in which they are tried."""
    loop = asyncio.get_running_loop()
    try:
        found = await asyncio.wait_for(
            loop.getaddrinfo(host, None, type=socket.SOCK_STREAM), within_s
        )
    except TimeoutError:
        return Resolved((), f"no name server answers within {within_s:g} s")
    except (OSError, UnicodeError) as failure:
        return Resolved((), getattr(failure, "strerror", None) or str(failure))
    return Resolved(list(dict.fromkeys(str(info[4][0]) for info in found)))


async def connect(address: str, port: Port, clock: Clock) -> Connected:
    """Connect once."""
    began = clock.monotonic_s()
    failure: OSError | None = None
    try:
        _, writer = await asyncio.wait_for(
            asyncio.open_connection(address, port.port), port.within_s
        )
        writer.close()
    except TimeoutError:
        return Connected(address, 0, "no answer", is_late=True)
    except OSError as caught:
        failure = caught
    took_ms = (clock.monotonic_s() - began) * 1000
    if failure is None:
        return Connected(address, took_ms)
    refused = isinstance(failure, ConnectionRefusedError) or "refused" in str(failure)
    return Connected(address, took_ms, failure.strerror or str(failure), is_refused=refused)


async def exchange(
    port: Port, sent: bytes, *, is_framed: bool = False, secured_by: ssl.SSLContext | None = None
) -> Heard:
    """Send bytes on a new connection, and take what comes: a whole frame of Kafka's, if it is one.
    OSError (and with it ssl.SSLError) if there is no connection."""
    name = port.host if secured_by is not None else None
    writer: asyncio.StreamWriter | None = None
    data = b""
    try:
        async with asyncio.timeout(port.within_s):
            reader, writer = await asyncio.open_connection(
                port.target, port.port, ssl=secured_by, server_hostname=name
            )
            writer.write(sent)
            data = await reader.read(READ_BYTES)
            while is_framed and 4 <= len(data) < _frame_bytes(data):
                more = await reader.read(READ_BYTES)
                if not more:
                    break
                data += more
    except TimeoutError:
        return Heard(data)
    except ConnectionResetError:
        return Heard(data, is_closed=True)
    finally:
        if writer is not None:
            writer.transport.abort()
    return Heard(data, is_closed=not data)


def _frame_bytes(data: bytes) -> int:
    (length,) = struct.unpack_from(">i", data)
    return 4 + length if 0 < length < FRAME_BYTES_MAX else 0


async def listen(port: Port) -> Reply:
    """Find out what is spoken at a port: Kafka's protocol first, then those that it is mistaken
    for."""
    request = port_protocol.request(port_protocol.API_VERSIONS_KEY, 0)
    first = await exchange(port, request, is_framed=True)
    protocol = port_protocol.protocol_of(first)
    if protocol not in (PortProtocol.CLOSES, PortProtocol.SILENT, PortProtocol.OTHER):
        return Reply(protocol, first.data)
    # TLS first, as some servers of HTTPS answer plain HTTP, too
    guesses = [
        asyncio.ensure_future(_try_tls(port)),
        asyncio.ensure_future(_try(port, port_protocol.HTTP_REQUEST)),
        asyncio.ensure_future(_try(port, port_protocol.ZOOKEEPER_REQUEST)),
    ]
    try:
        for guess in guesses:
            reply = await guess
            if reply.protocol in (PortProtocol.TLS, PortProtocol.HTTP, PortProtocol.ZOOKEEPER):
                return reply
    finally:  # the others might wait for the rest of the time
        for guess in guesses:
            guess.cancel()
        await asyncio.gather(*guesses, return_exceptions=True)
    return Reply(protocol, first.data)


async def _try(port: Port, sent: bytes) -> Reply:
    try:
        heard = await exchange(port, sent)
    except OSError:
        return Reply(PortProtocol.CLOSES, b"")
    return Reply(port_protocol.protocol_of(heard), heard.data)


async def _try_tls(port: Port) -> Reply:
    """TLS is spoken if the handshake succeeds, or fails by an alert of the other side."""
    try:
        async with asyncio.timeout(port.within_s):
            _, writer = await asyncio.open_connection(
                port.target, port.port, ssl=unverified(), server_hostname=port.host
            )
            writer.transport.abort()
    except ssl.SSLError as failure:
        reason = (failure.reason or "").upper()
        return Reply(PortProtocol.TLS if "ALERT" in reason else PortProtocol.OTHER, b"")
    except OSError:  # TimeoutError is one
        return Reply(PortProtocol.CLOSES, b"")
    return Reply(PortProtocol.TLS, b"")


def unverified() -> ssl.SSLContext:
    """For looking at a server: it believes everything, so nothing secret is sent over it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


async def shake_hands(port: Port, context: ssl.SSLContext) -> Any:
    """The connection's TLS object after a handshake. OSError."""
    async with asyncio.timeout(port.within_s):
        _, writer = await asyncio.open_connection(
            port.target, port.port, ssl=context, server_hostname=port.host
        )
    secured = writer.get_extra_info("ssl_object")
    writer.transport.abort()
    return secured
