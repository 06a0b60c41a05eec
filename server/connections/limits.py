"""How many connections there may be: counts and decisions, with the time handed in.

The rules are those of Apache Kafka's ConnectionQuotas. A listener at its limit, or a broker at
`max.connections`, lets new connections wait to be accepted; the listener between brokers, if it is
not the only one, is let in all the same, and as many connections of the others are closed. An
address with too many connections has the next one closed. New connections beyond
`max.connection.creation.rate` wait. Who does the waiting and closing is `registry`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from kavka.server.config.address_limits import NO_LIMIT

if TYPE_CHECKING:
    from kavka.server.config import BrokerSettings

_SAMPLES: Final = 11
"""Kafka's quota.window.num at its default; a sample is a second, quota.window.size.seconds."""

DELAY_S_MAX: Final = 1.0
"""The longest that a rate that is exceeded keeps the next connection waiting."""

UNTIL_ONE_CLOSES: Final = float("inf")


class Rate:
    """Events a second, measured as Apache Kafka measures them: over ten seconds and a fraction.

    So a burst of ten seconds' worth is let through after a rest.
    """

    __slots__ = ("_samples", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._samples: deque[list[float]] = deque()  # [start, last event, events]

    def count(self, now_s: float) -> float:
        """Count an event; for how many seconds there should be no further one."""
        if self.limit >= NO_LIMIT:
            return 0.0
        samples = self._samples
        while samples and now_s - samples[0][1] >= _SAMPLES:
            samples.popleft()
        if not samples or now_s - samples[-1][0] >= 1:
            samples.append([now_s, now_s, 0])
        samples[-1][1] = now_s
        samples[-1][2] += 1
        elapsed_s = now_s - samples[0][0]
        elapsed_s += max(0, _SAMPLES - 1 - int(elapsed_s))
        excess = sum(sample[2] for sample in samples) - self.limit * elapsed_s
        if excess <= 0:
            return 0.0
        return min(excess / self.limit, DELAY_S_MAX) if self.limit else DELAY_S_MAX


class RequestMemory:
    """The bytes of requests that are being received and need more than the smallest arena.

    As `queued.max.request.bytes` in Apache Kafka, it may be exceeded by the last one let in: who
    is let in gets the whole of its request, so that nobody waits for bytes that two hold half of.
    """

    def __init__(self) -> None:
        self.held_bytes = 0
        self._waiting: dict[Callable[[], object], None] = {}

    def take(self, size: int, limit: int, when_released: Callable[[], object]) -> bool:
        """Hold `size` bytes, if not `limit` are held already; a limit below 1 is none.

        If they are, `when_released` is called when it is worth asking again.
        """
        if 0 < limit <= self.held_bytes:
            self._waiting[when_released] = None
            return False
        self.held_bytes += size
        return True

    def give(self, size: int) -> None:
        """Hold `size` bytes less."""
        self.held_bytes -= size
        waiting, self._waiting = self._waiting, {}
        for ask_again in waiting:
            ask_again()

    def withdraw(self, when_released: Callable[[], object]) -> None:
        """Whoever waited asks no more."""
        self._waiting.pop(when_released, None)


class _ListenerCount:
    """One listener's connections and limits."""

    __slots__ = ("accepted", "connections_max", "not_before_s", "open", "rate")

    def __init__(self) -> None:
        self.open = 0
        self.accepted = 0
        """Let in so far."""
        self.connections_max = NO_LIMIT
        self.rate = Rate(NO_LIMIT)
        self.not_before_s = 0.0


class ConnectionLimits:
    """Counts connections by listener and address, and says what is too many.

    `overrides` of `set_limits` are by address, as `Listening` tells addresses.
    """

    def __init__(self, settings: BrokerSettings) -> None:
        self.open = 0
        self._listeners = {name: _ListenerCount() for name, _ in settings.listener_limits}
        self._by_address: dict[str, int] = {}
        self._rate = Rate(NO_LIMIT)
        self.set_limits(settings, {})

    def set_limits(self, settings: BrokerSettings, overrides: Mapping[str, int]) -> None:
        """Go by `settings` from now on. What waits for a rate waits on for the time it was told."""
        self._overrides = overrides
        self._per_address_max = settings.max_connections_per_ip
        self._connections_max = settings.max_connections
        self._rate.limit = settings.max_connection_creation_rate
        several = len(self._listeners) > 1
        self._protected = settings.inter_broker_listener_name if several else None
        for name, limits in settings.listener_limits:
            listener = self._listeners[name]
            listener.connections_max = limits.connections_max
            listener.rate.limit = limits.creation_rate_max

    def counts(self) -> list[tuple[str, int, int]]:
        """The listeners with the connections that each has, and those that it has let in so far."""
        return [(name, one.open, one.accepted) for name, one in self._listeners.items()]

    def wait_s(self, listener: str, now_s: float) -> float:
        """For how long nobody is to be accepted; `UNTIL_ONE_CLOSES`: see there."""
        mine = self._listeners[listener]
        if mine.open >= mine.connections_max:
            return UNTIL_ONE_CLOSES
        if listener != self._protected and self.open >= self._connections_max:
            return UNTIL_ONE_CLOSES
        return max(0.0, mine.not_before_s - now_s)

    def admit(self, listener: str, address: str, now_s: float) -> int | None:
        """Somebody was accepted and is counted; or is to be closed at once, not being counted:
        then the number of connections that their address may have."""
        mine = self._listeners[listener]
        delay_s = mine.rate.count(now_s)
        if listener != self._protected:
            delay_s = max(delay_s, self._rate.count(now_s))
        if delay_s:
            mine.not_before_s = now_s + delay_s
        count = self._by_address.get(address, 0)
        allowed = self._overrides.get(address, self._per_address_max)
        if count >= allowed:
            return allowed
        self._by_address[address] = count + 1
        self.open += 1
        mine.open += 1
        mine.accepted += 1
        return None

    def left(self, listener: str, address: str) -> None:
        """One that was admitted has closed."""
        self.open -= 1
        self._listeners[listener].open -= 1
        count = self._by_address[address] - 1
        if count:
            self._by_address[address] = count
        else:
            del self._by_address[address]

    def excess(self) -> int:
        """How many connections of listeners that are not protected are to be closed."""
        unprotected = self.open
        if self._protected is not None:
            unprotected -= self._listeners[self._protected].open
        return max(0, min(self.open - self._connections_max, unprotected))

    def is_protected(self, listener: str) -> bool:
        """Whether a listener's connections are never closed to make room."""
        return listener == self._protected
