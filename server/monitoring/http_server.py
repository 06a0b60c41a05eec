"""A small HTTP/1.1 server for read-only pages: GET and HEAD, without request bodies.

The size of a request's head, the connections, and the time that a peer may take are limited. A page
that is generated in pieces is sent in chunks, no faster than the peer reads it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import parse_qs

from kavka.seams import Clock, Tasks, Timer

logger = logging.getLogger(__name__)

HEAD_BYTES_MAX: Final = 8192
"""Request line and headers together."""

CONNECTIONS_MAX: Final = 32
"""Further ones are closed at once."""

REQUEST_S_MAX: Final = 30.0
"""How long a peer may take to send its next request."""

RESPONSE_S_MAX: Final = 60.0
"""How long a peer may take to read a response."""

_REASONS: Final = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
    505: "HTTP Version Not Supported",
}
_HEAD_END: Final = b"\r\n\r\n"


class Query(NamedTuple):
    """The parameters after the `?`, each with its values."""

    parameters: Mapping[str, list[str]]


class Page(NamedTuple):
    """A response; `body` is complete, or generated in non-empty pieces."""

    content_type: str
    body: bytes | AsyncGenerator[bytes, None]
    status: int = 200


MakePage: TypeAlias = Callable[[Query], Page]


class _HttpError(Exception):
    """A request that is rejected with a status; the connection is then closed."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class _Request(NamedTuple):
    method: bytes
    path: str
    query: Query
    keep_alive: bool
    chunked: bool
    """Whether the peer understands chunked encoding."""


def _parse(head: bytes) -> _Request:
    """Parse the head of a request, without the empty line after it. _HttpError if it is invalid."""
    first, *lines = head.split(b"\r\n")
    parts = first.split(b" ")
    if len(parts) != 3 or not parts[2].startswith(b"HTTP/") or not parts[1].startswith(b"/"):
        raise _HttpError(400, "not an HTTP request")
    method, target, version = parts
    if version not in (b"HTTP/1.1", b"HTTP/1.0"):
        raise _HttpError(505, "only HTTP/1.0 and HTTP/1.1 are supported")
    headers = {}
    has_body = False
    for line in lines:
        name, colon, value = line.partition(b":")
        if not colon or not name or name != name.strip() or b"\r" in line or b"\n" in line:
            raise _HttpError(400, "a header is not of the form name: value")
        name, value = name.lower(), value.strip().lower()
        has_body |= name == b"transfer-encoding" or (name == b"content-length" and value != b"0")
        headers[name] = value
    if method not in (b"GET", b"HEAD"):
        raise _HttpError(405, "only GET and HEAD are supported")
    if has_body:
        raise _HttpError(400, "requests with a body are not supported")
    path, _, query = target.decode("ascii", "replace").partition("?")
    is_new = version == b"HTTP/1.1"
    options = headers.get(b"connection", b"")
    keeps = b"close" not in options if is_new else b"keep-alive" in options
    return _Request(method, path, Query(parse_qs(query)), keeps, is_new)


class HttpServer:
    """Serves `pages`, by path, to the connections that `connect` makes."""

    def __init__(self, pages: Mapping[str, MakePage], *, clock: Clock, tasks: Tasks) -> None:
        self.pages = pages
        self.clock = clock
        self.tasks = tasks
        self._open: dict[_Connection, None] = {}

    def connect(self, address: str) -> asyncio.BaseProtocol | None:
        """The protocol for a connection from `address`; None if there are too many connections."""
        if len(self._open) >= CONNECTIONS_MAX:
            return None
        connection = _Connection(self)
        self._open[connection] = None
        return connection

    def forget(self, connection: _Connection) -> None:
        """Remove a closed connection."""
        self._open.pop(connection, None)

    def close(self) -> None:
        """Close all connections at once."""
        for connection in list(self._open):
            connection.abort()


class _Connection(asyncio.BufferedProtocol):
    """One connection: one request at a time."""

    def __init__(self, server: HttpServer) -> None:
        self._server = server
        self._buffer = bytearray(HEAD_BYTES_MAX)
        self._held = 0
        self._transport: Any = None
        self._timer: Timer | None = None
        self._responding: asyncio.Task[None] | None = None
        self._writable: asyncio.Future[None] | None = None
        self._write_paused = False
        self._has_eof = False

    # -- the transport's calls ------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        transport.set_write_buffer_limits(0)  # type: ignore[attr-defined]  # resume when all is sent
        self._set_deadline(REQUEST_S_MAX)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._server.forget(self)
        if self._timer is not None:
            self._timer.cancel()
        if self._responding is not None:
            self._responding.cancel()

    def get_buffer(self, sizehint: int) -> memoryview:
        return memoryview(self._buffer)[self._held :]

    def buffer_updated(self, nbytes: int) -> None:
        self._held += nbytes
        if self._held == HEAD_BYTES_MAX:
            self._transport.pause_reading()
        if self._responding is None:
            self._serve()

    def eof_received(self) -> bool:
        """The peer has stopped sending; stay open for the responses that it is still owed."""
        self._has_eof = True
        return self._responding is not None

    def pause_writing(self) -> None:
        self._write_paused = True

    def resume_writing(self) -> None:
        self._write_paused = False
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)

    # -- one request ----------------------------------------------------------------------

    def _serve(self) -> None:
        """Respond to the buffered request, if it is complete."""
        end = self._buffer.find(_HEAD_END, 0, self._held)
        if end < 0 and self._held < HEAD_BYTES_MAX:
            return
        try:
            if end < 0:
                raise _HttpError(431, f"more than {HEAD_BYTES_MAX} bytes of headers")
            request = _parse(bytes(self._buffer[:end]))
        except _HttpError as error:
            page = _plain(error.status, str(error))
            self._send(self._head(page, close=True))
            self._send(f"{error}\n".encode())
            self._transport.close()
            return
        used = end + len(_HEAD_END)
        rest = self._held - used
        self._buffer[:rest] = self._buffer[used : self._held]
        if self._held == HEAD_BYTES_MAX:
            self._transport.resume_reading()
        self._held = rest
        self._set_deadline(RESPONSE_S_MAX)
        self._responding = self._server.tasks.spawn(self._respond(request), name="HTTP response")

    async def _respond(self, request: _Request) -> None:
        page = self._page(request)
        whole = page.body if isinstance(page.body, bytes) else None
        keep_alive = request.keep_alive and (whole is not None or request.chunked)
        chunked = whole is None and request.chunked
        self._send(self._head(page, close=not keep_alive, chunked=chunked))
        if request.method == b"GET":
            try:
                await self._send_body(page.body, chunked)
            except Exception as failure:
                # the status is already sent: aborting shows the peer that the body is incomplete
                logger.error("%s failed", request.path, exc_info=failure)
                self.abort()
        self._responding = None
        if self._transport is None or self._transport.is_closing():
            return
        if not keep_alive:
            self._transport.close()
            return
        self._set_deadline(REQUEST_S_MAX)
        self._serve()
        if self._has_eof and self._responding is None:
            self._transport.close()

    def _page(self, request: _Request) -> Page:
        make = self._server.pages.get(request.path)
        if make is None:
            return _plain(404, f"the pages are: {', '.join(self._server.pages)}")
        try:
            return make(request.query)
        except Exception as failure:
            logger.error("%s failed", request.path, exc_info=failure)
            return _plain(500, "see the broker's log")

    async def _send_body(self, body: bytes | AsyncGenerator[bytes, None], chunked: bool) -> None:
        if isinstance(body, bytes):
            self._send(body)
        else:
            async with aclosing(body) as pieces:
                async for piece in pieces:
                    self._send(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
                    await self._written()
            if chunked:
                self._send(b"0\r\n\r\n")
        await self._written()

    async def _written(self) -> None:
        """Wait until the peer has read what was sent."""
        if self._write_paused:
            self._writable = self._server.tasks.future()
            await self._writable

    def _head(self, page: Page, *, close: bool, chunked: bool = False) -> bytes:
        now = datetime.fromtimestamp(self._server.clock.now_ms() / 1000, UTC)
        lines = [
            f"HTTP/1.1 {page.status} {_REASONS[page.status]}",
            f"Date: {now:%a, %d %b %Y %H:%M:%S} GMT",
            f"Content-Type: {page.content_type}",
            "Cache-Control: no-store",
        ]
        if isinstance(page.body, bytes):
            lines.append(f"Content-Length: {len(page.body)}")
        elif chunked:
            lines.append("Transfer-Encoding: chunked")
        if page.status == 405:
            lines.append("Allow: GET, HEAD")
        lines.append(f"Connection: {'close' if close else 'keep-alive'}")
        return "\r\n".join([*lines, "", ""]).encode("ascii", "replace")

    def _send(self, data: bytes) -> None:
        if data and self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    # -- time -----------------------------------------------------------------------------

    def _set_deadline(self, seconds: float) -> None:
        """Abort the connection in so many seconds, unless called again."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._server.tasks.call_later(seconds, self.abort)

    def abort(self) -> None:
        """Abort the connection."""
        if self._transport is not None:
            self._transport.abort()


def _plain(status: int, text: str) -> Page:
    return Page("text/plain; charset=utf-8", f"{text}\n".encode(), status)
