"""All connections of a broker: who is let in, who has been idle for too long, and the end of all.

What the limits are is decided by `limits`; here is what follows from it. Idle connections are
found by one timer for all of them, which runs only while there are any; a request costs no more
than a stamp out of a counter that all connections share.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from kavka.seams import Clock, Listening, Network, Tasks, Timer
from kavka.server.connections.limits import UNTIL_ONE_CLOSES, ConnectionLimits, RequestMemory
from kavka.server.runtime.rate_limited_log import LogLimit

if TYPE_CHECKING:
    from kavka.server.config import BrokerSettings
    from kavka.server.config.live import LiveSettings
    from kavka.server.connections.connection import Connection

logger = logging.getLogger(__name__)

_OVERRIDES: Final = "max.connections.per.ip.overrides"

LEFT_BEHIND_MAX: Final = 500
"""Requests of connections that have ended, which are done to their end all the same; with more no
connection is accepted. As many as Apache Kafka queues (`queued.max.requests`)."""

IDLE_TURNS: Final = 64
"""Turns of the timer until a connection is idle: it is closed at most a turn too late."""

TURN_MS_MIN: Final = 10.0


class Gate:
    """Where one listener lets connections in."""

    __slots__ = ("dialled_port", "is_open", "listening", "name", "timer")

    def __init__(self, name: str, listening: Listening, dialled_port: int | None = None) -> None:
        self.name = name
        self.listening = listening
        self.dialled_port = dialled_port
        """None: clients are told the advertised address. Else the one that they dialled, with
        this port, or with the port that they dialled if this is 0."""
        self.is_open = True
        self.timer: Timer | None = None


class Connections:
    """The open connections. Plain counts are for the metrics."""

    def __init__(self, live: LiveSettings, *, clock: Clock, tasks: Tasks) -> None:
        self._live = live
        self._clock = clock
        self._tasks = tasks
        self._gates: list[Gate] = []
        self._open: dict[Connection, None] = {}
        self.has_ended = False
        self.limits = ConnectionLimits(live.now)
        self._overrides: Mapping[str, int] = {}
        self.request_memory = RequestMemory()
        self.activity = 0
        """Rises with each sign of life of any connection, and is what orders them by age."""
        self._marks: deque[int] = deque()  # the activity at each turn of the idle timer
        self._idle_timer: Timer | None = None
        self.accepted = 0
        self.closed = 0
        self.expired = 0
        """Closed by `connections.max.idle.ms`."""
        self.left_behind = 0
        """Requests of connections that have ended, which are not done yet."""
        self.displaced = 0
        """Closed to make room for the listener between brokers."""
        self.bad = LogLimit(logger, logging.WARNING, "connections closed for bad requests", tasks)
        """Whoever sends what can't be answered."""
        self.refused = LogLimit(
            logger, logging.INFO, "connections closed by max.connections.per.ip", tasks
        )

    def __len__(self) -> int:
        return len(self._open)

    # -- limits ---------------------------------------------------------------------------

    def take_memory(self, size: int, when_released: Callable[[], object]) -> bool:
        """Whether a request of so many bytes may be received now; `request_memory` counts it."""
        limit = self._live.now.queued_max_request_bytes
        return self.request_memory.take(size, limit, when_released)

    async def set_limits(self, settings: BrokerSettings, network: Network) -> None:
        """Go by these limits. OSError for a host name in the overrides that there is not; but not
        where they were set while the broker ran: only a running one can take them back."""
        try:
            self._overrides = await _by_address(settings, network)
        except OSError as failure:
            if not settings.dynamic.has(_OVERRIDES):
                raise
            logger.error("can't apply %s: %s", _OVERRIDES, failure)
        self._apply(settings)

    def follow_settings(self, network: Network) -> None:
        """Go by changed limits from now on."""

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
        if settings is self._live.now:  # else a later change goes on from here, or has
            self._overrides = overrides
            self._apply(settings)

    def _apply(self, settings: BrokerSettings) -> None:
        self.limits.set_limits(settings, self._overrides)
        self._close_excess()
        self._adjust_all()

    # -- in -------------------------------------------------------------------------------

    async def open(self, gate: Gate, make: Callable[[Gate, str], Connection]) -> None:
        """Let connections in; `make` makes one from the gate and the peer's address."""
        self._gates.append(gate)
        await gate.listening.accept(partial(self._admit, gate, make))
        self._adjust(gate)

    def _admit(
        self, gate: Gate, make: Callable[[Gate, str], Connection], address: str
    ) -> Connection | None:
        allowed = self.limits.admit(gate.name, address, self._clock.monotonic_s())
        if allowed is not None:
            self.refused.line(
                "closing connection from %s on %s: the address has %d, the most that "
                "max.connections.per.ip allows it",
                address,
                gate.name,
                allowed,
            )
            self._adjust(gate)
            return None
        connection = make(gate, address)
        self._open[connection] = None
        self.accepted += 1
        self.activity = connection.last_active = self.activity + 1
        self._close_excess()
        self._adjust(gate)
        if self._idle_timer is None:
            self._begin_turns()
        return connection

    def _adjust(self, gate: Gate) -> None:
        """Open or shut a gate, as the limits have it now."""
        if self.has_ended:
            return
        if gate.timer is not None:
            gate.timer.cancel()
            gate.timer = None
        wait_s = self.limits.wait_s(gate.name, self._clock.monotonic_s())
        if self.left_behind >= LEFT_BEHIND_MAX:
            wait_s = UNTIL_ONE_CLOSES
        if wait_s and gate.is_open:
            gate.listening.pause()
        elif not wait_s and not gate.is_open:
            gate.listening.resume()
        gate.is_open = not wait_s
        if 0 < wait_s < UNTIL_ONE_CLOSES:
            gate.timer = self._tasks.call_later(wait_s, self._adjust, gate)

    def _close_excess(self) -> None:
        """Make room, where somebody was let in whom `max.connections` does not keep out."""
        excess = self.limits.excess()
        if not excess:
            return
        others = [one for one in self._open if not self.limits.is_protected(one.gate.name)]
        others.sort(key=_last_active)
        for connection in others[:excess]:
            self.displaced += 1
            logger.info(
                "closing connection from %s on %s: max.connections is exceeded, and it is the "
                "least recently used connection",
                connection.address,
                connection.gate.name,
            )
            self.forget(connection)
            connection.abort()

    # -- out ------------------------------------------------------------------------------

    def keeps(self, connection: Connection) -> bool:
        """Whether one whose socket has just been set up may stay: it was let in some turns ago,
        and could not be closed yet when it was to be."""
        return connection in self._open and not self.has_ended

    def forget(self, connection: Connection) -> None:
        """A connection has ended, or is about to."""
        if connection not in self._open:
            return
        del self._open[connection]
        self.closed += 1
        self.limits.left(connection.gate.name, connection.host)
        for gate in self._gates:
            if not gate.is_open:
                self._adjust(gate)

    def leave_behind(self, request: asyncio.Future[Any]) -> None:
        """A connection has ended before this request of its was done."""
        self.left_behind += 1
        request.add_done_callback(self._done_behind)
        if self.left_behind == LEFT_BEHIND_MAX:
            self._adjust_all()

    def _done_behind(self, _: asyncio.Future[Any]) -> None:
        self.left_behind -= 1
        if self.left_behind == LEFT_BEHIND_MAX - 1:
            self._adjust_all()

    def _adjust_all(self) -> None:
        for gate in self._gates:
            self._adjust(gate)

    def close_all(self) -> None:
        """Close all; written answers still go out. Who comes yet is closed too."""
        self._end()
        for connection in list(self._open):
            connection.shut()

    def abort_all(self) -> None:
        """Close all at once; what peers have not read is dropped."""
        self._end()
        for connection in list(self._open):
            connection.abort()
        self.bad.close()
        self.refused.close()

    def _end(self) -> None:
        self.has_ended = True
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        for gate in self._gates:
            if gate.timer is not None:
                gate.timer.cancel()

    # -- idle -----------------------------------------------------------------------------

    def _begin_turns(self) -> None:
        idle_ms = self._live.now.connections_max_idle_ms
        if idle_ms < 0:
            return
        self._marks.clear()
        self._turn_s = max(idle_ms / IDLE_TURNS, TURN_MS_MIN) / 1000
        self._turns = max(1, round(idle_ms / 1000 / self._turn_s))
        self._idle_timer = self._tasks.call_later(self._turn_s, self._turn)

    def _turn(self) -> None:
        """The timer: who has done nothing for so many turns is idle."""
        if not self._open:
            self._idle_timer = None  # the next connection starts it again
            return
        self._marks.append(self.activity)
        if len(self._marks) > self._turns:
            oldest = self._marks.popleft()
            for connection in [one for one in self._open if one.last_active <= oldest]:
                self._expire(connection)
        self._idle_timer = self._tasks.call_later(self._turn_s, self._turn)

    def _expire(self, connection: Connection) -> None:
        if not connection.is_at_rest():
            connection.last_active = self.activity
            return
        self.expired += 1
        logger.debug(
            "closing idle connection from %s on %s", connection.address, connection.gate.name
        )
        self.forget(connection)
        connection.abort()


async def _by_address(settings: BrokerSettings, network: Network) -> Mapping[str, int]:
    """`max.connections.per.ip.overrides`, their host names looked up."""
    hosts = settings.max_connections_per_ip_overrides
    return {await network.resolve(host): count for host, count in hosts}


def _last_active(connection: Connection) -> int:
    return connection.last_active
