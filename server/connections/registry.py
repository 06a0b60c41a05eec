"""All connections of a broker: accepts them, expires idle ones, and closes them at shutdown.

`limits` makes the decisions; this module carries them out. One timer, which runs only while there
are connections, expires idle ones; per request it costs only a stamp from a shared counter.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from kavka.seams import Clock, Listening, Network, Tasks, Timer
from kavka.server.connections.limits import UNTIL_ONE_CLOSES, ConnectionLimits, RequestMemory
from kavka.server.runtime.rate_limited_logger import RateLimitedLogger

if TYPE_CHECKING:
    from kavka.server.config import BrokerSettings
    from kavka.server.config.live import LiveSettings

logger = logging.getLogger(__name__)

_OVERRIDES: Final = "max.connections.per.ip.overrides"

ORPHANED_REQUESTS_MAX: Final = 500
"""In-flight requests of closed connections, which are still carried out; at this limit no
connection is accepted. As many as Apache Kafka queues (`queued.max.requests`)."""

IDLE_TICKS: Final = 64
"""Ticks of the timer until a connection expires: it is closed at most one tick late."""

TICK_MS_MIN: Final = 10.0


class Acceptor:
    """Accepts the connections of one listener."""

    __slots__ = ("dialled_port", "is_open", "listening", "name", "timer")

    def __init__(self, name: str, listening: Listening, dialled_port: int | None = None) -> None:
        self.name = name
        self.listening = listening
        self.dialled_port = dialled_port
        """None: advertise the configured address to clients. Else the address that each client
        connected to, with this port, or if 0 with the port that it connected to."""
        self.is_open = True
        self.timer: Timer | None = None


class RegisteredConnection(asyncio.BufferedProtocol, ABC):
    """What the registry knows of a connection."""

    __slots__ = ("acceptor", "host", "last_active")

    acceptor: Acceptor
    host: str
    """The client's IP address."""
    last_active: int
    """Value of `Connections.activity` when it was last active."""

    @property
    @abstractmethod
    def address(self) -> str:
        """The client's IP address and port."""

    @abstractmethod
    def is_idle(self) -> bool:
        """Whether it may be closed without a loss: nothing is in flight."""

    @abstractmethod
    def close(self) -> None:
        """Close once what has been written is sent."""

    @abstractmethod
    def abort(self) -> None:
        """Close at once; what is unsent is lost."""


class Connections:
    """The open connections. Plain counts are for the metrics."""

    def __init__(self, live: LiveSettings, *, clock: Clock, tasks: Tasks) -> None:
        self._live = live
        self._clock = clock
        self._tasks = tasks
        self._acceptors: list[Acceptor] = []
        self._open: dict[RegisteredConnection, None] = {}
        self.is_closed = False
        self.limits = ConnectionLimits(live.now)
        self._overrides: Mapping[str, int] = {}
        self.request_memory = RequestMemory()
        self.activity = 0
        """Counts activity on all connections; the stamps order them by last use."""
        self._activity_at_ticks: deque[int] = deque()  # at each tick of the idle timer
        self._idle_timer: Timer | None = None
        self.accepted = 0
        self.closed = 0
        self.expired = 0
        """Closed by `connections.max.idle.ms`."""
        self.orphaned_requests = 0
        """Requests still in flight whose connections have closed."""
        self.displaced = 0
        """Closed to make room for the inter-broker listener."""
        self.bad_requests = RateLimitedLogger(
            logger, logging.WARNING, "connections closed for bad requests", tasks
        )
        """Connections closed for a request that can't be answered, such as a malformed one."""
        self.refused = RateLimitedLogger(
            logger, logging.INFO, "connections closed by max.connections.per.ip", tasks
        )

    def __len__(self) -> int:
        return len(self._open)

    # -- limits ---------------------------------------------------------------------------

    def reserve_memory(self, size: int, when_released: Callable[[], object]) -> bool:
        """Reserve memory for a request, if `queued.max.request.bytes` allows it now."""
        limit = self._live.now.queued_max_request_bytes
        return self.request_memory.reserve(size, limit, when_released)

    async def set_limits(self, settings: BrokerSettings, network: Network) -> None:
        """Apply these limits. OSError if a host name in the overrides can't be resolved; only
        logged if they are a dynamic setting, which can be reverted only while the broker runs."""
        try:
            self._overrides = await _by_address(settings, network)
        except OSError as failure:
            if not settings.dynamic.has(_OVERRIDES):
                raise
            logger.error("can't apply %s: %s", _OVERRIDES, failure)
        self._apply(settings)

    def follow_settings(self, network: Network) -> None:
        """Apply changed limits from now on."""

        def changed(_: BrokerSettings, settings: BrokerSettings) -> None:
            self._tasks.spawn(self._change(network), name="connection limits")

        self._live.on_change(changed)

    async def _change(self, network: Network) -> None:
        settings = self._live.now
        try:
            overrides = await _by_address(settings, network)
        except OSError as failure:
            logger.error("can't apply %s: %s", _OVERRIDES, failure)
            overrides = self._overrides
        if settings is self._live.now:  # else a later change is applied in its own call
            self._overrides = overrides
            self._apply(settings)

    def _apply(self, settings: BrokerSettings) -> None:
        self.limits.set_limits(settings, self._overrides)
        self._close_excess()
        self._adjust_all()

    # -- accepting ------------------------------------------------------------------------

    async def open(
        self, acceptor: Acceptor, make: Callable[[Acceptor, str], RegisteredConnection]
    ) -> None:
        """Start accepting; `make` creates a connection from the acceptor and the peer's address."""
        self._acceptors.append(acceptor)
        await acceptor.listening.accept(partial(self._admit, acceptor, make))
        self._adjust(acceptor)

    def _admit(
        self,
        acceptor: Acceptor,
        make: Callable[[Acceptor, str], RegisteredConnection],
        address: str,
    ) -> RegisteredConnection | None:
        allowed = self.limits.admit(acceptor.name, address, self._clock.monotonic_s())
        if allowed is not None:
            self.refused.line(
                "closing connection from %s on %s: the address has %d, the most that "
                "max.connections.per.ip allows it",
                address,
                acceptor.name,
                allowed,
            )
            self._adjust(acceptor)
            return None
        connection = make(acceptor, address)
        self._open[connection] = None
        self.accepted += 1
        self.activity = connection.last_active = self.activity + 1
        self._close_excess()
        self._adjust(acceptor)
        if self._idle_timer is None:
            self._start_idle_timer()
        return connection

    def _adjust(self, acceptor: Acceptor) -> None:
        """Pause or resume an acceptor, as the limits require now."""
        if self.is_closed:
            return
        if acceptor.timer is not None:
            acceptor.timer.cancel()
            acceptor.timer = None
        wait_s = self.limits.wait_s(acceptor.name, self._clock.monotonic_s())
        if self.orphaned_requests >= ORPHANED_REQUESTS_MAX:
            wait_s = UNTIL_ONE_CLOSES
        if wait_s and acceptor.is_open:
            acceptor.listening.pause()
        elif not wait_s and not acceptor.is_open:
            acceptor.listening.resume()
        acceptor.is_open = not wait_s
        if 0 < wait_s < UNTIL_ONE_CLOSES:
            acceptor.timer = self._tasks.call_later(wait_s, self._adjust, acceptor)

    def _close_excess(self) -> None:
        """Close connections when a protected listener has exceeded `max.connections`."""
        excess = self.limits.excess()
        if not excess:
            return
        others = [
            connection
            for connection in self._open
            if not self.limits.is_protected(connection.acceptor.name)
        ]
        others.sort(key=_last_active)
        for connection in others[:excess]:
            self.displaced += 1
            logger.info(
                "closing connection from %s on %s: max.connections is exceeded, and it is the "
                "least recently used connection",
                connection.address,
                connection.acceptor.name,
            )
            self.forget(connection)
            connection.abort()

    # -- closing --------------------------------------------------------------------------

    def may_stay(self, connection: RegisteredConnection) -> bool:
        """Whether a connection whose socket has just been set up may stay open: it may have been
        removed since it was accepted, when its socket could not be closed yet."""
        return connection in self._open and not self.is_closed

    def forget(self, connection: RegisteredConnection) -> None:
        """Remove a connection that has closed or is about to."""
        if connection not in self._open:
            return
        del self._open[connection]
        self.closed += 1
        self.limits.left(connection.acceptor.name, connection.host)
        for acceptor in self._acceptors:
            if not acceptor.is_open:
                self._adjust(acceptor)

    def add_orphan(self, request: asyncio.Future[Any]) -> None:
        """Count a request of a closed connection until it is done. At ORPHANED_REQUESTS_MAX the
        listeners stop accepting connections, until there are fewer."""
        self.orphaned_requests += 1
        request.add_done_callback(self._orphan_done)
        if self.orphaned_requests == ORPHANED_REQUESTS_MAX:
            self._adjust_all()

    def _orphan_done(self, _: asyncio.Future[Any]) -> None:
        self.orphaned_requests -= 1
        if self.orphaned_requests == ORPHANED_REQUESTS_MAX - 1:
            self._adjust_all()

    def _adjust_all(self) -> None:
        for acceptor in self._acceptors:
            self._adjust(acceptor)

    def close_all(self) -> None:
        """Close all, and any connection set up later. Responses already written are still sent."""
        self._end()
        for connection in list(self._open):
            connection.close()

    def abort_all(self) -> None:
        """Close all at once and discard unsent data."""
        self._end()
        for connection in list(self._open):
            connection.abort()
        self.bad_requests.close()
        self.refused.close()

    def _end(self) -> None:
        self.is_closed = True
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        for acceptor in self._acceptors:
            if acceptor.timer is not None:
                acceptor.timer.cancel()

    # -- idle -----------------------------------------------------------------------------

    def _start_idle_timer(self) -> None:
        idle_ms = self._live.now.connections_max_idle_ms
        if idle_ms < 0:
            return
        self._activity_at_ticks.clear()
        self._tick_s = max(idle_ms / IDLE_TICKS, TICK_MS_MIN) / 1000
        self._idle_ticks = max(1, round(idle_ms / 1000 / self._tick_s))
        self._idle_timer = self._tasks.call_later(self._tick_s, self._tick)

    def _tick(self) -> None:
        """Timer: expire connections without activity for `_idle_ticks` ticks."""
        if not self._open:
            self._idle_timer = None  # the next connection starts it again
            return
        self._activity_at_ticks.append(self.activity)
        if len(self._activity_at_ticks) > self._idle_ticks:
            oldest = self._activity_at_ticks.popleft()
            for connection in [
                connection for connection in self._open if connection.last_active <= oldest
            ]:
                self._expire(connection)
        self._idle_timer = self._tasks.call_later(self._tick_s, self._tick)

    def _expire(self, connection: RegisteredConnection) -> None:
        if not connection.is_idle():
            connection.last_active = self.activity
            return
        self.expired += 1
        logger.debug(
            "closing idle connection from %s on %s", connection.address, connection.acceptor.name
        )
        self.forget(connection)
        connection.abort()


async def _by_address(settings: BrokerSettings, network: Network) -> Mapping[str, int]:
    """`max.connections.per.ip.overrides` by IP address, host names resolved."""
    hosts = settings.max_connections_per_ip_overrides
    return {await network.resolve(host): count for host, count in hosts}


def _last_active(connection: RegisteredConnection) -> int:
    return connection.last_active
