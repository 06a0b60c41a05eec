"""A request's context (connection, client, header fields), passed to every handler."""

from __future__ import annotations

import asyncio
from ipaddress import IPv6Address
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from kavka.server.runtime.purgatory import Wait
from kavka.wire.frame import Arena

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

COPIED_BYTES_MAX: Final = 128 * 1024
"""Bytes of a request that are copied for later use. Beyond it the frame is kept instead, which
costs an arena of at least twice this size."""

ANONYMOUS: Final = "User:ANONYMOUS"
"""The principal of a connection without authentication, as Apache Kafka names it."""


UNKNOWN_SOFTWARE: Final = ("unknown", "unknown")


class BadRequest(Exception):
    """The request can't be answered; the connection is closed, as in Apache Kafka."""


class Peer:
    """The client at the other end of a connection, and the listener it is connected to."""

    __slots__ = ("address", "arrived_s", "dialled", "listener", "on_lost", "principal", "software")

    def __init__(self, listener: str, address: str, dialled: tuple[str, int] | None = None) -> None:
        self.principal = ANONYMOUS
        self.listener = listener
        self.address = address
        self.arrived_s = 0.0
        """When bytes were last received, by the monotonic clock: all buffered frames had arrived
        by then."""
        self.dialled = dialled
        """Host and port that this client connected to, if they are to be advertised to it in place
        of the configured address."""
        self.software = UNKNOWN_SOFTWARE
        """Name and version of the client, as in its ApiVersions request (KIP-511)."""
        self.on_lost: Callable[[], object] | None = None
        """Called when the connection has closed."""

    @property
    def host(self) -> str:
        """The client's address in the form that groups store and describe: Java's, such as
        "/127.0.0.1", with all eight parts of an IPv6 address."""
        host = self.address.rpartition(":")[0]
        if ":" in host:
            address, scoped, scope = host.partition("%")
            parts = IPv6Address(address).exploded.split(":")
            host = ":".join(f"{int(part, 16):x}" for part in parts) + scoped + scope
        return f"/{host}"


class Cancellable(Protocol):
    """A future, or a wait in the purgatory."""

    def cancel(self) -> object: ...


W = TypeVar("W", bound=Cancellable)


class RequestTiming(Protocol):
    """Times of one request, for the metrics and the request log: `stats.Timing`."""

    def handled(self) -> None: ...

    def responded(self) -> None: ...

    def dequeued(self) -> None: ...

    def written(
        self, context: RequestContext, request_bytes: int, response_bytes: int, throttle_ms: int
    ) -> None: ...


class RequestContext:
    """One request's context. `lent` collects buffers that its response is sent from; `timing` is
    set if it is timed.

    `applied` is set if the handler returned before it had carried out the request: the connection
    handles no further request until it is done, so that none overtakes this one.

    The request's frame is reused when its handler returns. A handler that needs bytes of it later
    must say so before it returns: with `keep_frame`, or with `retain`, which may copy them."""

    __slots__ = (
        "applied",
        "client_id",
        "correlation_id",
        "keeps_frame",
        "lent",
        "retained_bytes",
        "peer",
        "timing",
        "version",
        "waits_for",
    )

    def __init__(
        self, peer: Peer, version: int, correlation_id: int, client_id: str | None
    ) -> None:
        self.peer = peer
        self.version = version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.lent: list[Arena] | None = None
        self.timing: RequestTiming | None = None
        self.applied: asyncio.Future[None] | None = None
        self.keeps_frame = False
        self.retained_bytes = 0
        self.waits_for: Cancellable | None = None

    def wait(self, wait: W) -> W:
        """Cancel `wait` if the connection closes first; returns `wait`. Only for a request that
        has taken effect, so that only its response is missing: nothing else of it is cancelled."""
        self.waits_for = wait
        return wait

    def is_in_progress(self, result: Awaitable[Any] | Wait) -> bool:
        """Whether the request may not have taken effect yet, with `result` as what its handler has
        returned: a task that works, and has not said that its effect is there, or that it comes
        with `applied`."""
        is_task = result.__class__ not in (asyncio.Future, Wait)
        return is_task and self.applied is None and self.waits_for is None

    def keep_frame(self) -> None:
        """Keep the request's frame from being reused until `applied` is done."""
        self.keeps_frame = True

    def retain(self, view: memoryview) -> memoryview:
        """A view that stays valid until `applied` is done: a copy of few bytes, so that they hold
        no arena; many bytes are not copied but keep the frame."""
        if not self.keeps_frame:
            self.retained_bytes += len(view)
            if self.retained_bytes <= COPIED_BYTES_MAX:
                return memoryview(bytearray(view))
            self.keep_frame()
        return view

    def lend(self, arena: Arena) -> None:
        """Send from `arena`; it returns to its pool when the transport no longer holds it."""
        if self.lent is None:
            self.lent = []
        self.lent.append(arena)


Response = Any
"""Any object with the field names of the API's response schema."""
