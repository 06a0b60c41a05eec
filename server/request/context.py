"""Who asks: what every handler is told about a request beside the request itself."""

from __future__ import annotations

from ipaddress import IPv6Address
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kavka.wire.frame import Arena

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from kavka.server.request.stats import Timing

T = TypeVar("T")

COPIED_BYTES_MAX: Final = 128 * 1024
"""Of a request, to be looked at later: to keep the whole request costs an arena of twice this."""

ANONYMOUS: Final = "User:ANONYMOUS"
"""The principal of a connection without authentication, as Apache Kafka names it."""


UNKNOWN_SOFTWARE: Final = ("unknown", "unknown")


class BadRequest(Exception):
    """The request can't be answered; the connection is closed, as Apache Kafka closes it."""


class Peer:
    """What is true of a whole connection: who is at its other end, and where they came in."""

    __slots__ = ("address", "arrived_s", "dialled", "listener", "on_lost", "principal", "software")

    def __init__(self, listener: str, address: str, dialled: tuple[str, int] | None = None) -> None:
        self.principal = ANONYMOUS
        self.listener = listener
        self.address = address
        self.arrived_s = 0.0
        """When bytes came last, by the monotonic clock: all frames at hand had arrived by then."""
        self.dialled = dialled
        """Host and port to tell this client as ours, where that is not the advertised address."""
        self.software = UNKNOWN_SOFTWARE
        """Name and version of the client, as it told them (KIP-511)."""
        self.on_lost: Callable[[], object] | None = None
        """Called when the connection is gone."""

    @property
    def host(self) -> str:
        """The client's address as groups keep and tell it: in Java's form, such as "/127.0.0.1",
        with all eight parts of one of IPv6."""
        host = self.address.rpartition(":")[0]
        if ":" in host:
            address, scoped, scope = host.partition("%")
            parts = IPv6Address(address).exploded.split(":")
            host = ":".join(f"{int(part, 16):x}" for part in parts) + scoped + scope
        return f"/{host}"


class RequestContext:
    """One request's circumstances. `lent` collects buffers that its answer is sent from;
    `timing` is there if its times are taken.

    `applied` is there if the handler returned before it had done what was asked: the connection
    goes on with other requests when it is done, so that none of them overtakes this one.

    The bytes that the request came in are others' when its handler returns. Whoever looks at some
    of them later says so before that: with `keep_frame`, or by a copy of them (`own` decides)."""

    __slots__ = (
        "applied",
        "client_id",
        "correlation_id",
        "keeps_frame",
        "lent",
        "owned_bytes",
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
        self.timing: Timing | None = None
        self.applied: asyncio.Future[None] | None = None
        self.keeps_frame = False
        self.owned_bytes = 0
        self.waits_for: asyncio.Future[Any] | None = None

    def wait(self, future: asyncio.Future[T]) -> asyncio.Future[T]:
        """To be awaited when all that was asked for is done and only the answer has to wait: it is
        cancelled if the connection ends first. Nothing else of a request is."""
        self.waits_for = future
        return future

    def keep_frame(self) -> None:
        """Let the bytes of the request stay as they are until `applied` is done."""
        self.keeps_frame = True

    def own(self, view: memoryview) -> memoryview:
        """The bytes in a view of the request, to be looked at until `applied` is done: a copy of
        a few, so that no arena is held for them; of many themselves."""
        if not self.keeps_frame:
            self.owned_bytes += len(view)
            if self.owned_bytes <= COPIED_BYTES_MAX:
                return memoryview(bytearray(view))
            self.keep_frame()
        return view

    def lend(self, arena: Arena) -> None:
        """Send from `arena`: it goes back to its pool when the transport has let go of it."""
        if self.lent is None:
            self.lent = []
        self.lent.append(arena)


Response = Any
"""Any object with the field names of the API's response schema."""
