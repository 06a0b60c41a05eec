"""Connection limits: counts and decisions only; `registry` does the waiting and closing.

The rules are those of Apache Kafka's ConnectionQuotas. At a listener's limit, or at the broker's
`max.connections`, new connections are not accepted until one closes. The inter-broker listener, if
it is not the only one, still accepts, and connections of other listeners are closed to make room.
A new connection from an address at its limit is closed. New connections beyond
`max.connection.creation.rate` wait.
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
"""The longest delay of the next connection when a rate is exceeded."""

UNTIL_ONE_CLOSES: Final = float("inf")
"""The delay when a limit is reached: until a connection closes."""


class Rate:
    """Events a second over the last ten to eleven seconds, as Apache Kafka measures them.

    So after an idle time a burst of ten seconds' worth is allowed.
    """

    __slots__ = ("_samples", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._samples: deque[list[float]] = deque()  # [start, last event, events]

    def count(self, now_s: float) -> float:
        """Count an event, and return how many seconds to delay the next one."""
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
    """Memory of requests that are being received and need more than the smallest arena.

    As with `queued.max.request.bytes` in Apache Kafka, the last admitted request may exceed the
    limit: memory for a whole request is reserved at once, so that two half-read requests can't
    wait for each other.
    """

    def __init__(self) -> None:
        self.reserved_bytes = 0
        self._waiting: dict[Callable[[], object], None] = {}

    def reserve(self, size: int, limit: int, when_released: Callable[[], object]) -> bool:
        """Reserve `size` bytes, unless `limit` is reached already; a limit below 1 is none.

        If it is, `when_released` is called when it is time to retry.
        """
        if 0 < limit <= self.reserved_bytes:
            self._waiting[when_released] = None
            return False
        self.reserved_bytes += size
        return True

    def release(self, size: int) -> None:
        """Release `size` bytes, and wake those who wait for memory."""
        self.reserved_bytes -= size
        waiting, self._waiting = self._waiting, {}
        for when_released in waiting:
            when_released()

    def cancel(self, when_released: Callable[[], object]) -> None:
        """Stop waiting for memory."""
        self._waiting.pop(when_released, None)


class _ListenerCount:
    """One listener's connections and limits."""

    __slots__ = ("accepted", "connections_max", "not_before_s", "open", "rate")

    def __init__(self) -> None:
        self.open = 0
        self.accepted = 0
        """How many were accepted since the start."""
        self.connections_max = NO_LIMIT
        self.rate = Rate(NO_LIMIT)
        self.not_before_s = 0.0


class ConnectionLimits:
    """Counts connections by listener and address, and applies the limits.

    `overrides` of `set_limits` are by IP address, in the form that `Listening` passes them.
    """

    def __init__(self, settings: BrokerSettings) -> None:
        self.open = 0
        self._listeners = {name: _ListenerCount() for name, _ in settings.listener_limits}
        self._by_address: dict[str, int] = {}
        self._rate = Rate(NO_LIMIT)
        self.set_limits(settings, {})

    def set_limits(self, settings: BrokerSettings, overrides: Mapping[str, int]) -> None:
        """Apply `settings`. Delays that have begun for a rate keep their length."""
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
        """For each listener its name, open connections, and connections accepted so far."""
        return [
            (name, listener.open, listener.accepted) for name, listener in self._listeners.items()
        ]

    def wait_s(self, listener: str, now_s: float) -> float:
        """How long the listener must not accept, in seconds or `UNTIL_ONE_CLOSES`."""
        mine = self._listeners[listener]
        if mine.open >= mine.connections_max:
            return UNTIL_ONE_CLOSES
        if listener != self._protected and self.open >= self._connections_max:
            return UNTIL_ONE_CLOSES
        return max(0.0, mine.not_before_s - now_s)

    def admit(self, listener: str, address: str, now_s: float) -> int | None:
        """Count an accepted connection and return None; or, if its address is at its limit, do not
        count it and return that limit: it is to be closed."""
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
        """Count an admitted connection as closed."""
        self.open -= 1
        self._listeners[listener].open -= 1
        count = self._by_address[address] - 1
        if count:
            self._by_address[address] = count
        else:
            del self._by_address[address]

    def excess(self) -> int:
        """How many connections of unprotected listeners must be closed."""
        unprotected = self.open
        if self._protected is not None:
            unprotected -= self._listeners[self._protected].open
        return max(0, min(self.open - self._connections_max, unprotected))

    def is_protected(self, listener: str) -> bool:
        """Whether a listener's connections are never closed to make room."""
        return listener == self._protected
